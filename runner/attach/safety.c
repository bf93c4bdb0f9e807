#include "runner/attach/safety.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "runner/processes/image-proc.h"
#include "schemas/attach.h"
#include "schemas/recording.h"

#define MAX_RANGES  128u
#define MAX_FRAMES  512
#define STACK_BYTES (256u << 10) /* that are looked through behind where unwinding ends */
#define SHORT_BYTES (32u << 10) /* of a whole stack that is looked through instead of unwound */

struct unsafe {
	struct safety_place place;
	bool calls_back;
};

/* Code that is in no file: mappings that may be executed. */
struct made_code {
	struct module_range *ranges;
	size_t n;
	int err;
};

struct safety {
	pid_t pid;
	uintptr_t handler_return;
	struct made_code made;
	Dwfl *dwfl;
	struct module_range libc; /* its code */
	struct unsafe unsafe[MAX_RANGES];
	size_t n;
	struct module_range around; /* all of them */
	struct module_range thunks; /* of our library, which may lie on stacks for long */
	const struct safety_place *places; /* in order of address */
	size_t n_places;
	uint64_t words[SHORT_BYTES / sizeof(uint64_t)];
};

/* What holds a lock of libc or changes what dlopen reads, besides malloc and the loader. */
static const struct {
	const char *name;
	bool calls_back; /* functions of the program, from within */
} libc_functions[] = {
	{ "fork", true },
	{ "vfork", false },
	{ "_Fork", false },
	{ "__libc_fork", true },
	{ "pthread_create", false },
	{ "pthread_exit", true },
	{ "exit", true },
	{ "quick_exit", true },
	{ "dl_iterate_phdr", true },
	{ "dlopen", true },
	{ "dlclose", true },
	{ "dlsym", false },
	{ "dlvsym", false },
	{ "dlmopen", true },
	{ "dladdr", false },
	{ "dladdr1", false },
	{ "dlinfo", false },
	{ "dlerror", false },
	{ "__cxa_finalize", true },
	{ "__cxa_thread_atexit_impl", false },
	{ "__register_atfork", false },
	{ "pthread_key_create", false },
	{ "posix_spawn", false },
	{ "posix_spawnp", false },
	{ "system", false },
	{ "popen", false },
	{ "pthread_getattr_np", false },
	{ "__libc_dlopen_mode", true },
	{ "__cxa_atexit", false },
	{ "on_exit", false },
	{ "pthread_key_delete", false },
	{ "pthread_cancel", false },
};

static const char *const allocator_functions[] = {
	"malloc", "calloc", "realloc", "free",	 "memalign", "aligned_alloc", "posix_memalign",
	"_Znwm",  "_Znam",  "_ZdlPv",  "_ZdaPv", "_ZdlPvm",  "_ZdaPvm",	      "malloc_usable_size",
};

static void add(struct safety *safety, struct module_range range, enum safety_verdict verdict)
{
	if (!range.start || safety->n == MAX_RANGES)
		return;
	if (safety->n == 0 || range.start < safety->around.start)
		safety->around.start = range.start;
	if (range.end > safety->around.end)
		safety->around.end = range.end;
	safety->unsafe[safety->n++] = (struct unsafe){ .place = { range, verdict } };
}

/*
 * malloc.c is one piece of libc's code: its own functions stand in front of malloc, and malloc_info
 * is its last one.
 */
static int add_libc(struct safety *safety, const struct remote_modules *modules)
{
	const struct remote_module *libc = remote_modules_find(modules, "libc.so");

	if (!libc)
		libc = remote_modules_find(modules, "libc-2.");
	if (!libc)
		return -ENOSYS;
	safety->libc = libc->code;
	struct module_range first = remote_module_around(modules, libc, "malloc");
	struct module_range last = remote_module_function(modules, libc, "malloc_info");
	if (!first.start || last.end <= first.start)
		return -ENOSYS;
	add(safety, (struct module_range){ first.start, last.end }, SAFETY_IN_MALLOC);
	for (size_t i = 0; i < sizeof(libc_functions) / sizeof(*libc_functions); i++) {
		size_t n = safety->n;

		add(safety, remote_module_function(modules, libc, libc_functions[i].name),
		    SAFETY_IN_LIBC);
		safety->unsafe[n].calls_back = safety->n > n && libc_functions[i].calls_back;
	}
	return 0;
}

