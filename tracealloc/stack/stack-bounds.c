#include "tracealloc/stack/stack-bounds.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "tracealloc/arch/arch.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#define DESCRIPTOR_BYTES 2048u /* of libc's thread descriptor that are searched */
#define MAX_BEHIND	 16384u /* descriptor and rounding behind the thread pointer */
#define DEFAULT_LIMIT	 (8u << 20)
#define LEAST_START	 65536u /* below vm.mmap_min_addr of usual hosts nothing is mapped */
#define MAX_STACK_BYTES	 (UINT64_C(1) << 40)

extern void *__libc_stack_end __attribute__((weak));

/* Where the stack's (address, size) stand in the descriptor, in words; 0: not found yet. */
static _Atomic uint32_t descriptor_word;

/* Are these the address and size of the block that holds this stack and its descriptor? */
static bool plausible(const uintptr_t *pair, uintptr_t self, uintptr_t here)
{
	uintptr_t start = pair[0];
	uintptr_t end = start + pair[1];

	/*
	 * Two neighbouring words, a small number and a pointer into the block, add up to the same.
	 */
	return start >= LEAST_START && start % 16 == 0 && pair[1] < MAX_STACK_BYTES &&
	       start < here && end > self + 512 && end - self <= MAX_BEHIND && end > start;
}

static bool find_descriptor(uintptr_t self, uintptr_t here, const uintptr_t **ret_pair)
{
	const uintptr_t *words = (const uintptr_t *)self;
	uint32_t known = atomic_load_explicit(&descriptor_word, memory_order_relaxed);

	if (known && plausible(&words[known], self, here)) {
		*ret_pair = &words[known];
		return true;
	}
	for (uint32_t i = 1; i < DESCRIPTOR_BYTES / sizeof(*words); i++) {
		if (!plausible(&words[i], self, here))
			continue;
		atomic_store_explicit(&descriptor_word, i, memory_order_relaxed);
		*ret_pair = &words[i];
		return true;
	}
	return false;
}

/* Read one hexadecimal number; *text moves behind it. */
static uintptr_t parse_hex(const char **text)
{
	uintptr_t value = 0;

	for (;; (*text)++) {
		char c = **text;

		if (c >= '0' && c <= '9')
			value = value << 4 | (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uintptr_t)(c - 'a' + 10);
		else
			return value;
	}
}

/* Does this line of maps, "start-end ...", hold address? */
static bool line_holds(const char *line, uintptr_t address, uintptr_t *ret_start,
		       uintptr_t *ret_end)
{
	uintptr_t start = parse_hex(&line);

	if (*line++ != '-')
		return false;
	uintptr_t end = parse_hex(&line);
	if (address < start || address >= end)
		return false;
	*ret_start = start;
	*ret_end = end;
	return true;
}

/*
 * A search for the map that holds address. The head of each line is collected over the borders of
 * reads.
 */
struct search {
	uintptr_t address, start, end;
	uint32_t length;
	char line[40];
};

static bool search_text(struct search *search, const char *text, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++) {
		if (text[i] != '\n') {
			if (search->length < sizeof(search->line) - 1)
				search->line[search->length++] = text[i];
			continue;
		}
		search->line[search->length] = '\0';
		search->length = 0;
		if (line_holds(search->line, search->address, &search->start, &search->end))
			return true;
	}
	return false;
}

static bool search_file(struct search *search)
{
	long fd =
		ta_syscall(SYS_openat, -1, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	char buffer[1024];
	bool is_found = false;
	long n;

	while (fd >= 0 && !is_found &&
	       (n = ta_syscall(SYS_read, fd, (long)buffer, sizeof(buffer), 0, 0, 0)) > 0)
		is_found = search_text(search, buffer, (size_t)n);
	if (fd >= 0)
		ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return is_found;
}

/*
 * By the maps of the process; n_bytes 0: to be read. Nothing is changed when they cannot be read.
 */
static bool find_map(const char *maps, size_t n_bytes, uintptr_t *ret_start, uintptr_t *ret_end)
{
	struct search search = { .address = *ret_start };

	if (n_bytes ? !search_text(&search, maps, n_bytes) : !search_file(&search))
		return false;
	*ret_start = search.start;
	*ret_end = search.end;
	return true;
}

/* Is it glibc's? */
static bool has_long_descriptor(void)
{
#if defined(TA_AGENT)
	return ta_seat_is_glibc();
#else
	return &__libc_stack_end != NULL;
#endif
}

/* As find_descriptor(), of a thread that is on another stack, where another one has been seen. */
static bool recall_descriptor(uintptr_t self, const uintptr_t **ret_pair)
{
	uint32_t known = atomic_load_explicit(&descriptor_word, memory_order_relaxed);

	*ret_pair = (const uintptr_t *)self + known;
	return known && plausible(*ret_pair, self, self);
}

void ta_stack_learn(uintptr_t sp)
{
	const uintptr_t *pair;

	if (has_long_descriptor())
		find_descriptor(ta_thread_self(), sp, &pair);
}

void ta_stack_bounds(bool is_first, uintptr_t *ret_start, uintptr_t *ret_end)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t self = ta_thread_self();
	uintptr_t start = 0;
	uintptr_t end = 0;
	const uintptr_t *pair;

	bool is_own = false;

	if (here >= ta_image.stack_start && here < ta_image.stack_end) {
		is_first = true;
	} else if (has_long_descriptor()) {
		is_own = find_descriptor(self, here, &pair) ||
			 (!is_first && recall_descriptor(self, &pair));
		start = is_own ? pair[0] : 0;
		end = is_own ? self : 0; /* static TLS lies above the stack, too */
	} else {
		/* Another C library (musl): its descriptor is shorter than what is searched. */
		start = here;
		if (!find_map(NULL, 0, &start, &end))
			start = 0;
		is_own = self > here && self < end;
		end = is_own ? self : end;
	}
	if (is_first && !is_own) {
		start = ta_image.stack_start;
		end = ta_image.stack_end;
	}
	*ret_start = start;
	*ret_end = end;
}

static uintptr_t stack_limit(void)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	ta_syscall(SYS_getrlimit, RLIMIT_STACK, (long)&limit, 0, 0, 0, 0);
	return limit.rlim_cur > (UINT64_C(1) << 40) ? DEFAULT_LIMIT : limit.rlim_cur;
}

void ta_stack_bounds_main(const char *maps, size_t n_bytes, uintptr_t *ret_start,
			  uintptr_t *ret_end)
{
	uintptr_t inside = &__libc_stack_end ? (uintptr_t)__libc_stack_end
					     : (uintptr_t)__builtin_frame_address(0);
	uintptr_t start = inside;
	uintptr_t end = (inside | (TA_PAGE_BYTES - 1)) + 1;

	find_map(maps, n_bytes, &start, &end);
	/* The map grows downwards on demand, up to the limit. */
	if (end - stack_limit() < start)
		start = end - stack_limit();
	*ret_start = start;
	*ret_end = end;
}
