/*
 * The hooks of limits that a program sets itself. The pool and our library are mapped into it, and
 * count towards RLIMIT_AS, and what is private of that towards RLIMIT_DATA: what the program asks
 * for is its own, so the kernel is asked for ours on top of that, as far as the hard limit goes,
 * and the program is told what it has set.
 */
#include <errno.h>
#include <sys/resource.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/limit.h"
#include "tracealloc/sampler.h"
#include "tracealloc/stack/unwind-walk.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

#define PRIVATE_BYTES (256u << 10) /* state, table and lists of a thread or two */

extern const uint8_t __ehdr_start[] __attribute__((visibility("hidden")));
extern const uint8_t _end[] __attribute__((visibility("hidden")));

/* So much the limits are above what the program has set. */
static struct space {
	int resource;
	_Atomic rlim_t hidden_soft;
	_Atomic rlim_t hidden_hard;
} spaces[] = { { .resource = RLIMIT_AS }, { .resource = RLIMIT_DATA } };

static rlim_t private_bytes(void)
{
	return (rlim_t)(_end - __ehdr_start) + PRIVATE_BYTES;
}

static rlim_t own_bytes(const struct space *space)
{
	uint64_t chunks = ta_image.n_shared;

	if (space->resource == RLIMIT_DATA)
		return private_bytes();
	if (atomic_load(&ta_image.extra_chunks))
		chunks += ta_image.n_chunks;
	return ta_image.control->control_bytes + chunks * RING_CHUNK_BYTES + private_bytes();
}

static rlim_t add(rlim_t limit, rlim_t by)
{
	return limit > RLIM_INFINITY - 1 - by ? limit : limit + by;
}

static rlim_t subtract(rlim_t limit, rlim_t by)
{
	return limit == RLIM_INFINITY || limit < by ? limit : limit - by;
}

/* As the kernel has it; a negative errno. */
static long ask(const struct space *space, const struct rlimit *limit, struct rlimit *ret_old)
{
	return ta_syscall_raw(SYS_prlimit64, 0, space->resource, (long)limit, (long)ret_old, 0, 0);
}

static void hide(const struct space *space, struct rlimit *limit)
{
	limit->rlim_cur = subtract(limit->rlim_cur, space->hidden_soft);
	limit->rlim_max = subtract(limit->rlim_max, space->hidden_hard);
}

/*
 * What is to be set for what the program wants. Its hard limit may have been ours to raise, or not.
 */
static struct rlimit with_ours(const struct space *space, const struct rlimit *wanted,
			       const struct rlimit *real)
{
	struct rlimit limit = { .rlim_cur = add(wanted->rlim_cur, own_bytes(space)),
				.rlim_max = add(wanted->rlim_max, own_bytes(space)) };

	if (wanted->rlim_cur > wanted->rlim_max)
		return *wanted; /* EINVAL */
	if (limit.rlim_max > real->rlim_max &&
	    wanted->rlim_max <= subtract(real->rlim_max, space->hidden_hard))
		limit.rlim_max = real->rlim_max;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	return limit;
}

static long set(struct space *space, const struct rlimit *wanted)
{
	struct rlimit real, limit;
	long r = ask(space, NULL, &real);

	if (r < 0)
		return r;
	limit = with_ours(space, wanted, &real);
	r = ask(space, &limit, NULL);
	if (r < 0)
		return r;
	space->hidden_soft = limit.rlim_cur - wanted->rlim_cur;
	space->hidden_hard = limit.rlim_max - wanted->rlim_max;
	return 0;
}

static bool is_readable(const struct rlimit *limit)
{
	return (uintptr_t)limit >= TA_PAGE_BYTES && ta_walk_is_readable((uintptr_t)limit) &&
	       ta_walk_is_readable((uintptr_t)&limit->rlim_max);
}

/* NULL: not ours to see to. A child of vfork sets what it passes on, and has our memory. */
static struct space *find_space(int resource, const struct rlimit *wanted)
{
	struct space *space = resource == RLIMIT_DATA ? &spaces[1] : &spaces[0];

