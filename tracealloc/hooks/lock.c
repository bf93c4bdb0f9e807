/*
 * The hook of mlockall. The kernel compares all that is mapped with RLIMIT_MEMLOCK, and the pool
 * alone is larger; who may lock without a limit would lock the pool. So the program's maps are
 * locked one by one, and none of ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tracealloc/hooks/hook-call.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/sampler.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

extern const uint8_t __ehdr_start[] __attribute__((visibility("hidden")));
extern const uint8_t _end[] __attribute__((visibility("hidden")));

/* The first piece of ours behind start. */
struct search {
	uintptr_t start;
	uintptr_t ours_start;
	uintptr_t ours_end;
};

typedef void visit_fn(struct search *search, uintptr_t start, size_t n_bytes);

/* All that is ours and large, or there for each thread. */
static void each_of_ours(visit_fn *visit, struct search *search)
{
	uint64_t control_bytes = ta_image.control->control_bytes;
	uint64_t shared = control_bytes + (uint64_t)ta_image.n_shared * RING_CHUNK_BYTES;
	uint64_t all = control_bytes + (uint64_t)ta_image.n_chunks * RING_CHUNK_BYTES;
	uintptr_t extra = (uintptr_t)atomic_load(&ta_image.extra_chunks);

	visit(search, (uintptr_t)ta_image.control, shared);
	if (extra)
		visit(search, extra - shared, all);
	visit(search, (uintptr_t)__ehdr_start, (size_t)(_end - __ehdr_start));
	for (const struct ta_thread *i = atomic_load(&ta_threads); i; i = i->next_all) {
		visit(search, (uintptr_t)i, sizeof(*i));
		if (i->table && i->table != i->small_table)
			visit(search, (uintptr_t)i->table, i->table_size * sizeof(*i->table));
	}
}

static void find_first(struct search *search, uintptr_t start, size_t n_bytes)
{
	uintptr_t end = start + ta_round_to_pages(n_bytes);

	if (end <= search->start || start >= search->ours_start)
		return;
	search->ours_start = start;
	search->ours_end = end;
}

static void unlock(struct search *unused, uintptr_t start, size_t n_bytes)
{
	(void)unused;
	ta_syscall(SYS_munlock, (long)start, (long)ta_round_to_pages(n_bytes), 0, 0, 0, 0);
}

/* A look at all that is mapped, but for what is ours. */
struct walk {
	uint64_t n_bytes;
	bool locks;
	long flags; /* of mlock2 */
};

static void take(struct walk *walk, uintptr_t start, uintptr_t end)
{
	if (start >= end)
		return;
	walk->n_bytes += end - start;
	/* What cannot be read cannot be filled either: that is no error of mlockall's. */
	if (walk->locks && ta_syscall(SYS_mlock2, (long)start, (long)(end - start), walk->flags, 0,
				      0, 0) == -EPERM)
		walk->locks = false; /* a filter of the program's */
}

/* Maps of ours and of the program's may have been joined. */
static void take_map(struct walk *walk, uintptr_t start, uintptr_t end)
{
	if (start >> TA_USER_ADDRESS_BITS) /* [vsyscall] */
		return;
	while (start < end) {
		struct search search = { .start = start, .ours_start = end, .ours_end = end };

		each_of_ours(find_first, &search);
		take(walk, start, search.ours_start);
		start = search.ours_end;
	}
}

/* The head of a line of maps, "start-end ", byte by byte. */
struct line {
	uintptr_t numbers[2];
	unsigned n; /* 2: both are there */
};

static void take_byte(struct walk *walk, struct line *line, char c)
{
	unsigned digit = c >= 'a' ? (unsigned)c - 'a' + 10 : (unsigned)c - '0';

	if (c == '\n') {
		*line = (struct line){ .n = 0 };
	} else if (line->n < 2 && (c == '-' || c == ' ')) {
		if (++line->n == 2)
			take_map(walk, line->numbers[0], line->numbers[1]);
	} else if (line->n < 2) {
		line->numbers[line->n] = line->numbers[line->n] << 4 | (digit & 15);
	}
}

/* False: they cannot be read. */
static bool walk_maps(struct walk *walk)
{
	long fd =
		ta_syscall(SYS_openat, -1, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	struct line line = { .n = 0 };
	char buffer[1024];
	long n;

	if (fd < 0)
		return false;
	while ((n = ta_syscall(SYS_read, fd, (long)buffer, sizeof(buffer), 0, 0, 0)) > 0)
		for (long i = 0; i < n; i++)
			take_byte(walk, &line, buffer[i]);
	ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return n == 0;
}

/* Does all that is mapped without us fit into the limit? */
static bool fits_limit(void)
{
	struct rlimit limit = { .rlim_cur = 0 };
	struct walk walk = { .locks = false };

	ta_syscall(SYS_getrlimit, RLIMIT_MEMLOCK, (long)&limit, 0, 0, 0, 0);
	return walk_maps(&walk) && walk.n_bytes <= limit.rlim_cur;
}

/* False: it is the kernel's to do, or to refuse. With MCL_ONFAULT it fills nothing of ours. */
static bool lock_theirs(int flags)
{
	struct walk walk = { .locks = true, .flags = flags & MCL_ONFAULT ? MLOCK_ONFAULT : 0 };
	long r = ta_syscall(SYS_mlockall, flags | MCL_ONFAULT, 0, 0, 0, 0, 0);

	if (r != 0 && (r != -ENOMEM || !fits_limit()))
		return false;
	if (flags & MCL_FUTURE)
		ta_syscall(SYS_mlockall, flags & ~MCL_CURRENT, 0, 0, 0, 0, 0);
	else if (r != 0 && ta_image.locks_future) /* that ends by MCL_CURRENT alone */
		ta_syscall(SYS_munlockall, 0, 0, 0, 0, 0, 0);
	return walk_maps(&walk) && walk.locks;
}

static int lock_all(int flags)
{
	bool is_ours = ta_image.control && ta_image_is_own();
	int r = 0;

	if (is_ours && (flags & MCL_FUTURE)) /* already for maps that threads make meanwhile */
		ta_image.locks_future = true;
	if (!is_ours || !(flags & MCL_CURRENT) || !lock_theirs(flags))
		r = ta_real.mlockall(flags);
	if (!is_ours || r != 0)
		return r;
	ta_image.locks_future = flags & MCL_FUTURE;
	each_of_ours(unlock, NULL);
	return 0;
}

TA_EXPORT int mlockall(int flags)
{
	const struct ta_call_fields fields = { .op = TRACE_OP_LOCK,
					       .call = TRACE_CALL_MLOCKALL,
					       .detail = (uint32_t)flags };
	struct ta_call call;

	ta_call_begin(&call, TA_FRAME(), RING_EVENTS_MMAP);
	int r = lock_all(flags);
	ta_call_end(&call, r == 0 ? &fields : NULL);
	return r;
}
