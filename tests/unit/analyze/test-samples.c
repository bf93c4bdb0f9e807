/* Perf records made by hand, in a process whose heap and code are made by hand. */
#include <check.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/samples/samples.h"
#include "decode/decode.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "store/database.h"
#include "tests/support/suite.h"

#define PID	    1001
#define TID	    2001
#define BLOCK_A	    UINT64_C(0x5000000)
#define BLOCK_B	    UINT64_C(0x5100000)
#define BLOCK_BYTES 0x1000u
#define TEXTS	    UINT64_C(0x5200000)
#define CODE	    UINT64_C(0x400000)
#define SOMEWHERE   UINT64_C(0x9000000)

enum { CLOCK = 1, FAULTS = 2, TASKS = 3 };

static char db_path[64];
static struct db *db;
static struct objects *objects;
static struct tasks *tasks;
static struct modules *modules;
static struct globals *globals;
static struct owners *owners;
static struct stacks *stacks;
static struct samples *samples;
static bool has_freed;

/* What the sink was told. */
static struct {
	int n_samples;
	int n_touches;
	double shares;
	uint64_t n_lost;
	char reason[100];
} told;

static bool find_block(void *user, uint32_t process, uint64_t address, struct owner_block *ret)
{
	(void)user, (void)process;
	if (address - BLOCK_A < BLOCK_BYTES)
		*ret = (struct owner_block){ 11, BLOCK_A, BLOCK_BYTES, 1 };
	else if (address - BLOCK_B < BLOCK_BYTES)
		*ret = (struct owner_block){ 12, BLOCK_B, BLOCK_BYTES, 2 };
	else if (address - TEXTS < 96) /* two of one site, and another */
		*ret = (struct owner_block){ 20 + (int64_t)(address - TEXTS) / 32, address & ~31ul,
					     32, address - TEXTS < 64 ? 3 : 4 };
	else
		return false;
	return true;
}

static bool was_block(void *user, uint32_t process, uint64_t address)
{
	(void)user, (void)process;
	return address - SOMEWHERE < 64;
}

static bool last_freed(void *user, uint32_t thread, struct owner_block *ret)
{
	(void)user, (void)thread;
	if (has_freed)
		*ret = (struct owner_block){ 13, SOMEWHERE, 64, 3 };
	return has_freed;
}

static bool find_mapping(void *user, uint32_t process, uint64_t address, struct owner_mapping *ret)
{
	(void)user, (void)process, (void)address, (void)ret;
	return false;
}

static int64_t same(void *user, uint64_t time)
{
	(void)user;
	return (int64_t)time;
}

static int on_sample(void *user, const struct sample_event *taken)
{
	(void)user, (void)taken;
	told.n_samples++;
	return 0;
}

static bool withholds; /* the program wants no samples now */

static bool is_collected(void *user, const struct task_thread *thread, bool is_fault)
{
	(void)user, (void)thread, (void)is_fault;
	return !withholds;
}

static int on_touch(void *user, const struct touch *touch)
{
	(void)user;
	told.n_touches++;
	told.shares += touch->share;
	return 0;
}

static int on_loss(void *user, const char *source, const char *reason, uint64_t count)
{
	(void)user, (void)source;
	told.n_lost += count;
	snprintf(told.reason, sizeof(told.reason), "%s", reason);
	return 0;
}

static void add_source(uint32_t number, const char *name, uint64_t config, uint64_t sample_type)
{
	struct trace_source source = {
		.head.type = TRACE_RECORD_SOURCE,
		.source_id = number,
		.perf_type = PERF_TYPE_SOFTWARE,
		.perf_config = config,
		.sample_type = sample_type,
		.regs_user = sample_type & PERF_SAMPLE_REGS_USER ? DECODE_REGS_MASK : 0,
		.period = number == CLOCK ? 1000 : 1,
		.name_bytes = (uint32_t)strlen(name),
		.unit_bytes = 2,
	};
	struct trace_source *record =
		make_record(&source, sizeof(source), name, strlen(name), "ns", 2);

	ck_assert_int_eq(samples_source(samples, record), 0);
	free(record);
}

