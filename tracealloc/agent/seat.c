#include "tracealloc/agent/seat.h"

#include <asm/prctl.h>

#include "tracealloc/stack/unwind-walk.h"

/*
 * struct pthread: of musl (src/internal/pthread_impl.h, 1.2 and 1.1), of glibc (nptl/descr.h, on
 * x86-64 since 2.3).
 */
static const uint32_t tid_places[] = { 0x30, 0x38, TA_SEAT_GLIBC };

struct ta_seat ta_seats[(1u << TA_SEATS_LOG2) + TA_SEAT_WINDOW] TA_LARGE;
struct ta_seat ta_seat_none = { .own = { .seen = (uint32_t)TA_SEEN_NONE,
					 .known = (uint32_t)TA_SEEN_NONE } };
bool ta_seat_has_pointer;
_Atomic uint32_t ta_seat_tid_at;
static _Atomic bool has_looked;

uintptr_t ta_seat_key_slow(void)
{
	uintptr_t pointer = 0;

	ta_syscall(SYS_arch_prctl, ARCH_GET_FS, (long)&pointer, 0, 0, 0, 0);
	/* Where it does not point to itself it is not that of a C library. */
	if (!pointer || *(const uintptr_t *)pointer != pointer)
		return 0;
	ta_seat_has_pointer = true;
	return pointer;
}

uintptr_t ta_thread_pointer(void)
{
	return ta_seat_key();
}

struct ta_seat *ta_seat_search(uintptr_t key)
{
	struct ta_seat *seat = &ta_seats[ta_seat_hash(key)];

	for (uint32_t i = 0; key && i < TA_SEAT_WINDOW; i++)
		if (atomic_load_explicit(&seat[i].key, memory_order_relaxed) == key)
			return &seat[i];
	return &ta_seat_none;
}

/* A seat for the key; NULL: all are taken where it could be. */
static struct ta_seat *claim(uintptr_t key)
{
	struct ta_seat *seat = &ta_seats[ta_seat_hash(key)];

	for (uint32_t i = 0; i < TA_SEAT_WINDOW; i++) {
		uintptr_t none = 0;

		if (atomic_compare_exchange_strong(&seat[i].key, &none, key))
			return &seat[i];
	}
	return NULL;
}

/* Seats of threads that are gone: one is made free for the key. */
static struct ta_seat *reuse(uintptr_t key)
{
	struct ta_seat *seat = &ta_seats[ta_seat_hash(key)];

	for (uint32_t i = 0; i < TA_SEAT_WINDOW; i++) {
		uintptr_t old = atomic_load(&seat[i].key);
		long r = ta_syscall(SYS_tgkill, ta_image.pid, seat[i].tid, 0, 0, 0, 0);

		if (old && r == -ESRCH && atomic_compare_exchange_strong(&seat[i].key, &old, key))
			return &seat[i];
	}
	return NULL;
}

/* Where does the C library keep the number of a thread? Only a place that holds it. */
static void look_for_number(uintptr_t key, uint32_t tid)
{
	uint32_t found = 0;

	for (size_t i = 0; !found && i < sizeof(tid_places) / sizeof(*tid_places); i++) {
		uintptr_t at = key + tid_places[i];

		if (ta_walk_is_readable(at & -(uintptr_t)8) && *(const uint32_t *)at == tid)
			found = tid_places[i];
	}
	atomic_store(&ta_seat_tid_at, found);
}

static void sit_down(struct ta_seat *seat, uintptr_t key, uint32_t tid)
{
	seat->own = ta_seat_none.own;
	seat->tid = tid;
	if (!atomic_exchange(&has_looked, true))
		look_for_number(key, tid);
	uint32_t at = atomic_load(&ta_seat_tid_at);
	if (at && *(const uint32_t *)(key + at) != tid) /* it was a number of something else */
		atomic_store(&ta_seat_tid_at, 0);
}

/* In a forked child the state word has been wiped, and its one thread is its parent's copy. */
static bool is_forked(void)
{
	return ta_image.control && atomic_load(&ta_state.word) == TA_ASK;
}

/* A child of vfork, or one that shares our memory in another way, is the thread that made it. */
static bool is_sharing(void)
{
	return ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) != ta_image.pid;
}

bool ta_seat_take(void)
{
	uintptr_t key = ta_seat_key();
	struct ta_seat *seat = ta_seat_search(key);
	bool has_seat = seat != &ta_seat_none;

	if (!key) /* the C library sets itself up: nothing of that is the program's */
		return false;
	if (has_seat && (seat->own.is_sealed || (ta_seat_tid_at && ta_seat_is_own())))
		return true;
	long tid = ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	if (has_seat && (tid <= 0 || seat->tid == (uint32_t)tid))
		return true;
	if (has_seat && is_forked()) {
		seat->tid = (uint32_t)tid;
		return true;
	}
	if (has_seat && is_sharing())
		return true;
	if (!has_seat && tid > 0)
		seat = claim(key) ?: reuse(key);
	if (!seat || tid <= 0) {
		ta_image_count_late();
		return false;
	}
	sit_down(seat, key, (uint32_t)tid);
	return true;
}
