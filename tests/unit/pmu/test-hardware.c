/*
 * Hardware sources on machines that are not here: sysfs is a folder, and the kernel is played.
 */
#include <check.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pmu/hardware-event.h"
#include "pmu/perf-clock.h"
#include "pmu/sources/pebs.h"
#include "tests/unit/pmu/machine.h"
#include "tests/unit/pmu/played-kernel.h"
#include "tests/support/suite.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define READ_LOST (UINT64_C(1) << 4) /* PERF_FORMAT_LOST */

/* Every access source asks for these. */
#define ACCESS                                                                                     \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |                  \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_DATA_SRC)

/* ---- A machine ---- */

static struct pmu_host host;
static struct access_options options;

static void build(const char *name)
{
	machine_make(machine_find(name), &host);
	options = (struct access_options){
		.host = &host, .pid = getpid(), .enable_on_exec = true, .ring_bytes = 4096
	};
	memset(&kernel, 0, sizeof(kernel));
	kernel.most_precise = 3;
}

static void teardown(void)
{
	if (host.devices[0])
		machine_remove(&host);
	host.devices[0] = '\0';
}

static struct access_stream *open_source(const struct access_source *source)
{
	struct access_stream *stream = NULL;
	struct pmu_refusal refusal = { 0 };
	int r = pmu_stream_open(source, &options, &stream, &refusal);

	ck_assert_msg(r == 0, "%s: %s; %s", source->name, refusal.why, refusal.fix);
	return stream;
}

static struct access_stream *open_named(const char *name)
{
	return open_source(pmu_source_find(name));
}

/* The last that was accepted: those before it were tries. */
static const struct perf_event_attr *accepted(void)
{
	ck_assert_int_gt(kernel.n, 0);
	return &kernel.opened[kernel.n - 1].attr;
}

static void check_period_is_prime(uint64_t period)
{
	for (uint64_t i = 2; i * i <= period; i++)
		ck_assert_uint_ne(period % i, 0);
}

static void check_common(const struct perf_event_attr *attr)
{
	ck_assert_uint_eq(attr->disabled, 1);
	ck_assert_uint_eq(attr->enable_on_exec, 1);
	ck_assert_uint_eq(attr->inherit, 1);
	ck_assert_uint_eq(attr->sample_id_all, 1);
	ck_assert_uint_eq(attr->watermark, 1);
	ck_assert_uint_eq(attr->freq, 0);
	ck_assert_uint_eq(attr->read_format, READ_LOST);
}

/* ---- PEBS ---- */

START_TEST(pebs_asks_for_latency_source_and_one_interrupt_for_many)
{
	struct pmu_perf_clock *clock = NULL;
	bool has_clock = pmu_perf_clock_open(&clock) == 0;
	const struct perf_event_attr *attr;
	struct trace_source_detail detail;
	struct trace_source source;
	struct access_stream *stream;
	const char *event;

	pmu_perf_clock_close(clock);
	build("skx");
	stream = open_named("pebs");
	attr = accepted();
	check_common(attr);
	check_period_is_prime(attr->sample_period);
	ck_assert_uint_eq(attr->type, PERF_TYPE_RAW);
	ck_assert_uint_eq(attr->config, 0x1cd);
	ck_assert_uint_eq(attr->config1, 3);
	ck_assert_uint_eq(attr->precise_ip, 3);
	ck_assert_uint_eq(attr->exclude_kernel, 1);
	ck_assert_uint_eq(attr->exclude_user, 0);
	ck_assert_uint_eq(attr->exclude_guest, 1);
	pmu_stream_describe(stream, &source);
	pmu_stream_detail(stream, &detail, &event);
	ck_assert_uint_eq(source.period, attr->sample_period);
	ck_assert_uint_eq(detail.kind, TRACE_SAMPLE_ACCESS);
	ck_assert_uint_eq(detail.direction, TRACE_DIRECTION_LOADS);
	ck_assert_uint_eq(detail.precise, 3);
	ck_assert_uint_eq(detail.min_latency, 3);
	ck_assert_uint_eq(detail.perf_config1, 3);
	ck_assert_str_eq(event, "cpu/mem-loads/");
	ck_assert_str_eq(pmu_stream_notes(stream), "");
	if (has_clock) {
		struct trace_perf_clock pair;

		ck_assert_uint_eq(attr->use_clockid, 0);
		ck_assert_uint_eq(attr->sample_type,
				  ACCESS | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_PHYS_ADDR);
		ck_assert_uint_eq(source.clock_id, UINT32_MAX);
		ck_assert_int_eq(pmu_stream_perf_clock(stream, &pair), 1);
		ck_assert_ptr_nonnull(strstr(pmu_stream_remarks(stream), "(large PEBS)"));
		ck_assert_ptr_null(pmu_pebs_not_large(attr));
	} else {
		ck_assert_uint_eq(attr->clockid, CLOCK_MONOTONIC_RAW);
		ck_assert_uint_eq(source.clock_id, CLOCK_MONOTONIC_RAW);
	}
	pmu_stream_close(stream);
}
END_TEST

