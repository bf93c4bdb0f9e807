#include "runner/liveness.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"

#define BEAT_NS 1000000
#define BEATS	20 /* so many after the last change of the number of those that wait */
#define REST_S	60
#define JOIN_NS 1000000

/* Rest until somebody begins to wait; n_waiters is what it was before. */
static void rest(struct pulse *pulse, uint32_t n_waiters)
{
	const struct timespec most = { .tv_sec = REST_S };

	syscall(SYS_futex, &pulse->pool->control->n_waiters, FUTEX_WAIT, n_waiters, &most, NULL, 0);
}

static void beat(struct pulse *pulse)
{
	const struct timespec pause = { .tv_nsec = BEAT_NS };

	atomic_fetch_add_explicit(&pulse->pool->control->pulse, 1, memory_order_relaxed);
	nanosleep(&pause, NULL);
}

static void *run(void *pointer)
{
	struct pulse *pulse = pointer;
	_Atomic uint32_t *n_waiters = &pulse->pool->control->n_waiters;
	uint32_t seen = atomic_load(n_waiters);

	while (!atomic_load(&pulse->is_over)) {
		rest(pulse, seen);
		(void)!write(pulse->event_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
		/*
		 * Who waits looks every few ms, which changes the number; a program that was
		 * killed waiting stays in it and changes nothing.
		 */
		for (int i = 0; i < BEATS && !atomic_load(&pulse->is_over); i++) {
			uint32_t now = atomic_load(n_waiters);

			beat(pulse);
			i = now == seen ? i : 0;
			seen = now;
		}
	}
	return NULL;
}

int pulse_start(struct pulse *pulse, struct pool *pool)
{
	sigset_t all, before;

	pulse->pool = pool;
	pulse->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pulse->event_fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int err = pthread_create(&pulse->thread, NULL, run, pulse);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pulse->is_running = err == 0;
	return -err;
}

void pulse_take(struct pulse *pulse)
{
	uint64_t n;

	(void)!read(pulse->event_fd, &n, sizeof(n));
}

void pulse_stop(struct pulse *pulse)
{
	atomic_store(&pulse->is_over, true);
	while (pulse->is_running) {
		struct timespec soon;

		syscall(SYS_futex, &pulse->pool->control->n_waiters, FUTEX_WAKE, 1, NULL, NULL, 0);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += JOIN_NS;
		if (soon.tv_nsec >= 1000000000) {
			soon.tv_sec++;
			soon.tv_nsec -= 1000000000;
		}
		/* It may have been about to rest: then it is woken once more. */
		pulse->is_running = pthread_timedjoin_np(pulse->thread, NULL, &soon) == ETIMEDOUT;
	}
	cleanup_close(&pulse->event_fd);
	pulse->event_fd = -1;
}
