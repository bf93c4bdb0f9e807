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
#include "tracealloc/stack/thunk.h"
#include "tracealloc/stack/unwind-walk.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

#define PRIVATE_BYTES (256u << 10) /* state, table and lists of a thread or two */

extern const uint8_t __ehdr_start[] __attribute__((visibility("hidden")));
extern const uint8_t _end[] __attribute__((visibility("hidden")));

/* A limit as we have set it. While the kernel has this value, so much of it is ours. */
struct raised {
	_Atomic rlim_t value;
	_Atomic rlim_t ours;
};

static struct space {
	int resource;
	struct raised soft;
	struct raised hard;
} spaces[TA_LIMITS] = { { .resource = RLIMIT_AS }, { .resource = RLIMIT_DATA } };

/* Thunks are code, and pages of the file. */
static rlim_t private_bytes(void)
{
	return (rlim_t)(_end - __ehdr_start) + PRIVATE_BYTES - TA_THUNK_ROOM;
}

static rlim_t own_bytes(const struct space *space)
{
	uint64_t chunks = ta_image.n_shared;

	if (space->resource == RLIMIT_DATA)
		return private_bytes();
	if (atomic_load(&ta_image.extra_chunks))
		chunks += ta_image.n_chunks;
	return ta_image.control->control_bytes + chunks * RING_CHUNK_BYTES + private_bytes() +
	       TA_THUNK_ROOM;
}

static rlim_t add(rlim_t limit, rlim_t by)
{
	return limit > RLIM_INFINITY - 1 - by ? limit : limit + by;
}

/* As the kernel has it; a negative errno. pid 0: ourselves. */
static long ask_for(pid_t pid, const struct space *space, const struct rlimit *limit,
		    struct rlimit *ret_old)
{
	return ta_syscall_raw(SYS_prlimit64, pid, space->resource, (long)limit, (long)ret_old, 0,
			      0);
}

static long ask(const struct space *space, const struct rlimit *limit, struct rlimit *ret_old)
{
	return ask_for(0, space, limit, ret_old);
}

static bool is_raised(const struct space *space)
{
	return atomic_load(&space->soft.ours) || atomic_load(&space->hard.ours);
}

static rlim_t ours_of(const struct raised *raised, rlim_t value)
{
	return value == atomic_load(&raised->value) ? atomic_load(&raised->ours) : 0;
}

static void set_raised(struct raised *raised, rlim_t value, rlim_t ours)
{
	atomic_store(&raised->ours, 0);
	atomic_store(&raised->value, value);
	atomic_store(&raised->ours, ours);
}

static void hide(const struct space *space, struct rlimit *limit)
{
	limit->rlim_cur -= ours_of(&space->soft, limit->rlim_cur);
	limit->rlim_max -= ours_of(&space->hard, limit->rlim_max);
}

/* ---- What others inherit ---- */

static rlim_t look_up(const struct ring_control *control, const struct space *space, bool is_hard,
		      rlim_t value)
{
	for (uint32_t i = 0; i < RING_MAX_LIMITS; i++) {
		const struct ring_limit *limit = &control->limits[i];

		if (atomic_load(&limit->value) == value &&
		    (int)limit->resource == space->resource && limit->is_hard == is_hard &&
		    limit->ours < value)
			return limit->ours;
	}
	return 0;
}

/* What was added since the start is ours as well. */
static void inherit(const struct ring_control *control, const struct space *space, bool is_hard,
		    struct raised *raised, rlim_t value)
{
	rlim_t own = ours_of(raised, value);

	set_raised(raised, value, own + look_up(control, space, is_hard, value - own));
}

void ta_limit_inherit(const struct ring_control *control)
{
	struct rlimit limit;

	for (size_t i = 0; i < TA_LIMITS; i++) {
		if (ask(&spaces[i], NULL, &limit) < 0)
			continue;
		inherit(control, &spaces[i], false, &spaces[i].soft, limit.rlim_cur);
		inherit(control, &spaces[i], true, &spaces[i].hard, limit.rlim_max);
	}
}