START_TEST(stores_are_a_source_of_their_own_beside_pebs)
{
	const struct access_source *stores = pmu_source_find("pebs")->companion;
	struct trace_source_detail detail;
	struct access_stream *stream;
	const char *event;

	build("skx");
	stream = open_source(stores);
	pmu_stream_detail(stream, &detail, &event);
	ck_assert_uint_eq(accepted()->config, 0x82d0);
	check_period_is_prime(accepted()->sample_period);
	ck_assert_uint_eq(detail.direction, TRACE_DIRECTION_STORES);
	ck_assert_uint_eq(detail.min_latency, 0);
	ck_assert_ptr_null(pmu_source_find(stores->name)); /* it comes with pebs only */
	pmu_stream_close(stream);
}
END_TEST

static const struct {
	struct access_options options;
	bool is_named; /* cpu/mem-loads,ldlat=64/u */
	uint64_t more, period, config1;
	bool exclude_user, exclude_kernel;
} asked[] = {
	{ { .period = 10007 }, false, 0, 10007, 3, false, true },
	{ { .min_latency = 30 }, false, 0, 20011, 30, false, true },
	{ { .mode = ACCESS_MODE_BOTH }, false, 0, 20011, 3, false, false },
	{ { .mode = ACCESS_MODE_KERNEL }, false, 0, 20011, 3, true, false },
	{ { .mode = ACCESS_MODE_BOTH }, true, 0, 20011, 64, false, true },
	/* These cost the one interrupt for many, so the page's size comes along. */
	{ { .freq_hz = 1000 }, false, PERF_SAMPLE_PERIOD, 1000, 3, false, true },
	{ { .has_call_chain = true }, false, PERF_SAMPLE_CALLCHAIN, 20011, 3, false, true },
};

START_TEST(what_was_asked_for_reaches_the_kernel)
{
	const struct perf_event_attr *attr;
	struct access_stream *stream;

	build("skx");
	options.period = asked[_i].options.period;
	options.freq_hz = asked[_i].options.freq_hz;
	options.min_latency = asked[_i].options.min_latency;
	options.mode = asked[_i].options.mode;
	options.has_call_chain = asked[_i].options.has_call_chain;
	options.load_event = asked[_i].is_named ? "cpu/mem-loads,ldlat=64/u" : NULL;
	stream = open_named("pebs");
	attr = accepted();
	ck_assert_uint_eq(attr->sample_period, asked[_i].period);
	ck_assert_uint_eq(attr->config1, asked[_i].config1);
	ck_assert_uint_eq(attr->exclude_user, asked[_i].exclude_user);
	ck_assert_uint_eq(attr->exclude_kernel, asked[_i].exclude_kernel);
	ck_assert_uint_eq(attr->freq, asked[_i].options.freq_hz != 0);
	ck_assert_uint_eq(attr->sample_type & asked[_i].more, asked[_i].more);
	if (asked[_i].more) {
		ck_assert_uint_ne(attr->sample_type & PERF_SAMPLE_DATA_PAGE_SIZE, 0);
		ck_assert_uint_eq(attr->use_clockid, 1);
		ck_assert_ptr_nonnull(pmu_pebs_not_large(attr));
		ck_assert_ptr_nonnull(strstr(pmu_stream_remarks(stream), "for each sample"));
	}
	pmu_stream_close(stream);
}
END_TEST

