#include "runner/attach/crowd.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "runner/attach/waits.h"
#include "runner/processes/image-proc.h"

#define STAND_NS   UINT64_C(300000000) /* that one thread may take to stand while we look for one */
#define STEP_NS	   20000u /* of CPU time that they run on where nothing traps them */
#define TRAPPED_NS 1000000u /* the same, where something does */
#define BREATH_NS  200000u /* that all run on when that does not help */

static void wait_for(uint32_t ns)
{
	const struct timespec time = { .tv_nsec = ns };

	nanosleep(&time, NULL);
}

/* CPU time of a process. */
static uint64_t spent_ns(pid_t pid)
{
	struct timespec spent = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) == 0)
		clock_gettime(clock, &spent);
	return (uint64_t)spent.tv_sec * 1000000000u + (uint64_t)spent.tv_nsec;
}

/* Is that why it cannot be seized? One on its way out gives EPERM. */
static bool has_ended(pid_t tid, int error)
{
	return error == -ESRCH || (error == -EPERM && image_is_zombie(tid));
}

struct gathering {
	struct crowd *crowd;
	pid_t kept;
	size_t n_before; /* threads that we had before this look */
	size_t next; /* of them, which is likely listed now */
};

/* They are listed in the order in which we have seized them: the next one is tried first. */
static bool is_known(struct gathering *gathering, pid_t tid)
{
	for (size_t i = 0; i < gathering->n_before; i++) {
		size_t at = (gathering->next + i) % gathering->n_before;

		if (gathering->crowd->threads[at].tid == tid &&
		    !gathering->crowd->threads[at].is_gone) {
			gathering->next = at + 1;
			return true;
		}
	}
	return false;
}

/* What ends while we seize it is none of ours. It runs on: standing begins when we have them. */
static int gather(void *user, pid_t tid)
{
	struct gathering *gathering = user;
	struct crowd *crowd = gathering->crowd;
	struct remote_thread thread;

	if (tid == gathering->kept || is_known(gathering, tid))
		return 0;
	int r = grow_array_of(&crowd->threads, crowd->n, 1, sizeof(*crowd->threads));
	r = r ?: remote_seize(tid, &thread);
	if (r < 0)
		return has_ended(tid, r) ? 0 : r;
	waits_note(&thread);
	crowd->threads[crowd->n++] = thread;
	return 0;
}

/* Those that were seized last. Since when one waits is noted anew: it may be in another call. */
static void interrupt_new(struct crowd *crowd, size_t n_before)
{
	for (size_t i = n_before; i < crowd->n; i++) {
		struct remote_thread *thread = &crowd->threads[i];

		if (thread->waits_since_ns)
			waits_note(thread);
		if (remote_interrupt(thread) < 0)
			thread->is_gone = true;
	}
}

static int wait_all(struct crowd *crowd, uint64_t deadline_ns)
{
	for (size_t i = 0; i < crowd->n; i++) {
		struct remote_thread *thread = &crowd->threads[i];
		int r = thread->is_gone || thread->is_standing ? 0
							       : remote_wait(thread, deadline_ns);

		if (r == -ETIMEDOUT)
			crowd->culprit = thread->tid;
		if (r < 0 && r != -ESRCH)
			return r;
	}
	return 0;
}

/* Has the process as many threads as stand? None of those can begin or end one. */
static bool are_all(const struct crowd *crowd, const struct remote_thread *kept)
{
	long n = kept ? 1 : 0;

	for (size_t i = 0; i < crowd->n; i++)
		n += crowd->threads[i].is_standing;
	return image_count_threads(crowd->pid) == n;
}

/* Until /proc knows of no thread that does not stand: then there can be no new one. */
static int stand_all(struct crowd *crowd, const struct remote_thread *kept, uint64_t deadline_ns)
{
	struct gathering gathering = { crowd, kept ? kept->tid : 0, 0, 0 };
	int r;

	do {
		gathering.n_before = crowd->n;
		gathering.next = 0;
		r = image_each_thread(crowd->pid, gather, &gathering);
		if (r < 0)
			return r;
		if (!crowd->stopped_ns)
			crowd->stopped_ns = clock_ns(CLOCK_MONOTONIC);
		interrupt_new(crowd, gathering.n_before);
		r = wait_all(crowd, deadline_ns);
		if (r < 0 || are_all(crowd, kept))
			return r;
	} while (crowd->n > gathering.n_before);
	return 0;
}

struct way_back {
	size_t n; /* threads that were at bad places, and run on */
	size_t n_free; /* of them, that nothing traps */
	uint64_t spent_ns; /* CPU time of the process before */
};

static struct way_back send_back(struct crowd *crowd, struct safety *safety)
{
	struct way_back back = { .spent_ns = spent_ns(crowd->pid) };

	for (size_t i = 0; i < crowd->n; i++) {
		struct remote_thread *thread = &crowd->threads[i];
		uintptr_t exit;

		if (!thread->is_standing || thread->is_good)
			continue;
		enum safety_verdict verdict = safety_judge(safety, thread, &exit);
		thread->is_good = verdict == SAFETY_GOOD;
		if (thread->is_good)
			continue;
		crowd->verdict = verdict;
		crowd->culprit = thread->tid;
		back.n++;
		if (exit && crowd->may_trap && remote_resume_to(thread, exit))
			continue;
		remote_resume(thread);
		back.n_free++;
	}
	return back;
}

