/* How many threads of the recorder read the pool: none of them takes a CPU from the program. */
#include <sched.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "runner/collector.h"
#include "runner/processes/image-proc.h"

#define BEHIND_ROUNDS 16 /* some 100 ms */

/* By what runs at this moment, on all of the machine; the caller is one of them. */
static unsigned n_idle_cpus(pid_t follower)
{
	auto_fclose FILE *load = fopen("/proc/loadavg", "re");
	unsigned n_running;
	cpu_set_t cpus;

	if (!load || fscanf(load, "%*s %*s %*s %u/", &n_running) != 1 ||
	    sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return 0;
	unsigned n_cpus = (unsigned)CPU_COUNT(&cpus),
		 n = follower ? image_count_running(follower) : 0;
	n_running -= n < n_running ? n : n_running; /* it may run more by now */
	return n_cpus > n_running ? n_cpus - n_running : 0;
}

void collector_use_lanes(struct collector *collector)
{
	unsigned n = collector->lanes_wanted ?: 1 + n_idle_cpus(collector->options->follower);

	collector->n_lanes = drain_use_lanes(&collector->drain, n);
}

void collector_adapt_lanes(struct collector *collector, bool is_behind)
{
	/* Where there are more they may have to go again. */
	if (!is_behind && collector->n_lanes == 1)
		collector->n_behind = 0;
	else if (++collector->n_behind % BEHIND_ROUNDS == 0 && !collector->lanes_wanted)
		collector_use_lanes(collector);
}