static void add_allocator(struct safety *safety, const struct remote_modules *modules,
			  const struct remote_module *module)
{
	struct module_range range = remote_module_function(modules, module, "malloc");

	if (!range.start)
		return;
	for (size_t i = 0; i < sizeof(allocator_functions) / sizeof(*allocator_functions); i++)
		add(safety, remote_module_function(modules, module, allocator_functions[i]),
		    SAFETY_IN_MALLOC);
}

static void add_modules(struct safety *safety, const struct remote_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++) {
		const struct remote_module *module = &modules->items[i];

		if (strstr(module->path, RECORDING_LIBRARY)) {
			add(safety, module->code, SAFETY_IN_US);
			safety->thunks = remote_module_function(modules, module, ATTACH_THUNKS);
		} else if (module->is_loader)
			add(safety, module->code, SAFETY_IN_LOADER);
		else if (module->code.start && module->code.start != safety->libc.start)
			add_allocator(safety, modules, module);
	}
}

static void note_made(void *user, const struct image_map *map)
{
	struct made_code *made = user;

	if (map->path[0] == '/' || map->path[0] == '[' || !(map->prot & PROT_EXEC) || made->err < 0)
		return;
	made->err = grow_array_of(&made->ranges, made->n, 1, sizeof(*made->ranges));
	if (made->err == 0)
		made->ranges[made->n++] = (struct module_range){ map->start, map->end };
}

/* Symbols are not asked for: unwind tables lie in the files themselves. */
static int find_nothing(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
			const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	(void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc;
	*ret_name = NULL;
	return -1;
}

/* A file as the process sees it, which may have another root folder than we have. */
static int find_module_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
			    char **ret_name, Elf **ret_elf)
{
	const struct safety *safety = *user;
	char path[PATH_MAX + 32];
	int fd = -1;

	if (safety && name[0] == '/') {
		snprintf(path, sizeof(path), "/proc/%d/root%s", (int)safety->pid, name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return dwfl_linux_proc_find_elf(module, user, name, base, ret_name, ret_elf);
	*ret_name = strdup(name);
	return fd;
}

static int give_user(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
		     void *safety)
{
	(void)module, (void)name, (void)base;
	*user = safety;
	return DWARF_CB_OK;
}

static int begin_unwinding(struct safety *safety)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = find_module_file,
		.find_debuginfo = find_nothing,
	};

	safety->dwfl = dwfl_begin(&callbacks);
	if (!safety->dwfl)
		return -ENOMEM;
	if (dwfl_linux_proc_report(safety->dwfl, safety->pid) != 0 ||
	    dwfl_report_end(safety->dwfl, NULL, NULL) != 0 ||
	    dwfl_getmodules(safety->dwfl, give_user, safety, 0) != 0 ||
	    dwfl_linux_proc_attach(safety->dwfl, safety->pid, true) != 0)
		return -EIO;
	return 0;
}

int safety_create(const struct remote_modules *modules, uintptr_t handler_return,
		  struct safety **ret_safety)
{
	struct safety *safety = calloc(1, sizeof(*safety));

	if (!safety)
		return -ENOMEM;
	safety->pid = modules->pid;
	safety->handler_return = handler_return;
	int r = add_libc(safety, modules) ?: image_each_map(safety->pid, note_made, &safety->made);
	r = r ?: safety->made.err;
	r = r ?: begin_unwinding(safety);
	if (r < 0)
		return safety_destroy(safety), r;
	add_modules(safety, modules);
	*ret_safety = safety;
	return 0;
}

void safety_add_ours(struct safety *safety, struct module_range range)
{
	add(safety, range, SAFETY_IN_US);
}

DEFINE_ORDER(compare_places, struct safety_place, BY(range.start));

void safety_use_places(struct safety *safety, struct safety_place *places, size_t n)
{
	qsort(places, n, sizeof(*places), compare_places);
	safety->places = places;
	safety->n_places = n;
}

