/*
 * Real perf events, each test twice: as the user who runs it and as uid 65534. Where the kernel
 * refuses even a dummy event the whole suite cannot be measured (exit 77).
 */
#include <check.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <asm/perf_regs.h>
#endif

#include "perf/record.h"
#include "pmu/event.h"
#include "tests/unit/pmu/watched.h"
#include "tests/support/suite.h"

#define PAGE 4096u

/* Format of an open stream, as analyze gets it out of the trace. */
static struct pmu_format stream_format(const struct access_stream *stream)
{
	struct trace_source source;

	pmu_stream_describe(stream, &source);
	return (struct pmu_format){ .sample_type = source.sample_type,
				    .regs_user = source.regs_user };
}

/* Call each(record, context) for every record; all must parse. */
static void for_each(const struct kept *kept, const struct pmu_format *format,
		     void (*each)(const struct pmu_record *, void *), void *context)
{
	size_t at = 0;

	while (at < kept->n_bytes) {
		struct pmu_record record;
		int length =
			pmu_record_parse(format, kept->bytes + at, kept->n_bytes - at, &record);

		ck_assert_int_gt(length, 0);
		ck_assert(record.is_known);
		each(&record, context);
		at += (size_t)length;
	}
}

static struct access_stream *open_on(const char *name, const struct watched *watched)
{
	const struct access_options options = { .pid = watched->pid };
	struct access_stream *stream = watched_open(name, &options);

	ck_assert_int_eq(pmu_stream_enable(stream, true), 0);
	return stream;
}

static void read_all(struct access_stream *stream, struct kept *kept)
{
	ck_assert_int_ge(pmu_stream_read(stream, kept_take, kept), 0);
}

/* ---- faults ---- */

#define FAULT_PAGES 256

/* The byte of page i that is touched: another offset in each page. */
static size_t touched_offset(size_t i)
{
	return i * PAGE + i * 8;
}

static void touch_pages(void *pages)
{
	for (size_t i = 0; i < FAULT_PAGES; i++)
		((volatile uint8_t *)pages)[touched_offset(i)] = 1;
}

struct fault_check {
	const uint8_t *pages;
	size_t n_in_order;
	pid_t pid;
	uint64_t last_ns;
};

static void check_fault(const struct pmu_record *record, void *context)
{
	struct fault_check *check = context;
	uint64_t start = (uintptr_t)check->pages;

	if (record->type != PERF_RECORD_SAMPLE || record->sample.address < start ||
	    record->sample.address >= start + FAULT_PAGES * PAGE)
		return;
	ck_assert_uint_eq(record->sample.address, start + touched_offset(check->n_in_order));
	ck_assert_uint_eq(record->origin.pid, (uint32_t)check->pid);
	ck_assert(!record->is_kernel);
	check->n_in_order++;
}

START_TEST(each_touched_page_is_one_fault_at_its_exact_address)
{
	uint8_t *pages = untouched_pages(FAULT_PAGES);
	struct fault_check check = { .pages = pages };
	struct kept kept = { 0 };
	struct watched watched;
	struct access_stream *stream;
	struct pmu_format format;
	cpu_set_t one_cpu;

	watched_become(_i);
	/* On one CPU, so that the order of the ring is the order of the touches. */
	CPU_ZERO(&one_cpu);
	CPU_SET(sched_getcpu(), &one_cpu);
	sched_setaffinity(0, sizeof(one_cpu), &one_cpu);
	watched_start(&watched, touch_pages, pages);
	stream = open_on("faults", &watched);
	format = stream_format(stream);
	check.pid = watched.pid;
	watched_go(&watched);
	watched_wait(&watched, NULL);
	read_all(stream, &kept);
	for_each(&kept, &format, check_fault, &check);
	ck_assert_uint_eq(check.n_in_order, FAULT_PAGES);
	kept_free(&kept);
	pmu_stream_close(stream);
}
END_TEST

#define BURST_PAGES 5000

/* A part on each CPU, so that each ring loses some (where this process may go there). */
static void touch_burst(void *pages)
{
	int n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);

	for (size_t i = 0; i < BURST_PAGES; i++) {
		if (i % 1000 == 0) {
			cpu_set_t cpus;

			CPU_ZERO(&cpus);
			CPU_SET(i / 1000 % (size_t)n_cpus, &cpus);
			sched_setaffinity(0, sizeof(cpus), &cpus);
		}
		((volatile uint8_t *)pages)[i * PAGE] = 1;
	}
}