/* What a kernel refuses one by one and together, and what is left. */
static const struct {
	uint64_t unknown, forbidden;
	int most_precise;
	uint64_t kept;
	const char *notes[3];
} refused[] = {
	{ PERF_SAMPLE_WEIGHT_STRUCT,
	  0,
	  3,
	  PERF_SAMPLE_WEIGHT | PERF_SAMPLE_PHYS_ADDR,
	  { "latency in one number" } },
	{ 0, PERF_SAMPLE_PHYS_ADDR, 3, PERF_SAMPLE_WEIGHT_STRUCT, { "CAP_PERFMON" } },
	{ PERF_SAMPLE_PHYS_ADDR,
	  0,
	  3,
	  PERF_SAMPLE_WEIGHT_STRUCT,
	  { "no physical addresses from" } },
	{ 0, 0, 2, PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_PHYS_ADDR, { "level 2" } },
	{ 0, 0, 1, PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_PHYS_ADDR, { "level 1" } },
	{ 0, PERF_SAMPLE_PHYS_ADDR, 2, PERF_SAMPLE_WEIGHT_STRUCT, { "CAP_PERFMON", "level 2" } },
	{ PERF_SAMPLE_WEIGHT_STRUCT,
	  PERF_SAMPLE_PHYS_ADDR,
	  2,
	  PERF_SAMPLE_WEIGHT,
	  { "level 2", "latency in one number", "physical addresses" } },
};

START_TEST(what_a_kernel_does_not_have_is_given_up_and_nothing_else)
{
	const struct perf_event_attr *attr;
	struct access_stream *stream;

	build("skx");
	kernel.unknown = refused[_i].unknown;
	kernel.forbidden = refused[_i].forbidden;
	kernel.most_precise = refused[_i].most_precise;
	stream = open_named("pebs");
	attr = accepted();
	ck_assert_uint_eq(attr->sample_type & ~(uint64_t)PERF_SAMPLE_DATA_PAGE_SIZE,
			  ACCESS | refused[_i].kept);
	ck_assert_int_eq((int)attr->precise_ip, refused[_i].most_precise);
	ck_assert_uint_eq(attr->read_format, READ_LOST);
	for (int i = 0; i < 3 && refused[_i].notes[i]; i++)
		ck_assert_msg(strstr(pmu_stream_notes(stream), refused[_i].notes[i]),
			      "'%s' says nothing of '%s'", pmu_stream_notes(stream),
			      refused[_i].notes[i]);
	pmu_stream_close(stream);
}
END_TEST

/* sysfs tells of it, or only the kernel's ENODATA does. */
static const char *const led[] = { "spr", "skx" };

START_TEST(load_latency_is_led_by_an_event_that_does_not_sample)
{
	struct access_stream *stream;
	int n_members = 0;

	build(led[_i]);
	kernel.needs_leader = true;
	stream = open_named("pebs");
	for (int i = 0; i < kernel.n; i++) {
		const struct opened *leader = &kernel.opened[i], *member = leader + 1;

		if (leader->attr.config != 0x8203)
			continue;
		ck_assert_uint_eq(leader->attr.sample_period, 0);
		ck_assert_uint_eq(leader->attr.sample_type, 0);
		ck_assert_uint_eq(leader->attr.disabled, 1);
		ck_assert_uint_eq(leader->attr.enable_on_exec, 1);
		ck_assert_uint_eq(leader->attr.inherit, 1);
		ck_assert_uint_eq(leader->attr.read_format, 0); /* GROUP and inherit do not mix */
		ck_assert_int_eq(leader->leader_fd, -1);
		ck_assert_int_eq(member->leader_fd, leader->fd);
		ck_assert_int_eq(member->cpu, leader->cpu);
		ck_assert_uint_eq(member->attr.config, 0x1cd);
		ck_assert_uint_eq(member->attr.disabled, 0); /* runs when its leader does */
		ck_assert_uint_ge(member->attr.sample_period, 128); /* spr_limit_period() */
		n_members++;
	}
	ck_assert_int_ge(n_members, 1);
	ck_assert_uint_eq(pmu_stream_fds(stream, &(const int *){ NULL }), (size_t)n_members);
	pmu_stream_close(stream);
}
END_TEST

/* A thread that is there before anybody samples. */
struct waiting {
	pthread_t thread;
	_Atomic pid_t tid;
	pthread_mutex_t lock;
};

static void *wait_for_lock(void *user)
{
	struct waiting *waiting = user;

	atomic_store(&waiting->tid, gettid());
	pthread_mutex_lock(&waiting->lock);
	pthread_mutex_unlock(&waiting->lock);
	return NULL;
}