/* How many run; those that were trapped stand. */
static size_t count_running(struct crowd *crowd)
{
	size_t n = 0;

	for (size_t i = 0; i < crowd->n; i++) {
		struct remote_thread *thread = &crowd->threads[i];

		if (!thread->is_standing && !thread->is_gone &&
		    (!thread->target || remote_wait(thread, 0) == -ETIMEDOUT))
			n++;
	}
	return n;
}

/*
 * Those that run come out of where they are, and then are stopped: by a trap, or anywhere. To stop
 * one before it has got a CPU would leave it where it is.
 */
static void call_back(struct crowd *crowd, struct way_back back, uint64_t until_ns)
{
	uint64_t enough_ns = back.n_free ? back.n * STEP_NS : TRAPPED_NS;

	while (count_running(crowd) > 0 && clock_ns(CLOCK_MONOTONIC) < until_ns &&
	       spent_ns(crowd->pid) - back.spent_ns < enough_ns)
		wait_for(STEP_NS);
	for (size_t i = 0; i < crowd->n; i++)
		if (!crowd->threads[i].is_standing && !crowd->threads[i].is_gone)
			remote_interrupt(&crowd->threads[i]);
}

/*
 * On a busy machine one that is in malloc may get no CPU for long, and all others would stand for
 * that. So they run on for a moment when it has taken so long, and the next try may take twice as
 * long.
 */
#define FIRST_STAND_NS UINT64_C(20000000)

int crowd_stop(struct crowd *crowd, pid_t pid, struct safety *safety,
	       const struct remote_thread *kept, uint64_t deadline_ns)
{
	uint64_t most_ns = FIRST_STAND_NS;
	struct way_back back;
	int r;

	*crowd = (struct crowd){ .pid = pid, .may_trap = crowd->may_trap };
	for (;;) {
		r = stand_all(crowd, kept, deadline_ns);
		if (r < 0)
			break;
		back = send_back(crowd, safety);
		if (back.n == 0)
			break;
		if (clock_ns(CLOCK_MONOTONIC) > deadline_ns) {
			r = -ETIMEDOUT;
			break;
		}
		call_back(crowd, back, crowd->stopped_ns + most_ns);
		if (clock_ns(CLOCK_MONOTONIC) < crowd->stopped_ns + most_ns)
			continue;
		most_ns *= 2;
		crowd_release(crowd);
		wait_for(BREATH_NS);
		crowd->stopped_ns = 0;
	}
	if (r == 0)
		crowd->culprit = 0;
	else
		crowd_release(crowd);
	return r;
}

void crowd_release(struct crowd *crowd)
{
	array_free(crowd->threads, crowd->n, it, remote_release(it));
	crowd->threads = NULL;
	crowd->n = 0;
}

struct search {
	struct crowd *crowd;
	struct safety *safety;
	struct remote_thread *guest;
	bool takes_any; /* also one that runs */
	bool is_found;
};

/* -ECANCELED: found. */
static int try_guest(void *user, pid_t tid)
{
	struct search *search = user;
	struct remote_thread thread;
	int r = remote_seize(tid, &thread);

	if (r < 0) {
		search->crowd->culprit = tid;
		return has_ended(tid, r) ? 0 : r;
	}
	waits_note(&thread);
	if (remote_interrupt(&thread) < 0 ||
	    remote_wait(&thread, clock_ns(CLOCK_MONOTONIC) + STAND_NS) < 0) {
		search->crowd->culprit = tid;
		remote_release(&thread);
		return 0;
	}
	enum safety_verdict verdict =
		thread.is_frozen ? SAFETY_IN_LIBC : safety_judge(search->safety, &thread, NULL);
	if (verdict == SAFETY_GOOD && (search->takes_any || remote_is_waiting(&thread)) &&
	    !(search->crowd->takes_no_timed && remote_is_timed(&thread))) {
		*search->guest = thread;
		search->is_found = true;
		return -ECANCELED;
	}
	if (verdict != SAFETY_GOOD) {
		search->crowd->verdict = verdict;
		search->crowd->culprit = tid;
	}
	remote_release(&thread);
	return 0;
}

int crowd_find_guest(struct crowd *crowd, pid_t pid, struct safety *safety, uint64_t deadline_ns,
		     struct remote_thread *ret_guest)
{
	struct search search = { .crowd = crowd, .safety = safety, .guest = ret_guest };
	int r = 0;

	*crowd = (struct crowd){ .pid = pid, .takes_no_timed = crowd->takes_no_timed };
	while (r == 0) {
		r = image_each_thread(pid, try_guest, &search);
		if (search.is_found)
			return 0;
		if (r == 0 && search.takes_any && clock_ns(CLOCK_MONOTONIC) > deadline_ns)
			r = -ETIMEDOUT;
		if (r == 0 && search.takes_any)
			wait_for(BREATH_NS);
		search.takes_any = true;
	}
	return r;
}