struct module_range safety_malloc(const struct safety *safety)
{
	/* The first thing that add_libc() adds. */
	return safety->unsafe[0].place.range;
}

struct safety *safety_destroy(struct safety *safety)
{
	if (!safety)
		return NULL;
	if (safety->dwfl)
		dwfl_end(safety->dwfl);
	free_all(safety->made.ranges, safety);
	return NULL;
}

static bool is_in(struct module_range range, uintptr_t pc)
{
	return pc >= range.start && pc < range.end;
}

static const struct safety_place *find_place(const struct safety *safety, uintptr_t pc)
{
	size_t at = array_n_while(safety->places, safety->n_places, it, it->range.end <= pc);

	return at < safety->n_places && is_in(safety->places[at].range, pc) ? &safety->places[at]
									    : NULL;
}

static const struct unsafe *find_function(const struct safety *safety, uintptr_t pc)
{
	return is_in(safety->around, pc)
		       ? array_find(safety->unsafe, safety->n, it, is_in(it->place.range, pc))
		       : NULL;
}

static bool is_thunk(const struct safety *safety, uintptr_t pc)
{
	return is_in(safety->thunks, pc) && pc % ATTACH_THUNK_BYTES == 0;
}

/* A return address may stand right behind a function that ends in a call. NULL: it is good. */
static const struct safety_place *find_unsafe(const struct safety *safety, uintptr_t pc,
					      bool is_return)
{
	const struct unsafe *unsafe = find_function(safety, pc - is_return);

	if (is_thunk(safety, pc))
		return NULL;
	return unsafe ? &unsafe->place : find_place(safety, pc);
}

static bool is_listed(const struct made_code *made, uintptr_t pc)
{
	return array_find(made->ranges, made->n, it, is_in(*it, pc));
}

/* There may be more of it by now. */
static bool is_made(struct safety *safety, uintptr_t pc)
{
	struct made_code *made = &safety->made;

	if (is_listed(made, pc))
		return true;
	if (dwfl_addrmodule(safety->dwfl, pc))
		return false;
	made->n = 0;
	image_each_map(safety->pid, note_made, made);
	return is_listed(made, pc);
}

struct walk {
	const struct safety *safety;
	enum safety_verdict verdict; /* of the outermost bad frame */
	uintptr_t exit; /* of the frame around that */
	uintptr_t last; /* where it ends */
	int n;
	bool has_left_libc; /* a frame is in other code than libc's and the loader's */
};

static int see_frame(Dwfl_Frame *frame, void *user)
{
	struct walk *walk = user;
	bool is_activation = false;
	Dwarf_Addr pc;

	if (walk->n++ >= MAX_FRAMES || !dwfl_frame_pc(frame, &pc, &is_activation))
		return DWARF_CB_ABORT;
	if (pc == 0)
		return DWARF_CB_OK;
	const struct safety_place *unsafe = find_unsafe(walk->safety, pc, !is_activation);
	if (unsafe) {
		walk->verdict = unsafe->verdict;
		walk->exit = 0;
	} else if (walk->verdict != SAFETY_GOOD && !walk->exit) {
		walk->exit = pc;
	}
	walk->last = pc;
	if (!is_in(walk->safety->libc, pc))
		walk->has_left_libc = true;
	return DWARF_CB_OK;
}

/* Whatever of the stack looks like a frame in such a function is taken for one. */
static enum safety_verdict look_through(const struct safety *safety, uintptr_t sp, bool is_made)
{
	auto_free uint64_t *words = malloc(STACK_BYTES);
	size_t n_bytes = STACK_BYTES, n;

	if (!words)
		return SAFETY_IN_LIBC;
	/* The end of the stack may come before: half of it is tried then, and so on. */
	while (n_bytes >= 4096 && remote_read(safety->pid, sp, words, n_bytes) < 0)
		n_bytes /= 2;
	n = n_bytes >= 4096 ? n_bytes / sizeof(*words) : 0;
	is_made = is_made && !array_find(words, n, it, *it == safety->handler_return);
	for (size_t i = 0; i < n; i++) {
		const struct unsafe *unsafe = find_function(safety, words[i] - 1);

		if (unsafe && (unsafe->calls_back || !is_made) && !is_thunk(safety, words[i]))
			return unsafe->place.verdict;
	}
	return SAFETY_GOOD;
}

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

