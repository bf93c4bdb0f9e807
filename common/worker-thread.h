#pragma once
/* Threads that leave signals to the program's others. */
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* As pthread_create(). Returns 0 or a negative errno. */
static inline int quiet_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *context)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(ret_thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}