static void begin_waiting(struct waiting *waiting)
{
	pthread_mutex_init(&waiting->lock, NULL);
	pthread_mutex_lock(&waiting->lock);
	ck_assert_int_eq(pthread_create(&waiting->thread, NULL, wait_for_lock, waiting), 0);
	while (atomic_load(&waiting->tid) == 0)
		sched_yield();
}

static void end_waiting(struct waiting *waiting)
{
	pthread_mutex_unlock(&waiting->lock);
	pthread_join(waiting->thread, NULL);
}

/* Which of the first thread's events is the same, on the same CPU? */
static const struct opened *twin_of(const struct opened *of)
{
	for (int i = 0; i < kernel.n; i++)
		if (kernel.opened[i].pid == getpid() && kernel.opened[i].cpu == of->cpu &&
		    kernel.opened[i].attr.config == of->attr.config)
			return &kernel.opened[i];
	return NULL;
}

static const char *const running[] = { "spr", "adl", "zen4" };

START_TEST(threads_that_are_there_already_have_the_same_events_into_the_same_rings)
{
	struct waiting waiting = { .tid = 0 };
	struct access_stream *stream;
	int n = 0;

	begin_waiting(&waiting);
	build(running[_i]);
	options.is_running = true;
	options.enable_on_exec = false;
	kernel.needs_leader = _i < 2;
	stream = open_named(_i < 2 ? "pebs" : "ibs");
	ck_assert_int_eq(pmu_stream_enable(stream, true), 0);
	for (int i = 0; i < kernel.n; i++) {
		const struct opened *opened = &kernel.opened[i], *twin = twin_of(opened);

		if (opened->pid != waiting.tid)
			continue;
		n++;
		ck_assert_ptr_nonnull(twin);
		ck_assert_int_eq(memcmp(&opened->attr, &twin->attr, sizeof(twin->attr)), 0);
		if (opened->attr.sample_type)
			ck_assert_int_eq(opened->output_fd, twin->fd);
		if (opened->leader_fd >= 0) {
			ck_assert_int_eq(opened[-1].fd, opened->leader_fd);
			ck_assert_int_eq(opened[-1].pid, waiting.tid);
			opened--;
		}
		ck_assert_uint_eq(opened->last_request, PERF_EVENT_IOC_ENABLE);
	}
	ck_assert_int_ge(n, (int)pmu_stream_fds(stream, &(const int *){ NULL }));
	pmu_stream_close(stream);
	end_waiting(&waiting);
}
END_TEST

START_TEST(a_hybrid_processor_has_an_event_for_each_kind_of_core)
{
	struct access_stream *stream;
	bool is_seen[2] = { false, false };

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return; /* its small core is the second */
	build("adl");
	kernel.needs_leader = true;
	stream = open_named("pebs");
	for (int i = 0; i < kernel.n; i++) {
		const struct opened *opened = &kernel.opened[i];

		if (opened->attr.config == 0x8203)
			continue;
		ck_assert(opened->cpu == 0 || opened->cpu == 1);
		is_seen[opened->cpu] = true;
		ck_assert_uint_eq(opened->attr.type, opened->cpu ? 10 : 4);
		ck_assert_uint_eq(opened->attr.config, opened->cpu ? 0x5d0 : 0x1cd);
		ck_assert_int_eq(opened->leader_fd >= 0, opened->cpu == 0);
	}
	ck_assert(is_seen[0] && is_seen[1]);
	ck_assert_uint_eq(pmu_stream_fds(stream, &(const int *){ NULL }), 2);
	pmu_stream_close(stream);
}
END_TEST

START_TEST(without_the_latency_event_any_load_is_sampled)
{
	struct access_stream *stream;

	build("skx");
	kernel.has_no_latency = true;
	stream = open_named("pebs");
	ck_assert_uint_eq(accepted()->config, 0x81d0);
	ck_assert_ptr_nonnull(strstr(pmu_stream_notes(stream), "without latency"));
	pmu_stream_close(stream);
}
END_TEST

/* ---- IBS ---- */