static void create_parts(void)
{
	const struct owner_memory memory = { NULL, find_block, was_block, last_freed,
					     find_mapping };

	ck_assert_int_eq(objects_create(NULL, &objects), 0);
	ck_assert_int_eq(tasks_create(1, 1, &tasks), 0);
	ck_assert_int_eq(modules_create(tasks, objects, &modules), 0);
	ck_assert_int_eq(globals_create(db_handle(db), objects, &globals), 0);
	ck_assert_int_eq(stacks_create(db_handle(db), tasks, modules, objects, &stacks), 0);
	ck_assert_int_eq(owners_create(tasks, modules, globals, &memory, &owners), 0);

	const struct sample_context context = {
		.db = db,
		.run_id = 5,
		.tasks = tasks,
		.modules = modules,
		.stacks = stacks,
		.owners = owners,
		.clock = { NULL, same, same },
		.sink = { .sample = on_sample,
			  .collects = is_collected,
			  .touch = on_touch,
			  .loss = on_loss },
		.machine = DECODE_MACHINE_X86_64,
	};
	ck_assert_int_eq(samples_create(&context, &samples), 0);
}

static void set_up(void)
{
	uint64_t common = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;

	snprintf(db_path, sizeof(db_path), "/tmp/test-samples-%d.db", getpid());
	ck_assert_int_eq(db_begin(db_path, DB_REPLACE, &db), 0);
	create_parts();
	memset(&told, 0, sizeof(told));
	has_freed = false;

	struct trace_process *process = make_process(1, 0, PID, RING_BIRTH_EXEC);
	struct trace_thread *thread = make_thread(1, 1, TID);
	ck_assert_int_eq(tasks_add_process(tasks, process, 0), 0);
	ck_assert_int_eq(tasks_add_thread(tasks, thread, 0), 0);
	free(process);
	free(thread);
	add_source(CLOCK, "clock", PERF_COUNT_SW_CPU_CLOCK, common | PERF_SAMPLE_REGS_USER);
	add_source(FAULTS, "faults", PERF_COUNT_SW_PAGE_FAULTS, common | PERF_SAMPLE_ADDR);
	add_source(TASKS, "tasks", PERF_COUNT_SW_DUMMY,
		   PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU);
}

static void tear_down(void)
{
	samples = samples_destroy(samples);
	owners = owners_destroy(owners);
	stacks = stacks_destroy(stacks);
	globals = globals_destroy(globals);
	modules = modules_destroy(modules);
	tasks = tasks_destroy(tasks);
	objects = objects_destroy(objects);
	db = db_close(db);
	unlink(db_path);
}

struct fault_record {
	struct perf_event_header head;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time;
	uint64_t address;
	uint32_t cpu, reserved;
};

struct clock_record {
	struct perf_event_header head;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
	uint64_t abi;
	uint64_t regs[DECODE_N_REGS];
};

static void fault(uint64_t address, int64_t time_ns)
{
	const struct fault_record record = {
		.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(record) },
		.ip = CODE,
		.pid = PID,
		.tid = TID,
		.time = (uint64_t)time_ns,
		.address = address,
	};

	ck_assert_int_eq(samples_perf(samples, FAULTS, &record, sizeof(record)), 0);
}

static struct clock_record clock_at(uint64_t ip, int64_t time_ns)
{
	struct clock_record record = {
		.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(record) },
		.ip = ip,
		.pid = PID,
		.tid = TID,
		.time = (uint64_t)time_ns,
		.abi = PERF_SAMPLE_REGS_ABI_64,
	};

	record.regs[DECODE_SI] = BLOCK_A + 0x100;
	record.regs[DECODE_DI] = BLOCK_B + 0x200;
	record.regs[DECODE_SP] = UINT64_C(0x7ff0000);
	record.regs[DECODE_IP] = ip;
	return record;
}

static void push_clock(const struct clock_record *record)
{
	ck_assert_int_eq(samples_perf(samples, CLOCK, record, sizeof(*record)), 0);
}

static void put_code(const void *bytes, size_t n_bytes)
{
	const struct trace_code head = { .address = CODE, .n_bytes = (uint32_t)n_bytes };

	ck_assert_int_eq(samples_code(samples, 1, &head, bytes), 0);
}

/* 1: mov (%rsi),%eax  2: mov 4(%rsi),%ecx  3: mov %eax,(%rdi)  4: inc %rbx; 1: jmp back */
static const uint8_t loop[] = { 0x8b, 0x06, 0x8b, 0x4e, 0x04, 0x89,
				0x07, 0x48, 0xff, 0xc3, 0xeb, 0xf4 };

static void finish(void)
{
	ck_assert_int_eq(samples_finish(samples, true), 0);
	ck_assert_int_eq(samples_wait(samples), 0);
}

static int64_t integer(const char *sql)
{
	return memory_db_integer(db_handle(db), sql);
}

#define ck_integer(wanted, sql) ck_assert_int_eq(integer(sql), wanted)

