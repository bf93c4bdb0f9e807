/*
 * Threads that never allocate, one behind the other, and one thread with four names. Prints its
 * tid.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SILENT 25

static pthread_barrier_t barrier;

static void rest(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

static void *say_nothing(void *unused)
{
	rest();
	return unused;
}

static void meet(void)
{
	rest();
	pthread_barrier_wait(&barrier);
	rest();
}

static void *be_named(void *ret_tid)
{
	*(pid_t *)ret_tid = gettid();
	free(malloc(4711));
	meet(); /* "by another" */
	meet();
	prctl(PR_SET_NAME, "by itself");
	meet(); /* "by file" */
	meet();
	return NULL;
}

static int write_name(pid_t tid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
	fd = open(path, O_WRONLY);
	return fd < 0 || write(fd, name, strlen(name)) < 0;
}

int main(void)
{
	pthread_t thread;
	pid_t tid = 0;

	for (int i = 0; i < SILENT; i++) {
		pthread_create(&thread, NULL, say_nothing, NULL);
		pthread_join(thread, NULL);
	}
	pthread_setname_np(pthread_self(), "the first");
	rest();
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, be_named, &tid);
	meet();
	pthread_setname_np(thread, "by another");
	meet();
	meet();
	if (write_name(tid, "by file"))
		return 1;
	meet();
	pthread_join(thread, NULL);
	printf("%d\n", (int)tid);
	return 0;
}