	return space->resource == resource && ta_image.process &&
			       (atomic_load(&ta_state.word) & TA_ON) &&
			       (!wanted || is_readable(wanted)) && ta_image_is_own()
		       ? space
		       : NULL;
}

static int with_errno(long r)
{
	if (r >= 0)
		return 0;
	errno = (int)-r;
	return -1;
}

static int change(struct space *space, const struct rlimit *wanted, struct rlimit *old)
{
	long r = old ? ask(space, NULL, old) : 0; /* the kernel says what it cannot write to */

	if (r == 0 && old)
		hide(space, old);
	return with_errno(r == 0 && wanted ? set(space, wanted) : r);
}

/* Move the soft limits alone: the hard ones would never come back up. */
static void move_soft(rlim_t (*move)(rlim_t, rlim_t))
{
	struct rlimit limit;

	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) {
		if (spaces[i].hidden_soft == 0 || ask(&spaces[i], NULL, &limit) < 0)
			continue;
		limit.rlim_cur = move(limit.rlim_cur, spaces[i].hidden_soft);
		ask(&spaces[i], &limit, NULL);
	}
}

void ta_limit_pass_on(void)
{
	move_soft(subtract);
}

void ta_limit_take_back(void)
{
	move_soft(add);
}

static bool make_room(struct space *space, rlim_t own)
{
	struct rlimit limit;

	if (ask(space, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_max < add(limit.rlim_cur, own))
		return false;
	limit.rlim_cur = add(limit.rlim_cur, own);
	if (ask(space, &limit, NULL) < 0)
		return false;
	space->hidden_soft = own;
	return true;
}

bool ta_limit_make_room(uint64_t pool_bytes)
{
	return make_room(&spaces[0], pool_bytes + private_bytes());
}

void ta_limit_make_private_room(void)
{
	make_room(&spaces[1], private_bytes());
}

#define RESOLVED(name) (ta_real.name || (ta_real_resolve(), ta_real.name))

TA_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	struct space *space = find_space((int)resource, limit);

	if (space)
		return change(space, limit, NULL);
	if (RESOLVED(setrlimit))
		return ta_real.setrlimit(resource, limit);
	return with_errno(ta_syscall_raw(SYS_setrlimit, (long)resource, (long)limit, 0, 0, 0, 0));
}

TA_EXPORT int getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
	struct space *space = find_space((int)resource, NULL);

	if (space)
		return change(space, NULL, limit);
	if (RESOLVED(getrlimit))
		return ta_real.getrlimit(resource, limit);
	return with_errno(ta_syscall_raw(SYS_getrlimit, (long)resource, (long)limit, 0, 0, 0, 0));
}

TA_EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit,
		      struct rlimit *old)
{
	struct space *space =
		pid == 0 || (uint32_t)pid == ta_image.pid ? find_space((int)resource, limit) : NULL;

	if (space)
		return change(space, limit, old);
	if (RESOLVED(prlimit))
		return ta_real.prlimit(pid, resource, limit, old);
	return with_errno(
		ta_syscall_raw(SYS_prlimit64, pid, (long)resource, (long)limit, (long)old, 0, 0));
}

/* One width on 64-bit Linux. */
TA_EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
	return setrlimit(resource, (const struct rlimit *)limit);
}

TA_EXPORT int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit)
{
	return getrlimit(resource, (struct rlimit *)limit);
}

TA_EXPORT int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limit,
			struct rlimit64 *old)
{
	return prlimit(pid, resource, (const struct rlimit *)limit, (struct rlimit *)old);
}

long ta_limit_call(long number, const long arguments[4])
{
	__rlimit_resource_t resource = (__rlimit_resource_t)arguments[0];
	void *limit = (void *)arguments[1];

	if (number == SYS_getrlimit)
		return getrlimit(resource, limit);
	if (number == SYS_setrlimit)
		return setrlimit(resource, limit);
	resource = (__rlimit_resource_t)arguments[1];
	return prlimit((pid_t)arguments[0], resource, (const void *)arguments[2],
		       (void *)arguments[3]);
}