START_TEST(a_page_fault_is_one_touch_of_its_owner)
{
	fault(BLOCK_A + 5, 1000);
	finish();
	ck_integer(1, "SELECT count(*) FROM sample WHERE run_id = 5 AND weight = 1"
		      " AND time_ns = 1000 AND process_id = 1 AND thread_id = 1");
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 3 AND share = 1.0"
		      " AND owner_kind = 1 AND owner_id = 11 AND phase = 0"
		      " AND address = 83886085 AND is_write IS NULL");
	ck_assert_int_eq(integer("SELECT n_samples FROM source WHERE name = 'faults'"), 1);
	ck_assert_int_eq(told.n_samples, 1);
	ck_assert_int_eq(told.n_touches, 1);
}
END_TEST

/* A source of another kind than its name and event say. */
static void add_detail(uint32_t number, enum trace_sample_kind kind, enum trace_direction direction)
{
	struct trace_source_detail detail = {
		.head.type = TRACE_RECORD_SOURCE_DETAIL,
		.source_id = number,
		.kind = (uint16_t)kind,
		.direction = (uint8_t)direction,
	};
	struct trace_source_detail *record = make_record(&detail, sizeof(detail), "", 0, "", 0);

	ck_assert_int_eq(samples_source_detail(samples, record), number == 9 ? -EBADMSG : 0);
	free(record);
}

#define LEDGER(what, name)                                                                         \
	integer("SELECT " what " FROM source_ledger JOIN source ON id = source_id"                 \
		" WHERE name = '" name "'")

START_TEST(addresses_that_say_nothing_are_counted_and_nobody_s)
{
	fault(0, 1000);
	fault(UINT64_C(0xffff888012345678), 2000);
	fault(UINT64_C(0xffffffff81000000), 3000);
	fault(BLOCK_A + 5, 4000);
	finish();
	ck_assert_int_eq(LEDGER("n_zero * 10 + n_kernel", "faults"), 12);
}
END_TEST

START_TEST(a_ledger_says_what_was_lost_and_by_how_much_counts_are_too_low)
{
	const struct trace_source_ledger ledger = { .source_id = FAULTS,
						    .n_taken = 3,
						    .n_lost = 1 };

	ck_assert_int_eq(samples_source_ledger(samples, &ledger), 0);
	finish();
	ck_assert_int_eq(LEDGER("round(1000 * scale)", "faults"), 1333);
	ck_assert_int_eq(LEDGER("n_lost * 10 + is_complete", "faults"), 11);
}
END_TEST

START_TEST(what_a_sample_says_is_told_by_its_source)
{
	add_detail(9, TRACE_SAMPLE_ACCESS, TRACE_DIRECTION_LOADS); /* nobody has told of it */
	add_detail(FAULTS, TRACE_SAMPLE_ACCESS,
		   _i ? TRACE_DIRECTION_STORES : TRACE_DIRECTION_LOADS);
	fault(BLOCK_A + 5, 1000);
	finish();
	ck_integer(_i, "SELECT is_write FROM touch WHERE role = 0 AND owner_id = 11");
	ck_assert_int_eq(integer("SELECT count(*) FROM touch"), 1);
}
END_TEST

static void add_perf_clock(uint64_t perf_ns, uint64_t raw_ns, uint64_t error_ns)
{
	const struct trace_perf_clock pair = {
		.head.type = TRACE_RECORD_PERF_CLOCK,
		.perf_ns = perf_ns,
		.raw_ns = raw_ns,
		.error_ns = error_ns,
	};

	ck_assert_int_eq(samples_perf_clock(samples, &pair), 0);
}

/* perf's clock runs 1,000,000 ns ahead at first and 1,000,100 ns at 10,000. */
START_TEST(times_of_perf_s_own_clock_are_converted_by_pairs)
{
	struct trace_source source = { .head.type = TRACE_RECORD_SOURCE,
				       .source_id = 7,
				       .clock_id = UINT32_MAX,
				       .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
						      PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
						      PERF_SAMPLE_CPU,
				       .name_bytes = 4 };
	struct trace_source *record = make_record(&source, sizeof(source), "pebs", 4, "", 0);
	struct fault_record sample = {
		.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(sample) },
		.ip = CODE,
		.pid = PID,
		.tid = TID,
		.time = 1000000 + 5050,
		.address = BLOCK_A,
	};

	ck_assert_int_eq(samples_source(samples, record), 0);
	ck_assert_uint_eq(samples_clock_error(samples), 0);
	add_perf_clock(1000000, 0 + 1, 30);
	add_perf_clock(1000000 + 10100, 10000 + 1, 20);
	ck_assert_int_eq(samples_perf(samples, 7, &sample, sizeof(sample)), 0);
	fault(BLOCK_A, 77); /* of another source: as it is */
	finish();
	ck_assert_int_eq(integer("SELECT time_ns FROM sample WHERE source_id = 4"), 5001);
	ck_assert_int_eq(integer("SELECT time_ns FROM sample WHERE source_id = 2"), 77);
	ck_assert_uint_eq(samples_clock_error(samples), 30);
	free(record);
}
END_TEST