static void publish(const struct space *space, bool is_hard, const struct raised *raised)
{
	struct ring_control *control = ta_image.control;
	rlim_t value = atomic_load(&raised->value), ours = atomic_load(&raised->ours);

	if (ours == 0 || look_up(control, space, is_hard, value) == ours)
		return;
	struct ring_limit *limit =
		&control->limits[atomic_fetch_add(&control->limits_used, 1) % RING_MAX_LIMITS];
	atomic_store(&limit->value, 0);
	limit->ours = ours;
	limit->resource = (uint32_t)space->resource;
	limit->is_hard = is_hard;
	atomic_store(&limit->value, value);
}

static void publish_both(const struct space *space)
{
	publish(space, false, &space->soft);
	publish(space, true, &space->hard);
}

void ta_limit_publish(void)
{
	for (size_t i = 0; i < TA_LIMITS; i++)
		publish_both(&spaces[i]);
}

/* ---- What the program sets ---- */

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
	    wanted->rlim_max <= real->rlim_max - ours_of(&space->hard, real->rlim_max))
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
	set_raised(&space->soft, limit.rlim_cur, limit.rlim_cur - wanted->rlim_cur);
	set_raised(&space->hard, limit.rlim_max, limit.rlim_max - wanted->rlim_max);
	publish_both(space);
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

void ta_limit_pass_on(bool is_traced, struct ta_limits *ret_was)
{
	for (size_t i = 0; i < TA_LIMITS; i++) {
		struct rlimit *was = &ret_was->was[i], limit;

		*was = (struct rlimit){ .rlim_cur = 0 };
		if (!is_raised(&spaces[i]) || ask(&spaces[i], NULL, &limit) < 0)
			continue;
		*was = limit;
		hide(&spaces[i], &limit);
		if (is_traced)
			limit.rlim_max = was->rlim_max;
		if ((limit.rlim_cur == was->rlim_cur && limit.rlim_max == was->rlim_max) ||
		    ask(&spaces[i], &limit, NULL) < 0)
			*was = (struct rlimit){ .rlim_cur = 0 };
	}
}

void ta_limit_take_back(const struct ta_limits *was)
{
	struct rlimit limit;

	for (size_t i = 0; i < TA_LIMITS; i++) {
		if (was->was[i].rlim_max == 0 || ask(&spaces[i], &was->was[i], NULL) == 0 ||
		    ask(&spaces[i], NULL, &limit) < 0)
			continue;
		/* The hard one stays below. */
		limit.rlim_cur = was->was[i].rlim_cur < limit.rlim_max ? was->was[i].rlim_cur
								       : limit.rlim_max;
		ask(&spaces[i], &limit, NULL);
	}
}

void ta_limit_take_off(pid_t pid)
{
	struct rlimit real, limit;

	for (size_t i = 0; i < TA_LIMITS; i++) {
		if (!is_raised(&spaces[i]) || ask_for(pid, &spaces[i], NULL, &real) < 0)
			continue;
		limit = real;
		hide(&spaces[i], &limit);
		if (limit.rlim_cur != real.rlim_cur || limit.rlim_max != real.rlim_max)
			ask_for(pid, &spaces[i], &limit, NULL);
	}
}

static bool make_room(struct space *space, rlim_t own)
{
	struct rlimit limit;

	if (ask(space, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return false;
	rlim_t ours = ours_of(&space->soft, limit.rlim_cur);
	if (ours >= own)
		return true; /* from who has started us */
	own -= ours;
	if (limit.rlim_max < add(limit.rlim_cur, own))
		return false;
	limit.rlim_cur = add(limit.rlim_cur, own);
	if (ask(space, &limit, NULL) < 0)
		return false;
	set_raised(&space->soft, limit.rlim_cur, ours + own);
	return true;
}

bool ta_limit_make_room(uint64_t pool_bytes)
{
	return make_room(&spaces[0], pool_bytes + private_bytes() + TA_THUNK_ROOM);
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
