#include "runner/processes/process-sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io.h"
#include "pmu/cpus.h"

#define STAT_BYTES	4096u /* /proc/PID/stat and statm are one short line */
#define NUMA_MAPS_BYTES (16u << 20) /* a longer one is left out */
#define NS_PER_SECOND	UINT64_C(1000000000)

/* Read /proc/PID/name into a buffer of STAT_BYTES. A process that is gone gives -ESRCH. */
static int read_proc(pid_t pid, const char *name, char *ret_text)
{
	char path[64];
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	ssize_t n = io_read_full(fd, ret_text, STAT_BYTES - 1);
	if (n < 0)
		return (int)n;
	ret_text[n] = '\0';
	return 0;
}

/* statm: size resident shared text lib data dt, in pages. Shared is file-backed and shmem. */
static int sample_memory(pid_t pid, struct trace_process_sample *sample)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned long long resident, shared;
	char text[STAT_BYTES];
	int r = read_proc(pid, "statm", text);

	if (r < 0)
		return r;
	if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2)
		return -EBADMSG;
	sample->rss_bytes = resident * page_bytes;
	sample->anonymous_bytes = resident > shared ? (resident - shared) * page_bytes : 0;
	return 0;
}

/* stat: the name in parentheses may hold anything, also parentheses; fields 14 and 15 are times. */
static int sample_times(pid_t pid, struct trace_process_sample *sample)
{
	uint64_t tick_ns = NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
	unsigned long long user, system;
	char text[STAT_BYTES];
	int r = read_proc(pid, "stat", text);
	const char *rest = r < 0 ? NULL : strrchr(text, ')');

	if (r < 0)
		return r;
	if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
			    &user, &system) != 2)
		return -EBADMSG;
	sample->user_ns = user * tick_ns;
	sample->system_ns = system * tick_ns;
	return 0;
}

/* ---- Pages per node ---- */

unsigned run_count_nodes(void)
{
	auto_free char *list = NULL;
	auto_free int *nodes = NULL;
	int n;

	if (io_read_file("/sys/devices/system/node/has_memory", STAT_BYTES, &list, NULL) < 0)
		return 1;
	n = pmu_cpus_parse(list, &nodes); /* the same form of list */
	return n > 1 ? (unsigned)n : 1;
}

/* The value of " kernelpagesize_kB=" in a line. */
static uint64_t page_bytes_of(const char *line, size_t n_bytes)
{
	static const char key[] = " kernelpagesize_kB=";
	const char *found = memmem(line, n_bytes, key, sizeof(key) - 1);

	return found ? strtoull(found + sizeof(key) - 1, NULL, 10) * 1024 : 4096;
}

/* Every " N<node>=<pages>" of a line. A file name cannot look like one: its blanks are escaped. */
static void add_line(const char *line, size_t n_bytes, uint64_t *bytes_of_node)
{
	uint64_t page_bytes = page_bytes_of(line, n_bytes);
	const char *end = line + n_bytes;
	const char *at = line;

	while ((at = memmem(at, (size_t)(end - at), " N", 2))) {
		char *rest;
		unsigned long node = strtoul(at + 2, &rest, 10);

		at += 2;
		if (rest != at && *rest == '=' && node < RUN_MAX_NODES)
			bytes_of_node[node] += strtoull(rest + 1, NULL, 10) * page_bytes;
	}
}

size_t run_parse_numa_maps(const char *text, struct run_node_bytes *ret_nodes, size_t max_nodes)
{
	uint64_t bytes_of_node[RUN_MAX_NODES] = { 0 };
	size_t n = 0;

	while (*text) {
		const char *end = strchr(text, '\n');
		size_t n_bytes = end ? (size_t)(end - text) : strlen(text);

		add_line(text, n_bytes, bytes_of_node);
		text += n_bytes + (text[n_bytes] == '\n');
	}
	for (uint32_t node = 0; node < RUN_MAX_NODES && n < max_nodes; node++)
		if (bytes_of_node[node])
			ret_nodes[n++] = (struct run_node_bytes){ node, bytes_of_node[node] };
	return n;
}

/* None when it is not their turn, or the file cannot be read: a process of another user. */
static size_t sample_nodes(struct run_process_sampler *sampler, struct run_node_bytes *ret_nodes,
			   size_t max_nodes)
{
	auto_free char *text = NULL;
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	size_t n = 0;

	if (sampler->n_nodes == 0)
		sampler->n_nodes = run_count_nodes();
	if (sampler->n_nodes < 2 || max_nodes == 0 || begin < sampler->nodes_not_before_ns)
		return 0;
	int r = io_read_proc(sampler->pid, "numa_maps", NUMA_MAPS_BYTES, &text, NULL);
	if (r == 0)
		n = run_parse_numa_maps(text, ret_nodes, max_nodes);
	sampler->nodes_not_before_ns =
		clock_ns(CLOCK_MONOTONIC) + RUN_NODES_SHARE * (clock_ns(CLOCK_MONOTONIC) - begin);
	return n;
}

int run_process_sample(struct run_process_sampler *sampler, struct trace_process_sample *ret_sample,
		       struct run_node_bytes *ret_nodes, size_t max_nodes)
{
	struct trace_process_sample sample = { 0 };
	int r = sample_memory(sampler->pid, &sample) ?: sample_times(sampler->pid, &sample);

	if (r < 0)
		return r;
	sample.node_bytes = (uint32_t)(sample_nodes(sampler, ret_nodes, max_nodes) *
				       sizeof(struct run_node_bytes));
	*ret_sample = sample;
	return 0;
}