START_TEST(time_in_a_loop_is_divided_over_its_owners_and_directions)
{
	struct clock_record record = clock_at(CODE, 1000);

	put_code(loop, sizeof(loop));
	push_clock(&record);
	finish();
	/* Two loads of block A, each with its address; one store to block B. */
	ck_assert_int_eq(integer("SELECT count(*) FROM touch WHERE role = 1"), 3);
	ck_integer(2, "SELECT count(*) FROM touch WHERE role = 1 AND owner_id = 11"
		      " AND address IN (0x5000100, 0x5000104) AND round(share * 3) = 1");
	ck_integer(1, "SELECT round(share * 3) FROM touch WHERE role = 1"
		      " AND owner_id = 12 AND is_write = 1 AND size = 4");
	/* The operand at ip, exactly. */
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 0 AND share = 1.0"
		      " AND owner_id = 11 AND is_write = 0 AND size = 4");
	ck_assert_int_eq(integer("SELECT weight FROM sample"), 1000);
	ck_integer(1000, "SELECT round(sum(weight)) FROM owner_share WHERE role = 1");
	ck_integer(9, "SELECT round(9 * n_sq) FROM owner_share WHERE role = 1"
		      " AND owner_kind = 1");
}
END_TEST

START_TEST(a_loop_has_a_mix_by_number_and_what_was_waited_for)
{
	struct clock_record record = clock_at(CODE, 1000);

	record.regs[DECODE_FLAGS] = 0x256; /* as the increment of rbx to 0 leaves them */
	put_code(loop, sizeof(loop));
	push_clock(&record);
	finish();
	ck_assert_int_eq(integer("SELECT count(*) FROM touch WHERE role = 5"), 2);
	/* Of the mix one address of each owner and direction stays. */
	ck_integer(
		2,
		"SELECT count(*) FROM touch AS time JOIN touch AS mix"
		" USING (sample_id, owner_id, is_write, address)"
		" WHERE time.role = 1 AND mix.role = 5 AND round(mix.share * 3) = 13 - owner_id");
	/* The loop's jump ran right before. */
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 2 AND share = 1.0"
		      " AND owner_kind = 7 AND frame_id IS NOT NULL");
}
END_TEST

static void push_kernel(const struct clock_record *user)
{
	struct clock_record record = *user;

	record.head.misc = PERF_RECORD_MISC_KERNEL;
	record.ip = UINT64_C(0xffffffff81000000);
	push_clock(&record);
}

START_TEST(time_of_the_kernel_goes_to_the_instruction_that_it_stopped)
{
	struct clock_record record = clock_at(CODE, 1000);

	put_code(loop, sizeof(loop));
	push_kernel(&record);
	finish();
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 1 AND share = 1.0"
		      " AND owner_id = 11 AND phase = 3");
	ck_assert_int_eq(integer("SELECT count(*) FROM touch"), 2);
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 2 AND owner_kind = 8");
	ck_assert_int_eq(integer("SELECT is_kernel FROM sample"), 1);
}
END_TEST

START_TEST(time_of_a_system_call_is_the_kernels)
{
	/* syscall; mov (%rsi),%eax: the registers are those behind the syscall. */
	static const uint8_t call[] = { 0x0f, 0x05, 0x8b, 0x06 };
	struct clock_record record = clock_at(CODE + 2, 1000);

	put_code(call, sizeof(call));
	push_kernel(&record);
	finish();
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 1 AND share = 1.0"
		      " AND owner_kind = 8 AND phase = 0");
}
END_TEST

START_TEST(code_without_data_is_time_of_code)
{
	static const uint8_t spin[] = { 0xff, 0xc0, 0xeb, 0xfc }; /* 1: inc %eax; jmp 1b */
	struct clock_record record = clock_at(CODE, 1000);

	put_code(spin, sizeof(spin));
	push_clock(&record);
	finish();
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 1 AND owner_kind = 7"
		      " AND share = 1.0 AND address IS NULL");
	ck_assert_int_eq(integer("SELECT count(*) FROM touch WHERE role = 0"), 0);
}
END_TEST