/* A second event that only counts: what the kernel says really happened. */
static void open_counters(pid_t pid, int *fds, int n_cpus)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_PAGE_FAULTS,
					.exclude_kernel = 1,
					.exclude_hv = 1 };

	for (int cpu = 0; cpu < n_cpus; cpu++) {
		fds[cpu] = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, 0);
		ck_assert_int_ge(fds[cpu], 0);
	}
}

static uint64_t read_counters(const int *fds, int n_cpus)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < n_cpus; cpu++) {
		uint64_t value;

		ck_assert_int_eq(read(fds[cpu], &value, sizeof(value)), sizeof(value));
		sum += value;
		close(fds[cpu]);
	}
	return sum;
}

START_TEST(what_was_taken_and_what_was_lost_add_up_to_what_happened)
{
	uint8_t *pages = untouched_pages(BURST_PAGES);
	int n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	int *counter_fds = calloc((size_t)n_cpus, sizeof(int));
	struct access_options options = { .ring_bytes = PAGE };
	struct kept kept = { 0 };
	struct pmu_losses losses;
	struct watched watched;
	struct access_stream *stream;
	uint64_t n_true;

	watched_become(_i);
	watched_start(&watched, touch_burst, pages);
	options.pid = watched.pid;
	stream = watched_open("faults", &options);
	open_counters(watched.pid, counter_fds, n_cpus);
	ck_assert_int_eq(pmu_stream_enable(stream, true), 0);
	watched_go(&watched);
	watched_wait(&watched, NULL);
	read_all(stream, &kept);
	n_true = read_counters(counter_fds, n_cpus);
	ck_assert_int_eq(pmu_stream_losses(stream, &losses), 0);
	ck_assert_uint_ge(n_true, BURST_PAGES);
	ck_assert_uint_gt(losses.n_lost, 0);
	ck_assert_uint_eq(losses.n_taken, kept.n_samples);
	/* Both began to count while the child was stopped. */
	if (losses.n_lost_is_exact)
		ck_assert_uint_eq(losses.n_taken + losses.n_lost, n_true);
	free(counter_fds);
	kept_free(&kept);
	pmu_stream_close(stream);
}
END_TEST

/* ---- clock ---- */

#define SPIN_NS UINT64_C(600000000)

extern const char __start_spin_text[];
extern const char __stop_spin_text[];

__attribute__((section("spin_text"), noinline)) static void spin(uint64_t n)
{
	for (volatile uint64_t i = 0; i < n; i++)
		;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void spin_a_while(void *unused)
{
	(void)unused;
	while (cpu_ns() < SPIN_NS)
		spin(5000000);
}

struct clock_check {
	uint64_t n;
	uint64_t n_in_spin;
	uint64_t n_with_stack;
};

static void check_clock(const struct pmu_record *record, void *context)
{
	struct clock_check *check = context;
	uint64_t ip = record->sample.ip;

	if (record->type != PERF_RECORD_SAMPLE)
		return;
	check->n++;
	check->n_in_spin += ip >= (uintptr_t)__start_spin_text && ip < (uintptr_t)__stop_spin_text;
#if defined(__x86_64__)
	uint64_t reg_ip = 0, reg_sp = 0, unused;

	ck_assert(pmu_sample_register(&record->sample, PERF_REG_X86_IP, &reg_ip));
	ck_assert(pmu_sample_register(&record->sample, PERF_REG_X86_SP, &reg_sp));
	ck_assert(!pmu_sample_register(&record->sample, PERF_REG_X86_CS, &unused));
	ck_assert_uint_eq(reg_ip, ip);
	ck_assert_uint_ne(reg_sp, 0);
#endif
	if (record->sample.stack) {
		ck_assert_uint_le(record->sample.stack_bytes, 256);
		check->n_with_stack++;
	}
}

#define STOLEN_TICK_NS UINT64_C(10000000)

/*
 * Time that the hypervisor took from us, over all CPUs: it counts as CPU time but is not sampled.
 */
static uint64_t stolen_ns(void)
{
	unsigned long long steal = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (file) {
		if (fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &steal) != 1)
			steal = 0;
		fclose(file);
	}
	return steal * STOLEN_TICK_NS;
}