START_TEST(ibs_counts_ops_and_leaves_the_kernel_out_by_its_filter)
{
	const struct perf_event_attr *attr;
	struct trace_source_detail detail;
	struct access_stream *stream;
	const char *event;

	build("zen4");
	kernel.is_ibs = true;
	stream = open_named("ibs");
	attr = accepted();
	check_common(attr);
	ck_assert_uint_eq(attr->type, 11);
	ck_assert_uint_eq(attr->config, 1u << 19);
	ck_assert_uint_eq(attr->config2, 1);
	ck_assert_uint_eq(attr->precise_ip, 0);
	ck_assert_uint_eq(attr->exclude_kernel, 1);
	ck_assert_uint_eq(attr->exclude_hv | attr->exclude_guest | attr->exclude_idle, 0);
	ck_assert_uint_eq(attr->sample_period % 16, 0);
	check_period_is_prime(attr->sample_period / 16);
	ck_assert_uint_eq(attr->sample_type, ACCESS | PERF_SAMPLE_WEIGHT_STRUCT |
						     PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_RAW);
	ck_assert_uint_eq(attr->clockid, CLOCK_MONOTONIC_RAW);
	ck_assert_str_eq(pmu_stream_notes(stream), "");
	pmu_stream_detail(stream, &detail, &event);
	ck_assert_uint_eq(detail.kind, TRACE_SAMPLE_IBS);
	ck_assert_uint_eq(detail.direction, TRACE_DIRECTION_EACH);
	ck_assert_uint_eq(detail.perf_config2, 1);
	ck_assert_str_eq(event, "ibs_op/cnt_ctl=1/");
	pmu_stream_close(stream);
}
END_TEST

START_TEST(ibs_without_a_filter_takes_the_kernel_s_samples_too)
{
	struct access_stream *stream;
	struct trace_source source;

	build("zen3");
	kernel.is_ibs = true;
	kernel.has_no_filter = true;
	stream = open_named("ibs");
	ck_assert_uint_eq(accepted()->exclude_kernel, 0);
	ck_assert_uint_eq(accepted()->config2, 0);
	ck_assert_ptr_nonnull(strstr(pmu_stream_notes(stream), "no filter"));
	pmu_stream_describe(stream, &source);
	ck_assert_uint_eq(source.exclude_kernel, 0);
	pmu_stream_close(stream);
}
END_TEST

START_TEST(ibs_without_raw_registers_is_what_the_driver_makes_of_it)
{
	struct trace_source_detail detail;
	struct access_stream *stream;
	const char *event;

	build("zen4");
	kernel.is_ibs = true;
	kernel.forbidden = PERF_SAMPLE_RAW | PERF_SAMPLE_PHYS_ADDR;
	stream = open_named("ibs");
	ck_assert_uint_eq(accepted()->sample_type, ACCESS | PERF_SAMPLE_WEIGHT_STRUCT);
	pmu_stream_detail(stream, &detail, &event);
	ck_assert_uint_eq(detail.kind, TRACE_SAMPLE_ACCESS);
	pmu_stream_close(stream);
}
END_TEST

static const struct {
	const char *machine;
	uint64_t period, taken;
	uint32_t latency, config1;
	const char *note;
} ibs_asked[] = {
	{ "zen5", 1000003, 1000000, 0, 0, "steps of 16" },
	{ "zen5", 5, 16, 0, 0, "steps of 16" },
	{ "zen5", 160, 160, 256, 256, "" },
	{ "zen4", 160, 160, 256, 0, "no least latency" },
};

START_TEST(ibs_says_what_it_cannot_take_as_asked)
{
	struct access_stream *stream;

	build(ibs_asked[_i].machine);
	kernel.is_ibs = true;
	options.period = ibs_asked[_i].period;
	options.min_latency = ibs_asked[_i].latency;
	stream = open_named("ibs");
	ck_assert_uint_eq(accepted()->sample_period, ibs_asked[_i].taken);
	ck_assert_uint_eq(accepted()->config1, ibs_asked[_i].config1);
	ck_assert_ptr_nonnull(strstr(pmu_stream_notes(stream), ibs_asked[_i].note));
	pmu_stream_close(stream);
}
END_TEST

/* ---- POWER ---- */

START_TEST(power_marks_loads_and_stores)
{
	const struct access_source *loads = pmu_source_find("marked");
	struct access_stream *stream;

	build("power9");
	kernel.most_precise = 0; /* power_pmu_event_init knows no levels */
	stream = open_source(loads);
	ck_assert_uint_eq(accepted()->config, UINT64_C(0x34340401e0));
	ck_assert_uint_eq(accepted()->sample_type & ACCESS, ACCESS);
	check_period_is_prime(accepted()->sample_period);
	pmu_stream_close(stream);
	stream = open_source(loads->companion);
	ck_assert_uint_eq(accepted()->config, UINT64_C(0x343c0401e0));
	pmu_stream_close(stream);
	options.load_event = "r4003E";
	stream = open_source(loads);
	ck_assert_uint_eq(accepted()->config, 0x4003e);
	ck_assert_uint_eq(accepted()->type, PERF_TYPE_RAW);
	pmu_stream_close(stream);
}
END_TEST