/* 1: vpcmpeqb (%rsi),%ymm17,%k1{%k2}; jmp 1b: as strcmp reads texts that are shorter. */
START_TEST(what_a_vector_reads_of_several_blocks_is_their_site_s)
{
	struct clock_record record = clock_at(CODE, 1000);

	put_code("\x62\xf3\x75\x22\x3f\x0e\x00\xeb\xf7", 9);
	record.regs[DECODE_SI] = TEXTS + 16;
	push_clock(&record);
	record.regs[DECODE_SI] = TEXTS + 48;
	push_clock(&record);
	finish();
	ck_integer(11, "SELECT sum(owner_id = 20) * 10 + sum(owner_kind = 13) FROM touch"
		       " WHERE role = 1 AND share = 1.0 AND address IS NULL");
}
END_TEST

START_TEST(without_code_bytes_the_sample_stays_as_unknown_and_is_counted)
{
	struct clock_record record = clock_at(CODE, 1000);

	push_clock(&record);
	finish();
	ck_integer(1, "SELECT count(*) FROM touch WHERE role = 1 AND owner_kind = 13"
		      " AND share = 1.0");
	ck_assert_uint_eq(told.n_lost, 1);
	ck_assert_str_eq(told.reason, "no code bytes: not attributed");
}
END_TEST

START_TEST(samples_without_registers_are_counted)
{
	struct clock_record record = clock_at(CODE, 1000);

	put_code(loop, sizeof(loop));
	record.abi = PERF_SAMPLE_REGS_ABI_32;
	push_clock(&record);
	finish();
	ck_assert_int_eq(integer("SELECT owner_kind FROM touch"), 13);
	ck_assert_uint_eq(told.n_lost, 1);
}
END_TEST

START_TEST(a_kernel_sample_is_the_kernel_s)
{
	struct clock_record record = clock_at(0xffffffff81000000, 1000);

	record.head.misc = PERF_RECORD_MISC_KERNEL;
	push_clock(&record);
	finish();
	ck_assert_int_eq(integer("SELECT is_kernel FROM sample"), 1);
	ck_assert_int_eq(integer("SELECT owner_kind FROM touch WHERE role = 1"), 8);
}
END_TEST

START_TEST(a_touch_before_the_birth_of_its_block_is_its_allocating)
{
	const struct owner_block born = { .id = 20, .start = SOMEWHERE + 0x100, .size = 256 };

	fault(born.start + 8, 1000);
	fault(born.start + 0x4000, 1001);
	ck_assert_int_eq(samples_advance(samples, 2000), 0);
	ck_assert_uint_eq(*samples_n_waiting(samples), 2);
	ck_assert(samples_is_waiting(samples, 1));
	ck_assert(!samples_is_waiting(samples, 2));
	ck_assert_int_eq(told.n_touches, 0);
	ck_assert_int_eq(samples_event(samples, 1, TRACE_OP_ALLOC, &born), 0);
	ck_assert_uint_eq(*samples_n_waiting(samples), 0);
	finish();
	ck_integer(1, "SELECT count(*) FROM touch WHERE owner_kind = 1"
		      " AND owner_id = 20 AND phase = 1");
	ck_assert_int_eq(integer("SELECT count(*) FROM touch WHERE owner_kind = 13"), 1);
	ck_assert_int_eq(integer("SELECT phase FROM owner_share WHERE owner_kind = 1"), 1);
}
END_TEST

START_TEST(only_the_next_event_decides)
{
	const struct owner_block born = { .id = 20, .start = SOMEWHERE, .size = 64 };

	fault(SOMEWHERE + 8, 1000);
	ck_assert_int_eq(samples_advance(samples, 2000), 0);
	ck_assert_int_eq(samples_event(samples, 1, TRACE_OP_FREE, NULL), 0);
	ck_assert_int_eq(samples_event(samples, 1, TRACE_OP_ALLOC, &born), 0);
	fault(SOMEWHERE + 8, 3000); /* and at the end there is none */
	finish();
	ck_assert_int_eq(integer("SELECT count(*) FROM touch WHERE owner_kind = 9"), 2);
}
END_TEST

START_TEST(what_waits_is_bounded)
{
	enum { N = 65536 + 10 };

	for (int i = 0; i < N; i++)
		fault(SOMEWHERE, 1000 + i);
	ck_assert_int_eq(samples_advance(samples, INT64_MAX), 0);
	ck_assert_uint_le(*samples_n_waiting(samples), 65536);
	finish();
	ck_assert_uint_eq(*samples_n_waiting(samples), 0);
	ck_assert_int_eq(told.n_touches, N);
	ck_assert_int_eq(integer("SELECT count(*) FROM touch WHERE owner_kind = 9"), N);
}
END_TEST

