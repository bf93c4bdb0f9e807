#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner/processes/process-sampler.h"
#include "tests/unit/pmu/watched.h"
#include "tests/support/suite.h"

#define MIB	     (UINT64_C(1) << 20)
#define ANON_BYTES   (64 * MIB)
#define SHARED_BYTES (32 * MIB)
#define BUSY_NS	     UINT64_C(300000000)
/*
 * What libc, stacks and the page cache stay far below; ThreadSanitizer shadows each byte that is
 * written.
 */
#ifdef __SANITIZE_THREAD__
#define REST_BYTES (4 * (ANON_BYTES + SHARED_BYTES))
#else
#define REST_BYTES (16 * MIB)
#endif

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Its name is chosen against naive readers of /proc/PID/stat. */
static void be_busy_and_wait(void *ready)
{
	uint8_t *anonymous = mmap(NULL, ANON_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint8_t *shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (anonymous == MAP_FAILED || shared == MAP_FAILED)
		_exit(98);
	prctl(PR_SET_NAME, "a) R 1 2 (b");
	while (cpu_ns() < BUSY_NS)
		for (size_t i = 0; i < ANON_BYTES; i += 4096)
			anonymous[i]++;
	*(volatile int *)ready = 1;
	pause();
}

static struct watched child;

static void start_busy_child(void)
{
	volatile int *ready = shared_bytes(sizeof(int));

	watched_start(&child, be_busy_and_wait, (void *)ready);
	watched_go(&child);
	while (!*ready)
		usleep(1000);
}

static void end_child(struct rusage *ret_usage)
{
	kill(child.pid, SIGKILL);
	ck_assert_int_eq(wait4(child.pid, NULL, 0, ret_usage), child.pid);
}

static uint64_t rusage_ns(const struct rusage *usage)
{
	return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * UINT64_C(1000000000) +
	       (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

START_TEST(a_sample_tells_memory_and_time_of_a_process)
{
	struct run_process_sampler sampler = { 0 };
	struct trace_process_sample sample = { 0 };
	struct run_node_bytes nodes[RUN_MAX_NODES];
	struct rusage usage;

	watched_become(_i);
	start_busy_child();
	sampler.pid = child.pid;
	ck_assert_int_eq(run_process_sample(&sampler, &sample, nodes, RUN_MAX_NODES), 0);
	end_child(&usage);
	ck_assert_uint_ge(sample.anonymous_bytes, ANON_BYTES - MIB);
	ck_assert_uint_le(sample.anonymous_bytes, ANON_BYTES + REST_BYTES);
	ck_assert_uint_ge(sample.rss_bytes, ANON_BYTES + SHARED_BYTES - MIB);
	ck_assert_uint_le(sample.rss_bytes, ANON_BYTES + SHARED_BYTES + REST_BYTES);
	/* Steps of 10 ms each in user and system; never more than at the end. */
	ck_assert_uint_ge(sample.user_ns + sample.system_ns, BUSY_NS - 2 * UINT64_C(10000000));
	ck_assert_uint_le(sample.user_ns + sample.system_ns, rusage_ns(&usage));
}
END_TEST

START_TEST(a_process_that_is_gone_is_told)
{
	struct run_process_sampler sampler = { .pid = 0x3fffffff };
	struct trace_process_sample sample = { .rss_bytes = 5 };

	ck_assert_int_eq(run_process_sample(&sampler, &sample, NULL, 0), -ESRCH);
	ck_assert_uint_eq(sample.rss_bytes, 5);
}
END_TEST

/* The real file of this host, read as if there were more nodes. */
START_TEST(pages_of_nodes_are_read_when_it_is_their_turn)
{
	struct run_process_sampler sampler = { .n_nodes = 2 };
	struct trace_process_sample sample = { 0 };
	struct run_node_bytes nodes[RUN_MAX_NODES];
	uint64_t sum = 0;

	watched_become(_i);
	start_busy_child();
	sampler.pid = child.pid;
	ck_assert_int_eq(run_process_sample(&sampler, &sample, nodes, RUN_MAX_NODES), 0);
	ck_assert_uint_ge(sample.node_bytes, sizeof(*nodes));
	for (size_t i = 0; i < sample.node_bytes / sizeof(*nodes); i++)
		sum += nodes[i].bytes;
	ck_assert_uint_ge(sum, ANON_BYTES + SHARED_BYTES);
	ck_assert_uint_gt(sampler.nodes_not_before_ns, 0);

	sampler.nodes_not_before_ns = UINT64_MAX;
	ck_assert_int_eq(run_process_sample(&sampler, &sample, nodes, RUN_MAX_NODES), 0);
	ck_assert_uint_eq(sample.node_bytes, 0);
	sampler.nodes_not_before_ns = 0;
	ck_assert_int_eq(run_process_sample(&sampler, &sample, nodes, 0), 0);
	ck_assert_uint_eq(sample.node_bytes, 0);
	end_child(NULL);
}
END_TEST

START_TEST(one_node_needs_no_pages_of_nodes)
{
	struct run_process_sampler sampler = { .pid = getpid(), .n_nodes = 1 };
	struct trace_process_sample sample = { 0 };
	struct run_node_bytes nodes[1];

	ck_assert_int_eq(run_process_sample(&sampler, &sample, nodes, 1), 0);
	ck_assert_uint_eq(sample.node_bytes, 0);
	ck_assert_uint_ge(run_count_nodes(), 1);
}
END_TEST

static const struct {
	const char *text;
	size_t n;
	struct run_node_bytes nodes[3];
} numa_texts[] = {
	{ "", 0, { { 0, 0 } } },
	{ "7f00 default file=/a/b\\040N1=99 mapped=3 N0=3 kernelpagesize_kB=4\n",
	  1,
	  { { 0, 3 * 4096 } } },
	{ "7f00 bind:1 anon=10 dirty=10 N0=4 N1=6 kernelpagesize_kB=4\n"
	  "7f10 default huge anon=2 N1=2 kernelpagesize_kB=2048\n"
	  "7f20 default\n"
	  "7f30 interleave:0-12 anon=1 N12=1 kernelpagesize_kB=4",
	  3,
	  { { 0, 4 * 4096 }, { 1, 6 * 4096 + 2 * 2 * MIB }, { 12, 4096 } } },
	{ "7f00 default N64=1 N99999999999=1 N=3 Nx=4 N2 kernelpagesize_kB=4\n", 0, { { 0, 0 } } },
};

START_TEST(lines_of_numa_maps_are_added_up)
{
	struct run_node_bytes nodes[RUN_MAX_NODES];
	size_t n = run_parse_numa_maps(numa_texts[_i].text, nodes, RUN_MAX_NODES);

	ck_assert_uint_eq(n, numa_texts[_i].n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_eq(nodes[i].node, numa_texts[_i].nodes[i].node);
		ck_assert_uint_eq(nodes[i].bytes, numa_texts[_i].nodes[i].bytes);
	}
	if (n > 1)
		ck_assert_uint_eq(run_parse_numa_maps(numa_texts[_i].text, nodes, 1), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("process-sampler");
	TCase *tcase = tcase_create("processes");

	tcase_add_loop_test(tcase, a_sample_tells_memory_and_time_of_a_process, 0, 2);
	tcase_add_test(tcase, a_process_that_is_gone_is_told);
	tcase_add_loop_test(tcase, pages_of_nodes_are_read_when_it_is_their_turn, 0, 2);
	tcase_add_test(tcase, one_node_needs_no_pages_of_nodes);
	tcase_add_loop_test(tcase, lines_of_numa_maps_are_added_up, 0,
			    (int)(sizeof(numa_texts) / sizeof(*numa_texts)));
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