static uint64_t usage_ns(const struct rusage *usage)
{
	uint64_t seconds = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec);
	uint64_t micros = (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);

	return seconds * UINT64_C(1000000000) + micros * 1000;
}

/*
 * Sum of periods against the kernel's own CPU time of the child (user and system together are
 * exact, only their split is estimated by ticks). Above: the timer runs only while the child runs,
 * so no more than the CPU time can be sampled, plus one period begun on each CPU, and what the
 * hypervisor stole: it is no CPU time of the child (CONFIG_PARAVIRT_TIME_ACCOUNTING), but the timer
 * ran on, for pieces shorter than a period. It is counted in ticks. Below: the child is nearly
 * never in the kernel, so little is left out; 2 % were seen at most. 15 % stay free for interrupts
 * and switches on a loaded machine, and stolen time is taken off.
 */
START_TEST(the_samples_of_a_spinning_program_stand_for_its_cpu_time)
{
	struct access_options options = { .stack_bytes = 256 };
	struct clock_check check = { 0 };
	uint64_t stolen = stolen_ns();
	struct kept kept = { 0 };
	struct trace_source source;
	struct watched watched;
	struct access_stream *stream;
	struct pmu_format format;
	struct rusage usage;
	uint64_t sampled_ns, begun_ns;

	watched_become(_i);
	watched_start(&watched, spin_a_while, NULL);
	options.pid = watched.pid;
	stream = watched_open("clock", &options);
	ck_assert_int_eq(pmu_stream_enable(stream, true), 0);
	pmu_stream_describe(stream, &source);
	format = stream_format(stream);
	ck_assert_uint_eq(source.period, UINT64_C(1000000000) / PMU_DEFAULT_FREQ_HZ);
	watched_go(&watched);
	watched_wait(&watched, &usage);
	stolen = stolen_ns() - stolen;
	read_all(stream, &kept);
	for_each(&kept, &format, check_clock, &check);

	ck_assert_uint_eq(check.n, kept.n_samples);
	ck_assert_uint_ge(check.n_in_spin * 10, check.n * 9);
	if (source.stack_bytes)
		ck_assert_uint_gt(check.n_with_stack, 0);
	sampled_ns = check.n * source.period;
	begun_ns = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) * source.period;
	ck_assert_uint_le(sampled_ns, usage_ns(&usage) + begun_ns + stolen + STOLEN_TICK_NS);
	ck_assert_uint_ge(sampled_ns + stolen + begun_ns, usage_ns(&usage) * 85 / 100);
	kept_free(&kept);
	pmu_stream_close(stream);
}
END_TEST

/* ---- who is followed ---- */

#define N_FOLLOWED 5 /* the main thread, two threads, a child, the child's thread */

struct followed {
	uint8_t *pages; /* one for each */
	volatile uint32_t *tids;
};

struct one_of_them {
	const struct followed *followed;
	size_t which;
};

static void *touch_own_page(void *argument)
{
	const struct one_of_them *one = argument;

	one->followed->tids[one->which] = (uint32_t)syscall(SYS_gettid);
	((volatile uint8_t *)one->followed->pages)[one->which * PAGE] = 1;
	return NULL;
}

static void in_a_thread(const struct followed *followed, size_t which)
{
	struct one_of_them one = { followed, which };
	pthread_t thread;

	if (pthread_create(&thread, NULL, touch_own_page, &one) != 0)
		_exit(98);
	pthread_join(thread, NULL);
}