START_TEST(records_are_attributed_in_order_of_time_over_frames_and_sources)
{
	struct clock_record record = clock_at(CODE, 1500);

	put_code(loop, sizeof(loop));
	fault(BLOCK_A, 2000);
	fault(BLOCK_A, 1000);
	push_clock(&record);
	ck_assert_int_eq(*samples_next_ns(samples), 1000);
	ck_assert_int_eq(samples_advance(samples, 1000), 0);
	ck_assert_int_eq(told.n_samples, 0);
	ck_assert_int_eq(samples_advance(samples, 2000), 0);
	ck_assert_int_eq(told.n_samples, 2);
	ck_assert_int_eq(*samples_next_ns(samples), 2000);
	fault(BLOCK_A, 1800);
	ck_assert_int_eq(*samples_next_ns(samples), 1800);
	finish();
	ck_assert_int_eq(*samples_next_ns(samples), INT64_MAX);
	ck_integer(1, "SELECT group_concat(time_ns, '') = '1000150018002000'"
		      " FROM (SELECT time_ns FROM sample ORDER BY id)");
}
END_TEST

START_TEST(an_unknown_process_and_thread_get_rows)
{
	struct fault_record record = {
		.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(record) },
		.ip = CODE,
		.pid = 77,
		.tid = 78,
		.time = 1000,
		.address = 0x1234,
	};

	ck_assert_int_eq(samples_perf(samples, FAULTS, &record, sizeof(record)), 0);
	record.pid = PID; /* another thread of the process that is known */
	ck_assert_int_eq(samples_perf(samples, FAULTS, &record, sizeof(record)), 0);
	record.pid = UINT32_MAX; /* a task that was ending */
	record.tid = UINT32_MAX;
	ck_assert_int_eq(samples_perf(samples, FAULTS, &record, sizeof(record)), 0);
	finish();
	ck_assert_int_eq(tasks_write(tasks, db_handle(db), 5), 0);
	ck_assert_uint_eq(told.n_lost, 2);
	ck_assert_int_eq(integer("SELECT count(*) FROM thread WHERE tid = 78 AND number = 0"), 2);
	ck_assert_int_eq(integer("SELECT traced FROM process WHERE pid = 77"), 0);
	ck_integer(1, "SELECT count(*) FROM sample JOIN process"
		      " ON process.id = sample.process_id WHERE pid = 77");
	ck_integer(1, "SELECT count(*) FROM sample WHERE process_id IS NULL"
		      " AND thread_id IS NULL");
}
END_TEST

START_TEST(damaged_records_and_orphans_are_counted_and_stepped_over)
{
	struct fault_record records[3] = { 0 };

	for (int i = 0; i < 3; i++)
		records[i] = (struct fault_record){
			.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(records[i]) },
			.pid = PID,
			.tid = TID,
			.time = 1000,
			.address = BLOCK_A,
		};
	records[1].head.size = 8; /* too short for its fields; the next one starts inside it */
	ck_assert_int_eq(samples_perf(samples, FAULTS, records, sizeof(records)), 0);
	ck_assert_int_eq(samples_perf(samples, 99, records, sizeof(records)), 0);
	ck_assert_int_eq(samples_perf(samples, FAULTS, records, 20), 0);
	finish();
	ck_assert_int_ge(told.n_samples, 1);
	ck_assert_uint_ge(told.n_lost, 3);
}
END_TEST

struct lost_record {
	struct perf_event_header head;
	uint64_t id;
	uint64_t count;
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
};

START_TEST(lost_records_count_when_the_trace_does_not_tell_itself)
{
	const struct lost_record record = { .head = { PERF_RECORD_LOST, 0, sizeof(record) },
					    .count = 17,
					    .time = 1000 };

	ck_assert_int_eq(samples_perf(samples, FAULTS, &record, sizeof(record)), 0);
	ck_assert_int_eq(samples_finish(samples, _i), 0);
	ck_assert_int_eq(samples_wait(samples), 0);
	ck_assert_uint_eq(told.n_lost, _i ? 0 : 17);
}
END_TEST

struct comm_record {
	struct perf_event_header head;
	uint32_t pid, tid;
	char name[8];
	uint32_t pid2, tid2;
	uint64_t time;
	uint32_t cpu, reserved;
};