/* ---- SPE ---- */

struct aux_kept {
	uint8_t bytes[FILE_BYTES];
	size_t n;
	struct trace_aux pieces[8];
	int n_pieces;
	int fails; /* so many times */
};

static int keep_aux(void *context, const struct trace_aux *aux, const void *bytes)
{
	struct aux_kept *kept = context;

	if (kept->fails-- > 0)
		return -EIO;
	memcpy(kept->bytes + kept->n, bytes, aux->n_bytes);
	kept->n += aux->n_bytes;
	kept->pieces[kept->n_pieces++] = *aux;
	return 0;
}

static int drop_records(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	(void)records;
	(void)n_samples;
	*(size_t *)context += n_bytes;
	return 0;
}

/* The kernel's side of a ring with an AUX area: the file that the stream has mapped. */
struct kernel_side {
	struct perf_event_mmap_page *page;
	uint8_t *ring, *area;
};

static void kernel_side_open(struct kernel_side *side, int fd)
{
	uint8_t *map = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(map, MAP_FAILED);
	side->page = (void *)map;
	side->ring = map + sysconf(_SC_PAGESIZE);
	side->area = map + side->page->aux_offset;
}

static void kernel_writes(struct kernel_side *side, uint64_t n_bytes, uint64_t flags)
{
	struct {
		struct perf_event_header header;
		uint64_t offset, size, flags;
	} record = { { PERF_RECORD_AUX, 0, sizeof(record) }, side->page->aux_head, n_bytes, flags };

	for (uint64_t i = 0; i < n_bytes; i++)
		side->area[(side->page->aux_head + i) % side->page->aux_size] =
			(uint8_t)((side->page->aux_head + i) * 7 >> 3);
	memcpy(side->ring + side->page->data_head, &record, sizeof(record));
	side->page->data_head += sizeof(record);
	side->page->aux_head += n_bytes;
}

static void check_aux(const struct aux_kept *kept, uint64_t first)
{
	for (size_t i = 0; i < kept->n; i++)
		ck_assert_uint_eq(kept->bytes[i], (uint8_t)((first + i) * 7 >> 3));
}

START_TEST(spe_asks_for_loads_and_stores_with_times)
{
	const struct perf_event_attr *attr;
	struct trace_source_detail detail;
	struct access_stream *stream;
	struct kernel_side side;
	const char *event;

	build("neoverse");
	options.min_latency = 40;
	options.freq_hz = 1000;
	stream = open_named("spe");
	attr = accepted();
	check_common(attr);
	ck_assert_uint_eq(attr->type, 9);
	/* pa_enable is bit 1, where this user may have it. */
	ck_assert_uint_eq(attr->config & ~UINT64_C(2),
			  UINT64_C(1) << 34 | UINT64_C(1) << 33 | 1u << 16 | 1);
	ck_assert_uint_eq(attr->config2, 40);
	ck_assert_uint_eq(attr->sample_type, PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU);
	ck_assert_uint_ge(attr->sample_period, 1024);
	ck_assert_ptr_nonnull(strstr(pmu_stream_notes(stream), "no rate in Hz"));
	pmu_stream_detail(stream, &detail, &event);
	ck_assert_uint_eq(detail.kind, TRACE_SAMPLE_SPE);
	ck_assert_uint_eq(detail.min_latency, 40);
	kernel_side_open(&side, kernel.opened[0].fd);
	ck_assert_uint_ge(side.page->aux_size, 64 << 10);
	ck_assert_uint_eq(side.page->aux_size & (side.page->aux_size - 1), 0);
	ck_assert_uint_ge(side.page->aux_offset, (uint64_t)sysconf(_SC_PAGESIZE) + 4096);
	munmap(side.page, FILE_BYTES);
	pmu_stream_close(stream);
}
END_TEST

