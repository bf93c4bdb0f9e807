/*
 * For docs/tutorial/false-sharing.md: threads count the letters of a text, each with a counter of
 * its own, on a CPU of its own. The counters lie side by side, so that all are in one cache line;
 * with `apart` each has a line for itself.
 *
 * usage: counters [apart]
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_THREADS  2
#define N_ROUNDS   240
#define TEXT_BYTES (1u << 20)
#define LINE_BYTES 64

struct task {
	pthread_t thread;
	unsigned number;
	const char *text;
	volatile unsigned long *n_letters;
};

static char *make_text(void)
{
	char *text = malloc(TEXT_BYTES);
	unsigned random = 1;

	if (!text)
		abort();
	for (size_t i = 0; i < TEXT_BYTES; i++) {
		random = random * 1103515245u + 12345u;
		text[i] = random >> 29 ? 'a' : ' ';
	}
	return text;
}

/* A kernel may leave two short threads on one CPU, one after the other: then nothing is shared. */
static void keep_to_cpu(unsigned number)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	number %= (unsigned)CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || number-- != 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void *count_letters(void *argument)
{
	struct task *task = argument;

	keep_to_cpu(task->number);
	for (unsigned round = 0; round < N_ROUNDS; round++)
		for (size_t i = 0; i < TEXT_BYTES; i++)
			*task->n_letters += task->text[i] != ' ';
	return NULL;
}

int main(int argc, char **argv)
{
	size_t stride = argc > 1 && strcmp(argv[1], "apart") == 0 ? LINE_BYTES : sizeof(long);
	struct task tasks[N_THREADS];
	char *text = make_text();
	char *counters = aligned_alloc(LINE_BYTES, N_THREADS * LINE_BYTES);
	unsigned long sum = 0;

	if (!counters)
		abort();
	memset(counters, 0, N_THREADS * LINE_BYTES);
	for (unsigned i = 0; i < N_THREADS; i++) {
		tasks[i].number = i;
		tasks[i].text = text;
		tasks[i].n_letters = (volatile unsigned long *)(counters + i * stride);
		if (pthread_create(&tasks[i].thread, NULL, count_letters, &tasks[i]) != 0)
			abort();
	}
	for (size_t i = 0; i < N_THREADS; i++) {
		pthread_join(tasks[i].thread, NULL);
		sum += *tasks[i].n_letters;
	}
	printf("%lu letters\n", sum);
	free(counters);
	free(text);
	return EXIT_SUCCESS;
}