struct sequences {
	uint64_t pointer;
	uint32_t size;
	uint32_t signature;
	uint32_t flags;
	uint32_t pad;
};

#define SEQUENCE_OFFSET 8 /* of rseq_cs in struct rseq, linux/rseq.h */

/* As struct rseq_cs. */
struct sequence {
	uint32_t version;
	uint32_t flags;
	uint64_t start;
	uint64_t n_bytes;
	uint64_t abort;
};

/* The kernel takes the pointer away late: what counts is where the thread stands. */
static bool is_in_sequence(const struct remote_thread *thread)
{
	struct sequences sequences = { 0 };
	struct sequence sequence = { 0 };
	uint64_t at = 0;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, (void *)sizeof(sequences),
		   &sequences) < 0 ||
	    !sequences.pointer ||
	    remote_read(thread->tid, sequences.pointer + SEQUENCE_OFFSET, &at, sizeof(at)) < 0 ||
	    at == 0 || remote_read(thread->tid, at, &sequence, sizeof(sequence)) < 0)
		return false;
	return thread->registers.rip - sequence.start < sequence.n_bytes;
}

/*
 * Of thousands of threads nearly all wait somewhere, at the begin of their stacks, which glibc puts
 * below what their thread pointers point to. Where no word of that leads to a bad place, no frame
 * does, and it need not be unwound, which takes ten times as long.
 */
static bool is_plainly_good(struct safety *safety, const struct remote_thread *thread)
{
	uintptr_t sp = thread->registers.rsp & ~7ull, n_bytes = thread->registers.fs_base - sp;

	if (!remote_is_waiting(thread) || n_bytes > sizeof(safety->words) ||
	    find_unsafe(safety, thread->registers.rip, false) ||
	    remote_read(safety->pid, sp, safety->words, n_bytes) < 0)
		return false;
	return !array_find(safety->words, n_bytes / sizeof(*safety->words), it,
			   find_unsafe(safety, *it, true) || find_unsafe(safety, *it, false));
}

enum safety_verdict safety_judge(struct safety *safety, const struct remote_thread *thread,
				 uintptr_t *ret_exit)
{
	struct walk walk = { .safety = safety, .last = thread->registers.rip };
	const struct safety_place *unsafe = find_unsafe(safety, thread->registers.rip, false);

	if (is_plainly_good(safety, thread)) {
		if (ret_exit)
			*ret_exit = 0;
		return SAFETY_GOOD;
	}
	int r = dwfl_getthread_frames(safety->dwfl, thread->tid, see_frame, &walk);
	if (walk.n == 0 && unsafe)
		walk.verdict = unsafe->verdict;
	/* What it is at the entry of may run for long: a moment is enough to leave that. */
	if (ret_exit)
		*ret_exit = walk.verdict == SAFETY_IN_ENTRY ? 0 : walk.exit;
	if (walk.verdict != SAFETY_GOOD)
		return walk.verdict;
	if (is_in_sequence(thread))
		return SAFETY_IN_SEQUENCE;
	/* All of it is libc's: it is about to begin or to end, and may hold a lock for that. */
	if (!walk.has_left_libc && !remote_is_waiting(thread))
		return SAFETY_IN_LIBC;
	return r == 0 ? SAFETY_GOOD
		      : look_through(safety, thread->registers.rsp, is_made(safety, walk.last));
}

const char *safety_text(enum safety_verdict verdict)
{
	static const char *const texts[] = {
		[SAFETY_GOOD] = "",
		[SAFETY_IN_MALLOC] = "inside malloc",
		[SAFETY_IN_LOADER] = "inside the loader (dlopen, a constructor)",
		[SAFETY_IN_LIBC] = "inside fork, or about to begin or end",
		[SAFETY_IN_US] = "inside the recording library",
		[SAFETY_IN_SEQUENCE] = "in a restartable sequence",
		[SAFETY_IN_ENTRY] = "at the entry of a function that is chosen",
	};

	return texts[verdict];
}