START_TEST(an_exec_that_nobody_else_tells_starts_another_image)
{
	const struct comm_record record = {
		.head = { PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, sizeof(record) },
		.pid = PID,
		.tid = TID,
		.name = "other",
		.pid2 = PID,
		.tid2 = TID,
		.time = 1500000,
	};

	/* The first exec of the command is its own. */
	struct comm_record first = record;
	first.time = 10;
	ck_assert_int_eq(samples_perf(samples, TASKS, &first, sizeof(first)), 0);
	ck_assert_int_eq(samples_perf(samples, TASKS, &record, sizeof(record)), 0);
	fault(BLOCK_A, 1000);
	fault(BLOCK_A, 2000000);
	finish();
	ck_assert_int_eq(tasks_write(tasks, db_handle(db), 5), 0);
	ck_assert_int_eq(integer("SELECT process_id FROM sample WHERE time_ns = 1000"), 1);
	ck_integer(1, "SELECT count(*) FROM sample JOIN process ON process.id ="
		      " process_id WHERE time_ns = 2000000 AND exe = 'other'");
}
END_TEST

static struct trace_access private_access(uint32_t sample, uint64_t address, float share)
{
	return (struct trace_access){
		.raw_ns = 1000 + sample,
		.ip = CODE,
		.sample_ip = CODE,
		.address = address,
		.sample = sample,
		.pid = PID,
		.tid = TID,
		.size = 8,
		.share = share,
		.role = TRACE_ROLE_WINDOW,
	};
}

START_TEST(private_accesses_of_one_sample_go_together_and_the_rest_is_unknown)
{
	struct trace_access accesses[] = {
		private_access(1, BLOCK_A, 0.5f),
		private_access(1, BLOCK_B, 0.25f),
		private_access(2, BLOCK_A, 1.0f),
		private_access(3, 0, 0.0f),
	};

	accesses[3].role = TRACE_ROLE_NONE;
	ck_assert_int_eq(samples_accesses(samples, CLOCK, accesses, 4), 0);
	finish();
	ck_assert_int_eq(integer("SELECT count(*) FROM sample"), 3);
	ck_assert_int_eq(integer("SELECT count(*) FROM touch WHERE role = 1"), 5);
	ck_integer(1, "SELECT round(4 * share) FROM touch WHERE sample_id = 1"
		      " AND role = 1 AND owner_kind = 13");
	ck_integer(1, "SELECT share = 1.0 AND owner_kind = 13 FROM touch"
		      " WHERE sample_id = 3 AND role = 1");
	/* Nothing was told of what was waited for: it is not known, of each sample. */
	ck_integer(3, "SELECT count(*) FROM touch WHERE role = 2 AND share = 1.0"
		      " AND owner_kind = 13");
}
END_TEST

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 4;
}

static void push_random(uint32_t *seed, int64_t time_ns)
{
	struct clock_record record = clock_at(CODE + next_random(seed) % 4096, time_ns);

	for (int i = 0; i < (int)DECODE_N_REGS; i++) {
		if (next_random(seed) % 3)
			record.regs[i] = BLOCK_A - 0x800 + next_random(seed) % 0x103000;
	}
	if (next_random(seed) % 7 == 0)
		record.pid = 1 + next_random(seed) % 3;
	if (next_random(seed) % 5)
		push_clock(&record);
	else
		fault(SOMEWHERE + next_random(seed) % 0x1000, time_ns);
}

static void check_none(const char *query)
{
	char sql[1000];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM (%s)", query);
	ck_assert_msg(integer(sql) == 0, "rows that should not be: %s", query);
}

static void check_shares_of_rows(void)
{
	ck_assert_int_eq(integer("SELECT count(*) FROM sample"), 400);
	ck_assert_int_eq(told.n_samples, 400);
	check_none("SELECT sample_id FROM touch GROUP BY sample_id, role"
		   " HAVING abs(sum(share) - 1) > 1e-9");
	/* Every sample has its role: window for the clock, fault for the faults. */
	ck_assert_int_eq(integer("SELECT count(DISTINCT sample_id) FROM touch"), 400);
	check_none("SELECT 1 FROM touch GROUP BY sample_id"
		   " HAVING max(role IN (1, 3)) = 0 OR max(role IN (2, 3)) = 0");
	check_none("SELECT sample_id, owner_kind, owner_id, phase, is_write,"
		   " CASE WHEN address IS NULL THEN frame_id END FROM touch WHERE role = 1"
		   " GROUP BY 1, 2, 3, 4, 5, 6 HAVING count(*) > iif(address IS NULL, 1, 4)"
		   " OR count(*) > count(DISTINCT iif(address IS NULL, 0, address << 16)"
		   " + ifnull(frame_id, 0))");
}