static void make_threads_and_children(void *argument)
{
	const struct followed *followed = argument;
	struct one_of_them main_thread = { followed, 0 };
	struct one_of_them child_thread = { followed, 3 };
	int status;

	touch_own_page(&main_thread);
	in_a_thread(followed, 1);
	in_a_thread(followed, 2);
	pid_t pid = fork();
	if (pid == 0) {
		touch_own_page(&child_thread);
		in_a_thread(followed, 4);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		_exit(97);
}

struct follow_check {
	const struct followed *followed;
	uint32_t tid_at_page[N_FOLLOWED];
	unsigned n_forks_of[N_FOLLOWED];
	unsigned n_exits_of[N_FOLLOWED];
};

static void check_followed(const struct pmu_record *record, void *context)
{
	struct follow_check *check = context;
	uint64_t start = (uintptr_t)check->followed->pages;
	uint64_t offset = record->sample.address - start;

	if (record->type == PERF_RECORD_SAMPLE && record->sample.address >= start &&
	    offset < N_FOLLOWED * PAGE)
		check->tid_at_page[offset / PAGE] = record->origin.tid;
	for (size_t i = 0; i < N_FOLLOWED; i++) {
		if (record->task.tid != check->followed->tids[i])
			continue;
		check->n_forks_of[i] += record->type == PERF_RECORD_FORK;
		check->n_exits_of[i] += record->type == PERF_RECORD_EXIT;
	}
}

START_TEST(later_threads_and_children_are_followed)
{
	struct followed followed = { untouched_pages(N_FOLLOWED),
				     shared_bytes(N_FOLLOWED * sizeof(uint32_t)) };
	struct follow_check check = { .followed = &followed };
	struct kept faults = { 0 }, tasks = { 0 };
	struct access_stream *fault_stream, *task_stream;
	struct pmu_format fault_format, task_format;
	struct watched watched;

	watched_become(_i);
	watched_start(&watched, make_threads_and_children, &followed);
	fault_stream = open_on("faults", &watched);
	task_stream = open_on("tasks", &watched);
	fault_format = stream_format(fault_stream);
	task_format = stream_format(task_stream);
	watched_go(&watched);
	watched_wait(&watched, NULL);
	read_all(fault_stream, &faults);
	read_all(task_stream, &tasks);
	for_each(&faults, &fault_format, check_followed, &check);
	for_each(&tasks, &task_format, check_followed, &check);
	for (size_t i = 0; i < N_FOLLOWED; i++) {
		ck_assert_uint_eq(check.tid_at_page[i], followed.tids[i]);
		ck_assert_uint_eq(check.n_forks_of[i], i == 0 ? 0 : 1);
		ck_assert_uint_eq(check.n_exits_of[i], 1);
	}
	kept_free(&faults);
	kept_free(&tasks);
	pmu_stream_close(fault_stream);
	pmu_stream_close(task_stream);
}
END_TEST

static void exec_true(void *unused)
{
	(void)unused;
	execl("/bin/true", "true", "-x", NULL);
	_exit(96);
}

struct exec_check {
	pid_t pid;
	unsigned n_execs;
	unsigned n_code_maps_of_true;
};

static void check_exec(const struct pmu_record *record, void *context)
{
	struct exec_check *check = context;

	if (record->type == PERF_RECORD_COMM && record->comm.is_exec) {
		ck_assert_str_eq(record->comm.name, "true");
		ck_assert_uint_eq(record->comm.pid, (uint32_t)check->pid);
		check->n_execs++;
	}
	if (record->type != PERF_RECORD_MMAP2)
		return;
	ck_assert_uint_eq(record->map.pid, (uint32_t)check->pid);
	check->n_code_maps_of_true +=
		(record->map.prot & PROT_EXEC) && strstr(record->map.path, "/true");
}

START_TEST(an_exec_and_the_maps_of_the_new_image_are_seen)
{
	struct access_options options = { .enable_on_exec = true };
	struct exec_check check = { 0 };
	struct kept kept = { 0 };
	struct access_stream *stream;
	struct pmu_format format;
	struct watched watched;

	watched_become(_i);
	watched_start(&watched, exec_true, NULL);
	options.pid = check.pid = watched.pid;
	stream = watched_open("tasks", &options);
	format = stream_format(stream);
	watched_go(&watched);
	ck_assert_int_eq(waitpid(watched.pid, NULL, 0), watched.pid);
	read_all(stream, &kept);
	for_each(&kept, &format, check_exec, &check);
	ck_assert_uint_eq(check.n_execs, 1);
	ck_assert_uint_eq(check.n_code_maps_of_true, 1);
	kept_free(&kept);
	pmu_stream_close(stream);
}
END_TEST

/* ---- refusals and fallbacks ---- */

START_TEST(too_large_a_ring_is_halved_and_said)
{
	const struct rlimit little = { 0, 0 };
	struct access_options options = { .ring_bytes = 64u << 20 };
	uint8_t *pages = untouched_pages(FAULT_PAGES);
	struct fault_check check = { .pages = pages };
	struct kept kept = { 0 };
	struct watched watched;
	struct access_stream *stream;
	struct pmu_losses losses;

	watched_become_alone();
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &little), 0);
	watched_start(&watched, touch_pages, pages);
	options.pid = check.pid = watched.pid;
	stream = watched_open("faults", &options);
	ck_assert_ptr_nonnull(strstr(pmu_stream_notes(stream), "limit of locked memory"));
	ck_assert_int_eq(pmu_stream_enable(stream, true), 0);
	watched_go(&watched);
	watched_wait(&watched, NULL);
	read_all(stream, &kept);
	ck_assert_int_eq(pmu_stream_losses(stream, &losses), 0);
	ck_assert_uint_ge(losses.n_taken + losses.n_lost, FAULT_PAGES);
	kept_free(&kept);
	pmu_stream_close(stream);
}
END_TEST

