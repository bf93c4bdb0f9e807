/*
 * Works in frames of one millisecond of its CPU time: the first 3/10 of each on one array, the rest
 * on another. A sampler that fires each millisecond of CPU time sees one of them only.
 *
 * 	victim-lockstep SECONDS
 * 	victim-lockstep threads|processes US N
 *
 * The second: N threads or processes one behind the other, each of which works so long on the one
 * array and then on the other. Prints the share of the first array, by the same clock.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FRAME_NS   1000000
#define FIRST_NS   300000
#define N_NUMBERS  1024
#define NS_PER_SEC 1000000000

static uint64_t first[N_NUMBERS];
static uint64_t second[N_NUMBERS];

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

/* Some microseconds, all of it loads and stores of one array. */
__attribute__((noinline)) static void work(volatile uint64_t *numbers)
{
	for (int round = 0; round < 8; round++)
		for (int i = 0; i < N_NUMBERS; i++)
			numbers[i]++;
}

static void work_in_frames(int seconds)
{
	int64_t begin_ns = cpu_ns();
	int64_t end_ns = begin_ns + seconds * (int64_t)NS_PER_SEC;
	int64_t now_ns = begin_ns, first_ns = 0;

	while (now_ns < end_ns) {
		int is_first = (now_ns - begin_ns) % FRAME_NS < FIRST_NS;
		int64_t before_ns = now_ns;

		work(is_first ? first : second);
		now_ns = cpu_ns();
		first_ns += is_first ? now_ns - before_ns : 0;
	}
	printf("%.6f\n", (double)first_ns / (double)(now_ns - begin_ns));
}

/* ---- Short threads and processes ---- */

static struct sums {
	int64_t half_ns;
	int64_t first_ns;
	int64_t second_ns;
} * sums; /* that processes share */

static int64_t work_for(uint64_t *numbers)
{
	int64_t begin_ns = cpu_ns(), now_ns = begin_ns;

	while (now_ns - begin_ns < sums->half_ns) {
		work(numbers);
		now_ns = cpu_ns();
	}
	return now_ns - begin_ns;
}

static void *work_on_both(void *unused)
{
	sums->first_ns += work_for(first);
	sums->second_ns += work_for(second);
	return unused;
}

static int in_thread(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, work_on_both, NULL) || pthread_join(thread, NULL);
}

static int in_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		work_on_both(NULL);
		_exit(0);
	}
	return pid < 0 || waitpid(pid, NULL, 0) != pid;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		work_in_frames(argc > 1 ? atoi(argv[1]) : 1);
		return 0;
	}
	sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sums == MAP_FAILED)
		return 1;
	sums->half_ns = atoi(argv[2]) * INT64_C(1000);
	for (int i = 0; i < atoi(argv[3]); i++)
		if (strcmp(argv[1], "threads") == 0 ? in_thread() : in_process())
			return 1;
	printf("%.6f\n", (double)sums->first_ns / (double)(sums->first_ns + sums->second_ns));
	return 0;
}