START_TEST(aux_bytes_come_out_as_they_were_written_and_their_flags_are_counted)
{
	static struct aux_kept kept;
	struct access_stream *stream;
	struct pmu_losses losses;
	struct kernel_side side;
	size_t n_records = 0;
	uint64_t room;

	build("neoverse");
	stream = open_named("spe");
	kernel_side_open(&side, kernel.opened[0].fd);
	room = side.page->aux_size;
	kernel_writes(&side, 1000, 0);
	/* Bytes that no record has told of yet stay where they are. */
	ck_assert_int_eq(pmu_stream_read_aux(stream, keep_aux, &kept), 0);
	ck_assert_int_gt(pmu_stream_read(stream, drop_records, &n_records), 0);
	kept.fails = 1;
	ck_assert_int_eq(pmu_stream_read_aux(stream, keep_aux, &kept), -EIO);
	ck_assert_uint_eq(side.page->aux_tail, 0); /* kept for the next time */
	ck_assert_int_eq(pmu_stream_read_aux(stream, keep_aux, &kept), 1000);
	ck_assert_uint_eq(side.page->aux_tail, 1000);
	check_aux(&kept, 0);

	/* Over the end of the area: two pieces. */
	kept.n = 0;
	kept.n_pieces = 0;
	kernel_writes(&side, room - 500, PERF_AUX_FLAG_COLLISION);
	kernel_writes(&side, 100, PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_PARTIAL);
	ck_assert_int_gt(pmu_stream_read(stream, drop_records, &n_records), 0);
	ck_assert_int_eq(pmu_stream_read_aux(stream, keep_aux, &kept), (ssize_t)room - 400);
	ck_assert_int_eq(kept.n_pieces, 2);
	ck_assert_uint_eq(kept.pieces[0].offset, 1000);
	ck_assert_uint_eq(kept.pieces[1].offset, room);
	ck_assert_uint_eq(kept.pieces[0].flags, PERF_AUX_FLAG_COLLISION | PERF_AUX_FLAG_TRUNCATED |
							PERF_AUX_FLAG_PARTIAL);
	ck_assert_uint_eq(kept.pieces[1].flags, 0);
	ck_assert_int_eq((int)kept.pieces[0].cpu, kernel.opened[0].cpu);
	check_aux(&kept, 1000);
	ck_assert_uint_eq(n_records, 3 * 32);
	ck_assert_int_eq(pmu_stream_losses(stream, &losses), 0);
	ck_assert_uint_eq(losses.n_aux_collisions, 1);
	ck_assert_uint_eq(losses.n_aux_truncated, 1);
	ck_assert_uint_eq(losses.n_aux_partial, 1);
	munmap(side.page, FILE_BYTES);
	pmu_stream_close(stream);
}
END_TEST

/* ---- Refusals ---- */

static const struct {
	const char *machine, *source;
	int error; /* the kernel's */
	bool has_no_filter, forbids_kernel;
	int result;
	const char *load_event;
	const char *why, *fix;
	bool forbids_physical;
} refusals[] = {
	{ "zen4", "pebs", 0, false, false, -EOPNOTSUPP, NULL, "an AMD processor", "--source ibs" },
	{ "skx", "ibs", 0, false, false, -EOPNOTSUPP, NULL, "an Intel processor", "--source pebs" },
	{ "skx", "spe", 0, false, false, -EOPNOTSUPP, NULL, "an Intel processor", "--source pebs" },
	{ "neoverse", "marked", 0, false, false, -EOPNOTSUPP, NULL, "an Arm", "--source spe" },
	{ "nothing", "pebs", 0, false, false, -EOPNOTSUPP, NULL, "another", "--source clock" },
	{ "vm-amd", "ibs", 0, false, false, -ENOENT, NULL, "IBS", "--source clock" },
	{ "vm-intel", "pebs", ENOENT, false, false, -ENOENT, NULL, "PEBS", "--source clock" },
	/* Rights come first: what an ordinary user may not have hides what is not there. */
	{ "vm-intel", "pebs", ENOENT, false, false, -ENOENT, NULL, "PEBS", "clock", true },
	{ "vm-intel", "pebs", EOPNOTSUPP, false, false, -EOPNOTSUPP, NULL, "PEBS", "clock" },
	{ "skx", "pebs", EINVAL, false, false, -EINVAL, NULL, "refuses this event", "--period" },
	{ "skx", "pebs", EBUSY, false, false, -EBUSY, NULL, "counters", "nmi_watchdog" },
	{ "skx", "pebs", EMFILE, false, false, -EMFILE, NULL, "descriptors", "ulimit" },
	{ "skx", "pebs", 0, false, false, -ENOENT, "mem-laods", "mem-laods", "mem-loads" },
	{ "zen3", "ibs", 0, true, true, -EACCES, NULL, "", "" },
	{ "zen4", "ibs", EOPNOTSUPP, false, false, -EOPNOTSUPP, NULL, "refuses IBS", "clock" },
	{ "zen4", "ibs", 0, false, false, -EINVAL, "r76", "has no addresses", "ibs_op" },
	{ "neoverse", "spe", EOPNOTSUPP, false, false, -EOPNOTSUPP, NULL, "refuses SPE", "clock" },
	{ "neoverse", "spe", 0, false, false, -EINVAL, "mem_access", "no addresses", "arm_spe_0" },
	{ "power9", "marked", ENODEV, false, false, -ENODEV, NULL, "marked", "clock" },
};

