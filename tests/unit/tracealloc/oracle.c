/*
 * A build of the interposer that compares every call stack with libunwind's, at the same call. For
 * tests only: libunwind locks, maps memory and takes its time. Our own functions are reached by
 * the linker's --wrap, so that what is compared is what is recorded.
 *
 * TA_ORACLE_OUT names a file to which each process adds one line at its end, and the first
 * differences that it has found: "EXE EVENTS EQUAL DISTINCT DISTINCT_EQUAL".
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/stack/stack.h"
#include "tracealloc/stack/unwind.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#define MAX_FRAMES   512u
#define MAX_THREADS  64u
#define MAX_NODES    (1u << 20)
#define STACKS_LOG2  20u
#define MAX_EXAMPLES 12u

/* A stack, innermost frame first. */
struct oracle_stack {
	uint32_t n;
	uint32_t stop;
	uintptr_t pc[MAX_FRAMES];
};

struct oracle_node {
	uintptr_t pc;
	uint32_t parent;
	bool is_stop;
};

struct oracle_entry {
	uint64_t hash; /* of libunwind's frames; 0: free */
	bool differs;
};

static struct oracle_node *nodes[MAX_THREADS];
static struct oracle_entry *entries;
static _Atomic bool busy;
static _Thread_local bool is_inside; /* libunwind maps memory */
static uint64_t n_events;
static uint64_t n_equal;
static uint64_t n_unplaced; /* libunwind did not come to the hook's caller */
static struct {
	struct oracle_stack ours;
	struct oracle_stack theirs;
	uint64_t count;
} examples[MAX_EXAMPLES];
static uint32_t n_examples;

uint32_t __real_ta_unwind_capture(struct ta_thread *thread, const uintptr_t *frame);
uint32_t __wrap_ta_unwind_capture(struct ta_thread *thread, const uintptr_t *frame);
uint32_t __real_ta_stack_write(struct ta_thread *thread, uint32_t parent, uintptr_t pc,
			       uint64_t hash);
uint32_t __wrap_ta_stack_write(struct ta_thread *thread, uint32_t parent, uintptr_t pc,
			       uint64_t hash);
bool __real_ta_stack_name_stop(struct ta_thread *thread, uint32_t stop, uint32_t *ret_id);
bool __wrap_ta_stack_name_stop(struct ta_thread *thread, uint32_t stop, uint32_t *ret_id);

static void *map(size_t n_bytes)
{
	long memory = ta_syscall(SYS_mmap, 0, (long)n_bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory < 0)
		abort();
	return (void *)memory;
}

static void note_node(struct ta_thread *thread, uint32_t id, struct oracle_node node)
{
	struct oracle_node **of_thread = &nodes[thread->serial % MAX_THREADS];

	if (!*of_thread)
		*of_thread = map(MAX_NODES * sizeof(**of_thread));
	if (id < MAX_NODES)
		(*of_thread)[id] = node;
}

uint32_t __wrap_ta_stack_write(struct ta_thread *thread, uint32_t parent, uintptr_t pc,
			       uint64_t hash)
{
	uint32_t id = __real_ta_stack_write(thread, parent, pc, hash);

	if (id)
		note_node(thread, id, (struct oracle_node){ .pc = pc, .parent = parent });
	return id;
}

bool __wrap_ta_stack_name_stop(struct ta_thread *thread, uint32_t stop, uint32_t *ret_id)
{
	if (!__real_ta_stack_name_stop(thread, stop, ret_id))
		return false;
	if (*ret_id)
		note_node(thread, *ret_id, (struct oracle_node){ .pc = stop, .is_stop = true });
	return true;
}

static void read_ours(const struct ta_thread *thread, uint32_t id, struct oracle_stack *ret_stack)
{
	const struct oracle_node *of_thread = nodes[thread->serial % MAX_THREADS];

	ret_stack->n = 0;
	ret_stack->stop = TRACE_STOP_NONE;
	while (id && id < MAX_NODES && of_thread && ret_stack->n < MAX_FRAMES) {
		const struct oracle_node *node = &of_thread[id];

		if (node->is_stop || !node->pc) {
			ret_stack->stop = (uint32_t)node->pc;
			return;
		}
		ret_stack->pc[ret_stack->n++] = node->pc;
		id = node->parent;
	}
}

/* False: libunwind does not come out at the hook's caller. */
static bool read_theirs(const uintptr_t *frame, struct oracle_stack *ret_stack)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unw_word_t ip;
	unw_word_t sp;
	bool is_interrupted = false;

	ret_stack->n = 0;
	ret_stack->stop = TRACE_STOP_NONE;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do {
		if (unw_step(&cursor) <= 0)
			return false;
		unw_get_reg(&cursor, UNW_REG_SP, &sp);
	} while (sp < (uintptr_t)&frame[2]);
	for (;;) {
		unw_get_reg(&cursor, UNW_REG_IP, &ip);
		if (ip == 0 || ret_stack->n == MAX_FRAMES)
			break;
		ret_stack->pc[ret_stack->n++] = ip + is_interrupted;
		is_interrupted = unw_is_signal_frame(&cursor) > 0;
		if (unw_step(&cursor) <= 0)
			break;
	}
	return ret_stack->n > 0 && ret_stack->pc[0] == frame[1];
}