/* What the aggregates say is what the rows say. */
static void check_owner_shares(void)
{
	check_none("SELECT 1 FROM (SELECT source_id, role, owner_kind, phase, sum(share) AS n,"
		   " sum(share * weight) AS w FROM touch JOIN sample ON sample.id = sample_id"
		   " GROUP BY 1, 2, 3, 4) AS t LEFT JOIN owner_share AS o"
		   " USING (source_id, role, owner_kind, phase)"
		   " WHERE o.n IS NULL OR abs(o.n - t.n) > 1e-6 OR abs(o.weight - t.w) > 1e-3");
	check_none("SELECT 1 FROM (SELECT source_id, role, owner_kind, phase, sum(s * s) AS sq"
		   " FROM (SELECT source_id, role, owner_kind, phase, sum(share) AS s FROM touch"
		   " JOIN sample ON sample.id = sample_id GROUP BY sample_id, 1, 2, 3, 4)"
		   " GROUP BY 1, 2, 3, 4) AS t JOIN owner_share AS o"
		   " USING (source_id, role, owner_kind, phase) WHERE abs(o.n_sq - t.sq) > 1e-6");
}

/* Random code, registers, faults and events: nothing gets lost between the owners. */
START_TEST(the_shares_of_every_sample_and_role_add_up_to_one)
{
	uint32_t seed = (uint32_t)_i * 7919u + 1;
	uint8_t code[4096], op;

	for (size_t i = 0; i < sizeof(code); i++)
		code[i] = next_random(&seed) % 4 ? loop[next_random(&seed) % sizeof(loop)]
						 : (uint8_t)next_random(&seed);
	put_code(code, sizeof(code));
	for (int i = 0; i < 400; i++) {
		const struct owner_block born = { .id = 100 + i,
						  .start = SOMEWHERE + next_random(&seed) % 0x1000,
						  .size = next_random(&seed) % 512 };

		push_random(&seed, 1000 + i * 10);
		if (next_random(&seed) % 4 == 0) {
			ck_assert_int_eq(samples_advance(samples, 1000 + i * 10 + 5), 0);
			has_freed = next_random(&seed) % 2;
			op = has_freed ? TRACE_OP_REALLOC : TRACE_OP_ALLOC;
			ck_assert_int_eq(samples_event(samples, 1, op,
						       next_random(&seed) % 3 ? &born : NULL),
					 0);
		}
	}
	finish();
	check_shares_of_rows();
	check_owner_shares();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("samples");
	TCase *tcase = tcase_create("samples");

	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, a_page_fault_is_one_touch_of_its_owner);
	tcase_add_test(tcase, addresses_that_say_nothing_are_counted_and_nobody_s);
	tcase_add_test(tcase, a_ledger_says_what_was_lost_and_by_how_much_counts_are_too_low);
	tcase_add_loop_test(tcase, what_a_sample_says_is_told_by_its_source, 0, 2);
	tcase_add_test(tcase, times_of_perf_s_own_clock_are_converted_by_pairs);
	tcase_add_test(tcase, time_in_a_loop_is_divided_over_its_owners_and_directions);
	tcase_add_test(tcase, a_loop_has_a_mix_by_number_and_what_was_waited_for);
	tcase_add_test(tcase, time_of_the_kernel_goes_to_the_instruction_that_it_stopped);
	tcase_add_test(tcase, time_of_a_system_call_is_the_kernels);
	tcase_add_test(tcase, code_without_data_is_time_of_code);
	tcase_add_test(tcase, what_a_vector_reads_of_several_blocks_is_their_site_s);
	tcase_add_test(tcase, without_code_bytes_the_sample_stays_as_unknown_and_is_counted);
	tcase_add_test(tcase, samples_without_registers_are_counted);
	tcase_add_test(tcase, a_kernel_sample_is_the_kernel_s);
	tcase_add_test(tcase, a_touch_before_the_birth_of_its_block_is_its_allocating);
	tcase_add_test(tcase, only_the_next_event_decides);
	tcase_add_test(tcase, what_waits_is_bounded);
	tcase_add_test(tcase, records_are_attributed_in_order_of_time_over_frames_and_sources);
	tcase_add_test(tcase, an_unknown_process_and_thread_get_rows);
	tcase_add_test(tcase, damaged_records_and_orphans_are_counted_and_stepped_over);
	tcase_add_loop_test(tcase, lost_records_count_when_the_trace_does_not_tell_itself, 0, 2);
	tcase_add_test(tcase, an_exec_that_nobody_else_tells_starts_another_image);
	tcase_add_test(tcase, private_accesses_of_one_sample_go_together_and_the_rest_is_unknown);
	tcase_add_loop_test(tcase, the_shares_of_every_sample_and_role_add_up_to_one, 0, 10);
	return suite_run(suite);
}
