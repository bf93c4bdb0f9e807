/*
 * Debug registers: which ranges cover what, and what a stream of them tells of this very process.
 */
#include <check.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/record.h"
#include "pmu/watch.h"
#include "tests/support/suite.h"

static const struct {
	uint64_t address;
	uint64_t n_bytes;
	unsigned n; /* 0: four registers are not enough */
} covers[] = {
	{ 0x1000, 8, 1 },  { 0x1000, 1, 1 },  { 0x1004, 4, 1 },	 { 0x1000, 32, 4 },
	{ 0x1000, 33, 0 }, { 0x1001, 1, 1 },  { 0x1001, 2, 2 },	 { 0x1002, 4, 2 },
	{ 0x1003, 8, 4 },  { 0x1001, 30, 0 }, { 0x1004, 24, 4 }, { 0x1000, 0, 0 },
	{ 0x1000, 12, 2 }, { 0x1000, 7, 3 },
};

START_TEST(ranges_cover_each_byte_once)
{
	struct pmu_watch_range ranges[PMU_WATCH_REGISTERS];
	uint64_t at = covers[_i].address;
	unsigned n = pmu_watch_cover(at, covers[_i].n_bytes, true, ranges, PMU_WATCH_REGISTERS);

	ck_assert_uint_eq(n, covers[_i].n);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_uint_eq(ranges[i].address, at);
		ck_assert_uint_eq(ranges[i].address % ranges[i].n_bytes, 0);
		ck_assert(ranges[i].is_write_only);
		at += ranges[i].n_bytes;
	}
	ck_assert(n == 0 || at == covers[_i].address + covers[_i].n_bytes);
}
END_TEST

/* Two variables, a register apart, and the child that uses them when told to. */
static volatile uint64_t first, second;

struct child {
	pid_t pid;
	int to;
	int from;
};

static void serve(int from, int to)
{
	char letter;

	while (read(from, &letter, 1) == 1) {
		for (int i = 0; i < 50; i++) {
			first = (uint64_t)i;
			second += first;
		}
		if (write(to, &letter, 1) != 1)
			break;
	}
	_exit(0);
}

static struct child start(void)
{
	int down[2], up[2];

	ck_assert_int_eq(pipe(down), 0);
	ck_assert_int_eq(pipe(up), 0);
	struct child child = { fork(), down[1], up[0] };
	if (child.pid == 0) {
		close(down[1]);
		serve(down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	return child;
}

static void let_run(const struct child *child)
{
	char letter = 'x';

	ck_assert_int_eq(write(child->to, &letter, 1), 1);
	ck_assert_int_eq(read(child->from, &letter, 1), 1);
}

static void stop(const struct child *child)
{
	close(child->to);
	close(child->from);
	waitpid(child->pid, NULL, 0);
}

struct counts {
	struct pmu_format format;
	unsigned n_first;
	unsigned n_second;
	unsigned n_others;
};

static int take(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct counts *counts = context;
	struct pmu_record record;
	int length;

	(void)n_samples;
	for (const uint8_t *at = records;
	     (length = pmu_record_parse(&counts->format, at, n_bytes, &record)) > 0;
	     at += length, n_bytes -= (size_t)length) {
		if (record.type != PERF_RECORD_SAMPLE)
			continue;
		counts->n_first += record.sample.address == (uintptr_t)&first;
		counts->n_second += record.sample.address == (uintptr_t)&second;
		counts->n_others += record.sample.address != (uintptr_t)&first &&
				    record.sample.address != (uintptr_t)&second;
	}
	return 0;
}

static struct counts count(struct access_stream *stream)
{
	struct trace_source source;
	struct counts counts = { .n_first = 0 };

	pmu_stream_describe(stream, &source);
	counts.format.sample_type = source.sample_type;
	counts.format.regs_user = source.regs_user;
	ck_assert_int_ge(pmu_stream_read(stream, take, &counts), 0);
	return counts;
}

/* A child is armed while it runs; NULL: debug registers cannot be had here. */
static struct access_stream *open_stream(pid_t pid)
{
	const struct access_options options = { .pid = pid };
	struct access_stream *stream = NULL;
	struct pmu_refusal refusal = { 0 };

	if (pmu_stream_open(&pmu_source_watch, &options, &stream, &refusal) < 0)
		return NULL;
	return stream;
}

START_TEST(registers_see_what_they_are_armed_for_and_nothing_else)
{
	const struct pmu_watch_range writes = { (uintptr_t)&first, 8, true };
	const struct pmu_watch_range all = { (uintptr_t)&second, 8, false };
	struct child child = start();
	struct access_stream *stream = open_stream(child.pid);
	struct counts counts;
	struct pmu_losses losses;

	if (!stream) {
		stop(&child);
		return; /* test-pmu-source says why */
	}
	ck_assert_uint_ge(pmu_watch_registers(stream), 1);
	let_run(&child);
	counts = count(stream);
	ck_assert_uint_eq(counts.n_first + counts.n_second + counts.n_others, 0);

	ck_assert_int_eq(pmu_watch_arm(stream, 0, &writes), 0);
	let_run(&child);
	counts = count(stream);
	ck_assert_uint_eq(counts.n_first, 50);
	ck_assert_uint_eq(counts.n_second + counts.n_others, 0);

	/* Another range in the same register; += is one access or two, as the compiler likes. */
	ck_assert_int_eq(pmu_watch_arm(stream, 0, &all), 0);
	let_run(&child);
	counts = count(stream);
	ck_assert_uint_eq(counts.n_first + counts.n_others, 0);
	ck_assert(counts.n_second == 50 || counts.n_second == 100);

	ck_assert_int_eq(pmu_watch_disarm(stream, 0), 0);
	let_run(&child);
	counts = count(stream);
	ck_assert_uint_eq(counts.n_first + counts.n_second + counts.n_others, 0);
	ck_assert_int_eq(pmu_stream_losses(stream, &losses), 0);
	ck_assert_uint_eq(losses.n_lost, 0);
	ck_assert_int_eq(pmu_watch_arm(stream, PMU_WATCH_REGISTERS, &all), -EINVAL);
	stop(&child);
	pmu_stream_close(stream);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pmu-watch");
	TCase *tcase = tcase_create("pmu-watch");

	tcase_add_loop_test(tcase, ranges_cover_each_byte_once, 0,
			    sizeof(covers) / sizeof(covers[0]));
	tcase_add_test(tcase, registers_see_what_they_are_armed_for_and_nothing_else);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