static bool is_equal(const struct oracle_stack *ours, const struct oracle_stack *theirs)
{
	if (ours->stop == TRACE_STOP_DEPTH)
		return ours->n < theirs->n &&
		       memcmp(ours->pc, theirs->pc, ours->n * sizeof(*ours->pc)) == 0;
	return ours->stop == TRACE_STOP_NONE && ours->n == theirs->n &&
	       memcmp(ours->pc, theirs->pc, ours->n * sizeof(*ours->pc)) == 0;
}

static void keep_example(const struct oracle_stack *ours, const struct oracle_stack *theirs)
{
	uint32_t i;

	for (i = 0; i < n_examples; i++)
		if (examples[i].ours.n == ours->n &&
		    memcmp(examples[i].ours.pc, ours->pc, ours->n * sizeof(*ours->pc)) == 0)
			break;
	if (i == MAX_EXAMPLES)
		return;
	if (i == n_examples) {
		examples[n_examples].ours = *ours;
		examples[n_examples++].theirs = *theirs;
	}
	examples[i].count++;
}

static void note_distinct(const struct oracle_stack *theirs, bool equal)
{
	uint64_t hash = 1;

	for (uint32_t i = 0; i < theirs->n; i++)
		hash = (hash ^ theirs->pc[i]) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
	if (!entries)
		entries = map(sizeof(*entries) << STACKS_LOG2);
	for (uint64_t i = hash >> (64 - STACKS_LOG2);; i = (i + 1) % (1u << STACKS_LOG2)) {
		if (entries[i].hash && entries[i].hash != hash)
			continue;
		entries[i].hash = hash;
		entries[i].differs |= !equal;
		return;
	}
}

static void compare(const struct ta_thread *thread, const uintptr_t *frame, uint32_t id)
{
	static struct oracle_stack ours;
	static struct oracle_stack theirs;
	bool equal;

	if (!read_theirs(frame, &theirs)) {
		n_unplaced++;
		return;
	}
	read_ours(thread, id, &ours);
	equal = is_equal(&ours, &theirs);
	n_events++;
	n_equal += equal;
	note_distinct(&theirs, equal);
	if (!equal)
		keep_example(&ours, &theirs);
}

uint32_t __wrap_ta_unwind_capture(struct ta_thread *thread, const uintptr_t *frame)
{
	int saved = errno;
	uint32_t id = __real_ta_unwind_capture(thread, frame);

	if (is_inside)
		return id;
	is_inside = true;
	while (atomic_exchange(&busy, true))
		ta_relax();
	compare(thread, frame, id);
	atomic_store(&busy, false);
	is_inside = false;
	errno = saved;
	return id;
}

static void print_frames(int fd, const char *name, const struct oracle_stack *stack)
{
	dprintf(fd, "  %s: %u frames, stop %u\n", name, stack->n, stack->stop);
	for (uint32_t i = 0; i < stack->n; i++) {
		Dl_info info = { 0 };

		dladdr((void *)(stack->pc[i] - 1), &info);
		dprintf(fd, "    %#lx %s+%#lx %s\n", stack->pc[i],
			info.dli_fname ? info.dli_fname : "?",
			info.dli_fname ? stack->pc[i] - (uintptr_t)info.dli_fbase : 0,
			info.dli_sname ? info.dli_sname : "");
	}
}

__attribute__((constructor)) static void begin(void)
{
	is_inside = true;
	unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
	is_inside = false;
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("TA_ORACLE_OUT");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
	uint64_t n_distinct = 0;
	uint64_t n_differ = 0;

	if (fd < 0 || n_events + n_unplaced == 0)
		return;
	for (size_t i = 0; entries && i < 1u << STACKS_LOG2; i++) {
		n_distinct += entries[i].hash != 0;
		n_differ += entries[i].differs;
	}
	dprintf(fd, "%s events %lu equal %lu distinct %lu equal %lu unplaced %lu\n",
		program_invocation_short_name, n_events, n_equal, n_distinct, n_distinct - n_differ,
		n_unplaced);
	for (uint32_t i = 0; i < n_examples; i++) {
		dprintf(fd, "  difference seen %lu times:\n", examples[i].count);
		print_frames(fd, "ours", &examples[i].ours);
		print_frames(fd, "libunwind", &examples[i].theirs);
	}
	close(fd);
}