static bool counts_losses_exactly(struct access_stream *stream)
{
	struct pmu_losses losses;

	ck_assert_int_eq(pmu_stream_losses(stream, &losses), 0);
	return losses.n_lost_is_exact;
}

START_TEST(what_the_kernel_refuses_beside_the_event_is_given_up_and_said)
{
	/* A record is shorter than 64 KiB, so the kernel takes no stack of that size: EINVAL. */
	struct access_options options = { .stack_bytes = 1u << 16, .pid = getpid() };
	const struct access_options plain_options = { .pid = getpid() };
	struct access_stream *stream, *plain;
	struct trace_source source;

	watched_become(_i);
	stream = watched_open("clock", &options);
	plain = watched_open("clock", &plain_options);
	pmu_stream_describe(stream, &source);
	ck_assert_ptr_nonnull(strstr(pmu_stream_notes(stream), "no stack bytes"));
	ck_assert_ptr_null(strstr(pmu_stream_notes(stream), "no registers"));
	ck_assert_uint_eq(source.stack_bytes, 0);
	ck_assert_uint_eq(source.sample_type & PERF_SAMPLE_STACK_USER, 0);
	ck_assert_uint_ne(source.sample_type & PERF_SAMPLE_REGS_USER, 0);
	/* Dropped on the way to what was to blame, and taken back. */
	ck_assert_int_eq(counts_losses_exactly(stream), counts_losses_exactly(plain));
	pmu_stream_close(plain);
	pmu_stream_close(stream);
}
END_TEST

START_TEST(kernel_samples_are_given_up_where_they_are_not_permitted)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_PAGE_FAULTS };
	struct pmu_permissions permissions;
	struct pmu_notes notes = { 0 };
	int fd = -1;

	watched_become(_i);
	pmu_permissions_read(&permissions);
	ck_assert_int_eq(pmu_event_negotiate(&attr, 0, -1, &notes, &fd), 0);
	close(fd);
	if (permissions.has_perfmon || permissions.paranoid < 2) {
		ck_assert_str_eq(notes.text, "");
		ck_assert_uint_eq(attr.exclude_kernel, 0);
	} else {
		ck_assert_ptr_nonnull(strstr(notes.text, "user code only"));
		ck_assert_uint_eq(attr.exclude_kernel, 1);
	}
}
END_TEST

START_TEST(notes_are_joined_and_cut_at_their_end)
{
	struct pmu_notes notes = { 0 };

	pmu_notes_add(&notes, "one of %d", 1);
	pmu_notes_add(&notes, "two");
	ck_assert_str_eq(notes.text, "one of 1; two");
	for (size_t i = 0; i < sizeof(notes.text); i++)
		pmu_notes_add(&notes, "%zu", i);
	ck_assert_uint_lt(strlen(notes.text), sizeof(notes.text));
	ck_assert(strncmp(notes.text, "one of 1; two; 0; 1; 2", 22) == 0);
}
END_TEST

START_TEST(a_stream_that_is_switched_off_takes_nothing)
{
	uint8_t *pages = untouched_pages(FAULT_PAGES);
	struct kept kept = { 0 };
	struct watched watched;
	struct access_stream *stream;

	watched_become(_i);
	watched_start(&watched, touch_pages, pages);
	stream = open_on("faults", &watched);
	ck_assert_int_eq(pmu_stream_enable(stream, false), 0);
	watched_go(&watched);
	watched_wait(&watched, NULL);
	read_all(stream, &kept);
	ck_assert_uint_eq(kept.n_bytes, 0);
	pmu_stream_close(stream);
}
END_TEST

