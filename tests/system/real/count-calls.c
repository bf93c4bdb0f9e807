/*
 * count-calls OUTPUT COMMAND [ARGUMENT...]: run COMMAND and count, by uprobes on the C library, how
 * often it and its descendants entered each allocation function: from libtracealloc.so, with and
 * without a null pointer as first argument, and from elsewhere. One line per function into OUTPUT:
 *
 *   NAMES from_tracealloc from_tracealloc_with_null elsewhere
 *
 * and a last line "lost N". Exits with the status of COMMAND, or 77 where uprobes are not to be
 * had.
 */
#include <err.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/system/real/probe.h"

#define SKIP	       77
#define DRAIN_EVERY_US 1000
#define MAX_PROCESSES  4096

static int find_libc(struct dl_phdr_info *info, size_t n_bytes, void *ret_path)
{
	(void)n_bytes;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	snprintf(ret_path, 256, "%s", info->dlpi_name);
	return 1;
}

/* A child that waits until the probes are there. */
static pid_t start(char **argv, int *ret_gate)
{
	int gate[2];
	pid_t pid = pipe(gate) == 0 ? fork() : -1;

	if (pid < 0)
		err(EXIT_FAILURE, "cannot start %s", argv[0]);
	if (pid == 0) {
		char byte;

		close(gate[1]);
		if (read(gate[0], &byte, 1) != 1)
			_exit(EXIT_FAILURE);
		close(gate[0]);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(gate[0]);
	*ret_gate = gate[1];
	return pid;
}

/* Let the child go and follow it to its end. Returns its wait status. */
static int follow(struct probe *probe, pid_t pid, int gate)
{
	int status = 0;

	if (write(gate, "x", 1) != 1)
		err(EXIT_FAILURE, "cannot let the program go");
	close(gate);
	for (;;) {
		/* Asked first, so that what came before the end is drained below. */
		bool ended = waitpid(pid, &status, WNOHANG) == pid;
		int r = probe_drain(probe);

		if (r < 0)
			errx(EXIT_FAILURE, "cannot read the rings: %s", strerror(-r));
		if (ended)
			return status;
		usleep(DRAIN_EVERY_US);
	}
}

/* Where libtracealloc.so's code lies in each process. */
struct process {
	uint32_t pid;
	uint64_t start;
	uint64_t end;
};

struct counts {
	uint64_t from_tracealloc;
	uint64_t from_tracealloc_with_null;
	uint64_t elsewhere;
};

struct tally {
	struct process processes[MAX_PROCESSES];
	size_t n_processes;
	struct counts counts[PROBE_MAX_FUNCTIONS];
};

static struct process *process_of(struct tally *tally, uint32_t pid)
{
	for (size_t i = 0; i < tally->n_processes; i++) {
		if (tally->processes[i].pid == pid)
			return &tally->processes[i];
	}
	if (tally->n_processes == MAX_PROCESSES)
		errx(EXIT_FAILURE, "more than %d processes", MAX_PROCESSES);
	tally->processes[tally->n_processes] = (struct process){ .pid = pid };
	return &tally->processes[tally->n_processes++];
}

static void count_call(struct tally *tally, const struct probe_event *event)
{
	const struct process *process = process_of(tally, event->pid);
	struct counts *counts = &tally->counts[event->function];

	if (event->caller < process->start || event->caller >= process->end)
		counts->elsewhere++;
	else if (event->argument == 0)
		counts->from_tracealloc_with_null++;
	else
		counts->from_tracealloc++;
}

static void count(struct tally *tally, const struct probe_event *event)
{
	struct process *process = process_of(tally, event->pid);

	switch (event->what) {
	case PROBE_CALL:
		count_call(tally, event);
		break;
	case PROBE_MAP:
		if (event->module) {
			process->start = event->caller;
			process->end = event->argument;
		}
		break;
	case PROBE_FORK: {
		const struct process *parent = process_of(tally, event->parent);

		process->start = parent->start;
		process->end = parent->end;
		break;
	}
	}
}

static void write_counts(const char *path, struct probe *probe,
			 const struct probe_function *functions, size_t n_functions)
{
	size_t n = 0;
	const struct probe_event *events = probe_events(probe, &n);
	struct tally *tally = calloc(1, sizeof(*tally));
	auto_fclose FILE *file = fopen(path, "we");

	if (!file || !tally)
		err(EXIT_FAILURE, "%s", path);
	for (size_t i = 0; i < n; i++)
		count(tally, &events[i]);
	for (size_t i = 0; i < n_functions; i++)
		fprintf(file, "%s %lu %lu %lu\n", functions[i].names,
			tally->counts[i].from_tracealloc,
			tally->counts[i].from_tracealloc_with_null, tally->counts[i].elsewhere);
	fprintf(file, "lost %lu\n", probe_n_lost(probe));
	free(tally);
}

int main(int argc, char **argv)
{
	struct probe_function functions[PROBE_MAX_FUNCTIONS];
	struct probe *probe = NULL;
	char libc[256] = "";
	size_t n = 0;
	int gate = -1;

	if (argc < 3)
		errx(2, "usage: count-calls OUTPUT COMMAND [ARGUMENT...]");
	dl_iterate_phdr(find_libc, libc);
	int r = probe_find(libc, functions, &n);
	if (r < 0)
		errx(EXIT_FAILURE, "%s: %s", libc, strerror(-r));

	pid_t pid = start(argv + 2, &gate);
	r = probe_open(libc, functions, n, pid, &probe);
	if (r < 0) {
		warnx("no uprobes here (they need root, tracefs and Linux 6.12): %s", strerror(-r));
		close(gate);
		return SKIP;
	}
	int status = follow(probe, pid, gate);
	write_counts(argv[1], probe, functions, n);
	probe_close(probe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