START_TEST(each_refusal_is_one_clause_with_a_remedy)
{
	const struct access_source *source = pmu_source_find(refusals[_i].source);
	struct access_stream *stream = NULL;
	struct pmu_refusal refusal = { 0 };

	build(refusals[_i].machine);
	options.load_event = refusals[_i].load_event;
	kernel.error = refusals[_i].error;
	kernel.has_no_filter = refusals[_i].has_no_filter;
	kernel.forbids_kernel = refusals[_i].forbids_kernel;
	kernel.forbidden = refusals[_i].forbids_physical ? PERF_SAMPLE_PHYS_ADDR : 0;
	for (int probes = 0; probes < 2; probes++) {
		int r = probes ? source->probe(source, &options, &refusal)
			       : pmu_stream_open(source, &options, &stream, &refusal);

		ck_assert_int_eq(r, refusals[_i].result);
		ck_assert_int_eq(refusal.error, -refusals[_i].result);
		ck_assert_msg(strstr(refusal.why, refusals[_i].why), "'%s' says nothing of '%s'",
			      refusal.why, refusals[_i].why);
		ck_assert_msg(strstr(refusal.fix, refusals[_i].fix), "'%s' says nothing of '%s'",
			      refusal.fix, refusals[_i].fix);
		ck_assert_uint_gt(strlen(refusal.why), 0);
		ck_assert_uint_lt(strlen(refusal.why), sizeof(refusal.why) - 1);
		ck_assert_uint_lt(strlen(refusal.fix), sizeof(refusal.fix) - 1);
		ck_assert_ptr_null(strchr(refusal.why, '\n'));
	}
	ck_assert_ptr_null(stream);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hardware");
	TCase *tcase = tcase_create("hardware");

	setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
	tcase_add_checked_fixture(tcase, NULL, teardown);
	tcase_add_test(tcase, pebs_asks_for_latency_source_and_one_interrupt_for_many);
	tcase_add_test(tcase, stores_are_a_source_of_their_own_beside_pebs);
	tcase_add_loop_test(tcase, what_was_asked_for_reaches_the_kernel, 0, COUNT(asked));
	tcase_add_loop_test(tcase, what_a_kernel_does_not_have_is_given_up_and_nothing_else, 0,
			    COUNT(refused));
	tcase_add_loop_test(tcase, load_latency_is_led_by_an_event_that_does_not_sample, 0,
			    COUNT(led));
	tcase_add_loop_test(tcase,
			    threads_that_are_there_already_have_the_same_events_into_the_same_rings,
			    0, COUNT(running));
	tcase_add_test(tcase, a_hybrid_processor_has_an_event_for_each_kind_of_core);
	tcase_add_test(tcase, without_the_latency_event_any_load_is_sampled);
	tcase_add_test(tcase, ibs_counts_ops_and_leaves_the_kernel_out_by_its_filter);
	tcase_add_test(tcase, ibs_without_a_filter_takes_the_kernel_s_samples_too);
	tcase_add_test(tcase, ibs_without_raw_registers_is_what_the_driver_makes_of_it);
	tcase_add_loop_test(tcase, ibs_says_what_it_cannot_take_as_asked, 0, COUNT(ibs_asked));
	tcase_add_test(tcase, power_marks_loads_and_stores);
	tcase_add_test(tcase, spe_asks_for_loads_and_stores_with_times);
	tcase_add_test(tcase, aux_bytes_come_out_as_they_were_written_and_their_flags_are_counted);
	tcase_add_loop_test(tcase, each_refusal_is_one_clause_with_a_remedy, 0, COUNT(refusals));
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