START_TEST(a_process_that_is_gone_is_refused_with_a_reason)
{
	const struct access_options options = { .pid = 0x3fffffff };
	struct access_stream *stream = NULL;
	struct pmu_refusal refusal;

	ck_assert_int_eq(pmu_stream_open(pmu_source_find("faults"), &options, &stream, &refusal),
			 -ESRCH);
	ck_assert_ptr_null(stream);
	ck_assert_int_eq(refusal.error, ESRCH);
	ck_assert_ptr_nonnull(strstr(refusal.why, "already ended"));
}
END_TEST

/* ---- what a source tells of itself ---- */

static const struct {
	const char *name;
	uint16_t kind;
} kinds[] = {
	{ "clock", TRACE_SAMPLE_REGISTERS },
	{ "faults", TRACE_SAMPLE_FAULT },
	{ "tasks", TRACE_SAMPLE_TASKS },
};

START_TEST(a_stream_tells_what_its_samples_say)
{
	const struct access_options options = { .pid = getpid() };
	struct access_stream *stream = watched_open(kinds[_i].name, &options);
	struct trace_source_detail detail;
	const char *event = NULL;

	pmu_stream_detail(stream, &detail, &event);
	ck_assert_uint_eq(detail.kind, kinds[_i].kind);
	ck_assert_uint_eq(detail.direction, TRACE_DIRECTION_EACH);
	ck_assert_str_eq(event, "");
	/* What decides about read(2), which the analyser need not know otherwise. */
	ck_assert_int_eq(detail.read_format != 0, counts_losses_exactly(stream));
	ck_assert_int_eq(pmu_stream_read_aux(stream, NULL, NULL), 0);
	pmu_stream_close(stream);
}
END_TEST

static bool can_be_measured(void)
{
	const struct access_options options = { .pid = getpid() };
	const struct access_source *tasks = pmu_source_find("tasks");
	struct pmu_refusal refusal;

	if (tasks->probe(tasks, &options, &refusal) == 0)
		return true;
	printf("skipped: %s (%s)\n", refusal.why, refusal.fix);
	return false;
}

/* Loop 1 becomes uid 65534; a paranoid above 2 leaves only loop 0. */
static int n_users(void)
{
	struct pmu_permissions permissions;

	pmu_permissions_read(&permissions);
	return permissions.paranoid <= 2 ? 2 : 1;
}

int main(void)
{
	Suite *suite = suite_create("pmu-source");
	TCase *real = tcase_create("real events");
	TCase *choice = tcase_create("choices");

	if (!can_be_measured())
		return 77;
	tcase_add_loop_test(real, each_touched_page_is_one_fault_at_its_exact_address, 0,
			    n_users());
	tcase_add_loop_test(real, what_was_taken_and_what_was_lost_add_up_to_what_happened, 0,
			    n_users());
	tcase_add_loop_test(real, the_samples_of_a_spinning_program_stand_for_its_cpu_time, 0,
			    n_users());
	tcase_add_loop_test(real, later_threads_and_children_are_followed, 0, n_users());
	tcase_add_loop_test(real, an_exec_and_the_maps_of_the_new_image_are_seen, 0, n_users());
	tcase_add_loop_test(real, what_the_kernel_refuses_beside_the_event_is_given_up_and_said, 0,
			    n_users());
	tcase_add_loop_test(real, kernel_samples_are_given_up_where_they_are_not_permitted, 0,
			    n_users());
	tcase_add_loop_test(real, a_stream_that_is_switched_off_takes_nothing, 0, n_users());
	tcase_add_test(real, notes_are_joined_and_cut_at_their_end);
	if (n_users() == 2)
		tcase_add_test(real, too_large_a_ring_is_halved_and_said);
	tcase_add_test(real, a_process_that_is_gone_is_refused_with_a_reason);
	suite_add_tcase(suite, real);
	tcase_add_loop_test(choice, a_stream_tells_what_its_samples_say, 0, 3);
	suite_add_tcase(suite, choice);

	return suite_run(suite);
}
