#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "perf/record.h"
#include "tests/unit/pmu/built-record.h"
#include "tests/support/suite.h"

#define PAGE 4096u

/* What our own sources use behind records that are no samples. */
static const struct pmu_format tasks_format = { .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
							       PERF_SAMPLE_CPU };

static int parse(const struct pmu_format *format, const struct built *built,
		 struct pmu_record *ret_record)
{
	return pmu_record_parse(format, built->bytes, built->n_bytes, ret_record);
}

/* ---- samples: all fields at once, every field a value of its own ---- */

#define ALL_REGS_USER UINT64_C(0x8000000000000105) /* 4 registers: 0, 2, 8, 63 */

static const struct pmu_format full_format = {
	.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
		       PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
		       PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
		       PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW |
		       PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
		       PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_TRANSACTION |
		       PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_CGROUP |
		       PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE | PERF_SAMPLE_AUX,
	.regs_user = ALL_REGS_USER,
	.regs_intr = 0x3,
	.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_ID,
	.branch_sample_type = PERF_SAMPLE_BRANCH_HW_INDEX,
};

static void build_origin(struct built *built)
{
	built_u64(built, 0x1d); /* IDENTIFIER */
	built_u64(built, 0x401000); /* IP */
	built_u32(built, 42); /* TID */
	built_u32(built, 43);
	built_u64(built, 1000000007); /* TIME */
	built_u64(built, 0x7fff1234); /* ADDR */
	built_u64(built, 0x1d); /* ID */
	built_u64(built, 0x5e); /* STREAM_ID */
	built_u32(built, 3); /* CPU */
	built_u32(built, 0);
	built_u64(built, 1003009); /* PERIOD */
}

static void build_middle(struct built *built)
{
	built_u64(built, 2); /* READ: a group of two, time enabled, then value and id of each */
	for (uint64_t i = 0; i < 5; i++)
		built_u64(built, i);
	built_u64(built, 2); /* CALLCHAIN */
	built_u64(built, PERF_CONTEXT_USER);
	built_u64(built, 0x401000);
	built_u32(built, 12); /* RAW */
	built_bytes(built, "raw bytes..", 12);
	built_u64(built, 1); /* BRANCH_STACK: hw_idx, then from, to, flags */
	for (uint64_t i = 0; i < 4; i++)
		built_u64(built, i);
}

static void build_full_sample(struct built *built)
{
	built_begin(built, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	build_origin(built);
	build_middle(built);
	built_u64(built, PERF_SAMPLE_REGS_ABI_64); /* REGS_USER */
	for (uint64_t i = 0; i < 4; i++)
		built_u64(built, 100 + i);
	built_u64(built, 16); /* STACK_USER: room for 16, of which 8 are filled */
	built_bytes(built, "stackbyte.......", 16);
	built_u64(built, 8);
	built_u64(built, UINT64_C(0x0003000200000001)); /* WEIGHT_STRUCT */
	built_u64(built, 0x1e05080021); /* DATA_SRC: what PERF_MEM_NA is */
	built_u64(built, 0x7a); /* TRANSACTION */
	built_u64(built, PERF_SAMPLE_REGS_ABI_32); /* REGS_INTR */
	built_u64(built, 1);
	built_u64(built, 2);
	built_u64(built, 0x9000); /* PHYS_ADDR */
	built_u64(built, 0xc6); /* CGROUP */
	built_u64(built, 4096); /* DATA_PAGE_SIZE */
	built_u64(built, 2097152); /* CODE_PAGE_SIZE */
	built_u64(built, 8); /* AUX */
	built_u64(built, 0xaaaa);
	built_end(built);
}

START_TEST(every_field_of_a_full_sample_is_found)
{
	const struct pmu_sample *sample;
	struct pmu_record record;
	struct built built;
	uint64_t value;

	build_full_sample(&built);
	ck_assert_int_eq(parse(&full_format, &built, &record), (int)built.n_bytes);
	sample = &record.sample;
	ck_assert(record.is_known && !record.is_kernel);
	ck_assert_uint_eq(record.origin.pid, 42);
	ck_assert_uint_eq(record.origin.tid, 43);
	ck_assert_uint_eq(record.origin.time_ns, 1000000007);
	ck_assert_uint_eq(record.origin.id, 0x1d);
	ck_assert_uint_eq(record.origin.stream_id, 0x5e);
	ck_assert_uint_eq(record.origin.cpu, 3);
	ck_assert_uint_eq(sample->ip, 0x401000);
	ck_assert_uint_eq(sample->address, 0x7fff1234);
	ck_assert_uint_eq(sample->period, 1003009);
	ck_assert_uint_eq(sample->n_callchain, 2);
	ck_assert_uint_eq(sample->callchain[0], PERF_CONTEXT_USER);
	ck_assert_uint_eq(sample->raw_bytes, 12);
	ck_assert_str_eq(sample->raw, "raw bytes..");
	ck_assert(pmu_sample_register(sample, 8, &value));
	ck_assert_uint_eq(value, 102);
	ck_assert(pmu_sample_register(sample, 63, &value));
	ck_assert_uint_eq(value, 103);
	ck_assert(!pmu_sample_register(sample, 1, &value));
	ck_assert(!pmu_sample_register(sample, 64, &value));
	ck_assert_uint_eq(sample->stack_bytes, 8);
	ck_assert_mem_eq(sample->stack, "stackbyt", 8);
	ck_assert_uint_eq(sample->weight, 1);
	ck_assert_uint_eq(sample->weight_var2, 2);
	ck_assert_uint_eq(sample->weight_var3, 3);
	ck_assert_uint_eq(sample->data_src, 0x1e05080021);
	ck_assert_uint_eq(sample->transaction, 0x7a);
	ck_assert_uint_eq(sample->physical_address, 0x9000);
	ck_assert_uint_eq(sample->cgroup, 0xc6);
	ck_assert_uint_eq(sample->data_page_bytes, 4096);
	ck_assert_uint_eq(sample->code_page_bytes, 2097152);
}
END_TEST

START_TEST(the_fast_way_finds_the_same_ip_and_thread)
{
	struct pmu_origin origin;
	struct built built;
	uint64_t ip;

	build_full_sample(&built);
	ck_assert(pmu_record_sample_ip(&full_format, built.bytes, built.n_bytes, &origin, &ip));
	ck_assert_uint_eq(ip, 0x401000);
	ck_assert_uint_eq(origin.pid, 42);
	ck_assert_uint_eq(origin.tid, 43);
	ck_assert_uint_eq(origin.time_ns, 1000000007);
	ck_assert(!pmu_record_sample_ip(&full_format, built.bytes, 8, &origin, &ip));
	ck_assert(!pmu_record_sample_ip(&tasks_format, built.bytes, built.n_bytes, &origin, &ip));
}
END_TEST

START_TEST(a_sample_of_a_kernel_thread_has_no_registers_and_no_stack)
{
	const struct pmu_format format = { .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER |
							  PERF_SAMPLE_STACK_USER,
					   .regs_user = ALL_REGS_USER };
	struct pmu_record record;
	struct built built;
	uint64_t value;

	built_begin(&built, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
	built_u64(&built, 0xffffffff81000000);
	built_u64(&built, PERF_SAMPLE_REGS_ABI_NONE);
	built_u64(&built, 0);
	built_end(&built);
	ck_assert_int_eq(parse(&format, &built, &record), (int)built.n_bytes);
	ck_assert(record.is_kernel);
	ck_assert(!pmu_sample_register(&record.sample, 0, &value));
	ck_assert_ptr_null(record.sample.stack);
	ck_assert_uint_eq(record.origin.cpu, UINT32_MAX);
}
END_TEST

/* Counts inside a sample that lead outside of it. The position counts 64-bit words,
 * the header being number 0. */
static const struct {
	const char *what;
	size_t word;
	uint64_t value;
} bad_counts[] = {
	{ "read group", 10, UINT64_MAX },
	{ "read group that overflows times two", 10, UINT64_C(1) << 63 },
	{ "callchain", 16, UINT64_C(1) << 61 }, /* times 8 overflows to 0 */
	{ "callchain, a little too long", 16, 1000 },
	{ "raw", 19, 0xfffffffc },
	{ "branches", 21, UINT64_C(0xaaaaaaaaaaaaaab) }, /* times 24 overflows to 8 */
	{ "stack", 31, UINT64_MAX - 7 },
	{ "stack filled beyond its room", 34, 17 },
	{ "aux", 45, UINT64_MAX },
};

START_TEST(a_count_that_leads_outside_of_the_record_is_refused)
{
	struct pmu_record record;
	struct built built;

	build_full_sample(&built);
	ck_assert_uint_lt(bad_counts[_i].word * 8, built.n_bytes);
	memcpy(built.bytes + bad_counts[_i].word * 8, &bad_counts[_i].value, 8);
	ck_assert_msg(parse(&full_format, &built, &record) == -EILSEQ, "%s", bad_counts[_i].what);
	ck_assert_uint_eq(record.bytes, built.n_bytes);
}
END_TEST

/* A count whose product with the size of one element is small again modulo 2^64. */
static const struct {
	struct pmu_format format;
	uint64_t count;
} overflows[] = {
	{ { .sample_type = PERF_SAMPLE_READ, .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID },
	  UINT64_C(1) << 63 },
	{ { .sample_type = PERF_SAMPLE_BRANCH_STACK }, UINT64_C(0x5555555555555556) },
	{ { .sample_type = PERF_SAMPLE_CALLCHAIN }, UINT64_C(1) << 61 },
	{ { .sample_type = PERF_SAMPLE_STACK_USER }, UINT64_MAX - 7 },
	{ { .sample_type = PERF_SAMPLE_AUX }, UINT64_MAX - 7 },
};

START_TEST(a_count_that_overflows_is_refused)
{
	struct pmu_record record;
	struct built built;

	built_begin(&built, PERF_RECORD_SAMPLE, 0);
	built_u64(&built, overflows[_i].count);
	for (uint64_t i = 0; i < 8; i++)
		built_u64(&built, 0);
	built_end(&built);
	ck_assert_int_eq(parse(&overflows[_i].format, &built, &record), -EILSEQ);
}
END_TEST

/* ---- the other records ---- */

/* The trailer of tasks_format. */
static void build_trailer(struct built *built)
{
	built_u32(built, 7); /* TID */
	built_u32(built, 8);
	built_u64(built, 555); /* TIME */
	built_u32(built, 1); /* CPU */
	built_u32(built, 0);
	built_end(built);
}

static void check_trailer(const struct pmu_record *record)
{
	ck_assert(record->is_known);
	ck_assert_uint_eq(record->origin.pid, 7);
	ck_assert_uint_eq(record->origin.tid, 8);
	ck_assert_uint_eq(record->origin.time_ns, 555);
	ck_assert_uint_eq(record->origin.cpu, 1);
}

static void build_map_head(struct built *built, uint32_t type, uint16_t misc)
{
	built_begin(built, type, misc);
	built_u32(built, 70);
	built_u32(built, 71);
	built_u64(built, 0x7f0000000000);
	built_u64(built, 0x3000);
	built_u64(built, 0x1000);
}

static void build_mmap2(struct built *built)
{
	build_map_head(built, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	built_u32(built, 8);
	built_u32(built, 1);
	built_u64(built, 1234);
	built_u64(built, 99);
	built_u32(built, PROT_READ | PROT_EXEC);
	built_u32(built, MAP_PRIVATE);
	built_string(built, "/usr/lib/libc.so.6");
	build_trailer(built);
}

START_TEST(an_mmap2_tells_the_map_and_its_file)
{
	struct pmu_record record;
	struct built built;

	build_mmap2(&built);
	ck_assert_int_eq(parse(&tasks_format, &built, &record), (int)built.n_bytes);
	check_trailer(&record);
	ck_assert_uint_eq(record.map.pid, 70);
	ck_assert_uint_eq(record.map.tid, 71);
	ck_assert_uint_eq(record.map.address, 0x7f0000000000);
	ck_assert_uint_eq(record.map.size, 0x3000);
	ck_assert_uint_eq(record.map.file_offset, 0x1000);
	ck_assert_uint_eq(record.map.major, 8);
	ck_assert_uint_eq(record.map.minor, 1);
	ck_assert_uint_eq(record.map.inode, 1234);
	ck_assert_uint_eq(record.map.inode_generation, 99);
	ck_assert_uint_eq(record.map.prot, PROT_READ | PROT_EXEC);
	ck_assert_uint_eq(record.map.flags, MAP_PRIVATE);
	ck_assert(!record.map.is_data);
	ck_assert_ptr_null(record.map.build_id);
	ck_assert_str_eq(record.map.path, "/usr/lib/libc.so.6");
}
END_TEST

static void build_mmap2_build_id(struct built *built, uint8_t n_bytes)
{
	const uint8_t head[4] = { n_bytes };

	build_map_head(built, PERF_RECORD_MMAP2,
		       PERF_RECORD_MISC_MMAP_BUILD_ID | PERF_RECORD_MISC_MMAP_DATA);
	built_bytes(built, head, sizeof(head));
	built_bytes(built, "0123456789abcdefghij", 20);
	built_u32(built, PROT_READ);
	built_u32(built, MAP_PRIVATE);
	built_string(built, "/bin/true");
	build_trailer(built);
}

START_TEST(an_mmap2_with_a_build_id_tells_it_instead_of_the_inode)
{
	struct pmu_record record;
	struct built built;

	build_mmap2_build_id(&built, 20);
	ck_assert_int_eq(parse(&tasks_format, &built, &record), (int)built.n_bytes);
	ck_assert_uint_eq(record.map.build_id_bytes, 20);
	ck_assert_mem_eq(record.map.build_id, "0123456789abcdefghij", 20);
	ck_assert_uint_eq(record.map.inode, 0);
	ck_assert(record.map.is_data);
	ck_assert_str_eq(record.map.path, "/bin/true");

	build_mmap2_build_id(&built, 21);
	ck_assert_int_eq(parse(&tasks_format, &built, &record), -EILSEQ);
}
END_TEST

START_TEST(an_old_mmap_says_only_whether_it_is_code)
{
	struct pmu_record record;
	struct built built;

	build_map_head(&built, PERF_RECORD_MMAP, PERF_RECORD_MISC_MMAP_DATA);
	built_string(&built, "//anon");
	build_trailer(&built);
	ck_assert_int_eq(parse(&tasks_format, &built, &record), (int)built.n_bytes);
	check_trailer(&record);
	ck_assert(record.map.is_data);
	ck_assert_uint_eq(record.map.prot, 0);
	ck_assert_str_eq(record.map.path, "//anon");

	build_map_head(&built, PERF_RECORD_MMAP, 0);
	built_string(&built, "/bin/true");
	build_trailer(&built);
	ck_assert_int_eq(parse(&tasks_format, &built, &record), (int)built.n_bytes);
	ck_assert_uint_eq(record.map.prot, PROT_EXEC);
}
END_TEST

START_TEST(a_path_without_its_end_is_refused)
{
	struct pmu_record record;
	struct built built;

	build_map_head(&built, PERF_RECORD_MMAP, 0);
	built_bytes(&built, "/no/end!", 8);
	build_trailer(&built);
	/* The zeros of the trailer behind it must not be taken for its end. */
	ck_assert_int_eq(parse(&tasks_format, &built, &record), -EILSEQ);
}
END_TEST

START_TEST(a_comm_tells_the_name_and_whether_it_is_another_image)
{
	struct pmu_record record;
	struct built built;

	for (int is_exec = 0; is_exec < 2; is_exec++) {
		built_begin(&built, PERF_RECORD_COMM, is_exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
		built_u32(&built, 70);
		built_u32(&built, 71);
		built_string(&built, "fifteen-letters");
		build_trailer(&built);
		ck_assert_int_eq(parse(&tasks_format, &built, &record), (int)built.n_bytes);
		check_trailer(&record);
		ck_assert_uint_eq(record.comm.pid, 70);
		ck_assert_uint_eq(record.comm.tid, 71);
		ck_assert_str_eq(record.comm.name, "fifteen-letters");
		ck_assert_int_eq(record.comm.is_exec, is_exec);
	}
}
END_TEST

static const uint32_t task_types[] = { PERF_RECORD_FORK, PERF_RECORD_EXIT };

START_TEST(a_fork_and_an_exit_tell_child_and_parent)
{
	struct pmu_record record;
	struct built built;

	built_begin(&built, task_types[_i], 0);
	built_u32(&built, 100); /* pid */
	built_u32(&built, 50); /* ppid */
	built_u32(&built, 101); /* tid */
	built_u32(&built, 51); /* ptid */
	built_u64(&built, 777);
	build_trailer(&built);
	ck_assert_int_eq(parse(&tasks_format, &built, &record), (int)built.n_bytes);
	check_trailer(&record);
	ck_assert_uint_eq(record.type, task_types[_i]);
	ck_assert_uint_eq(record.task.pid, 100);
	ck_assert_uint_eq(record.task.parent_pid, 50);
	ck_assert_uint_eq(record.task.tid, 101);
	ck_assert_uint_eq(record.task.parent_tid, 51);
	ck_assert_uint_eq(record.task.time_ns, 777);
}
END_TEST

/* Three words each; which of them is what depends on the type. */
static void build_words(struct built *built, uint32_t type, unsigned n)
{
	built_begin(built, type, 0);
	for (unsigned i = 1; i <= n; i++)
		built_u64(built, 1000 * i);
	build_trailer(built);
}

START_TEST(losses_and_throttling_tell_their_numbers)
{
	struct pmu_record record;
	struct built built;

	build_words(&built, PERF_RECORD_LOST, 2);
	ck_assert_int_gt(parse(&tasks_format, &built, &record), 0);
	check_trailer(&record);
	ck_assert_uint_eq(record.lost.id, 1000);
	ck_assert_uint_eq(record.lost.count, 2000);

	build_words(&built, PERF_RECORD_LOST_SAMPLES, 1);
	ck_assert_int_gt(parse(&tasks_format, &built, &record), 0);
	check_trailer(&record);
	ck_assert_uint_eq(record.lost.count, 1000);

	build_words(&built, PERF_RECORD_THROTTLE, 3);
	ck_assert_int_gt(parse(&tasks_format, &built, &record), 0);
	check_trailer(&record);
	ck_assert_uint_eq(record.throttle.time_ns, 1000);
	ck_assert_uint_eq(record.throttle.id, 2000);
	ck_assert_uint_eq(record.throttle.stream_id, 3000);

	build_words(&built, PERF_RECORD_AUX, 3);
	ck_assert_int_gt(parse(&tasks_format, &built, &record), 0);
	ck_assert_uint_eq(record.aux.offset, 1000);
	ck_assert_uint_eq(record.aux.size, 2000);
	ck_assert_uint_eq(record.aux.flags, 3000);
}
END_TEST

/* ---- lengths ---- */

static const struct {
	uint16_t size;
	size_t n_bytes;
	int length;
} lengths[] = {
	{ 8, 8, 8 },	      { 16, 24, 16 },
	{ 0, 64, -EBADMSG },  { 4, 64, -EBADMSG },
	{ 12, 64, -EBADMSG }, { 72, 64, -EBADMSG },
	{ 8, 4, -EBADMSG },   { UINT16_MAX, 64, -EBADMSG },
	{ 8, 0, 0 },
};

START_TEST(a_length_is_told_only_where_a_record_can_be)
{
	struct built built;
	struct pmu_record record;

	built_begin(&built, 1000, 0);
	memcpy(built.bytes + offsetof(struct perf_event_header, size), &lengths[_i].size, 2);
	ck_assert_int_eq(pmu_record_length(built.bytes, lengths[_i].n_bytes), lengths[_i].length);
	ck_assert_int_eq(pmu_record_parse(&tasks_format, built.bytes, lengths[_i].n_bytes, &record),
			 lengths[_i].length);
}
END_TEST

START_TEST(bytes_that_are_not_aligned_are_refused)
{
	struct built built;

	build_full_sample(&built);
	ck_assert_int_eq(pmu_record_length(built.bytes + 4, 64), -EINVAL);
}
END_TEST

START_TEST(an_unknown_type_is_stepped_over)
{
	static const uint32_t types[] = { 0,	PERF_RECORD_READ, PERF_RECORD_KSYMBOL, 64, 79,
					  1000, UINT32_MAX };
	struct pmu_record record;
	struct built built;

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		built_begin(&built, types[i], 0);
		built_u64(&built, 1);
		built_end(&built);
		ck_assert_int_eq(parse(&tasks_format, &built, &record), 16);
		ck_assert(!record.is_known);
		ck_assert_uint_eq(record.type, types[i]);
	}
}
END_TEST

/* A record cut at every length, at the very end of readable memory: a read beyond it is a crash. */
static void cut_everywhere(const struct pmu_format *format, const struct built *built)
{
	uint8_t *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pmu_record record;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
	for (uint16_t size = 8; size < built->n_bytes; size += 8) {
		uint8_t *start = pages + PAGE - size;

		memcpy(start, built->bytes, size);
		memcpy(start + offsetof(struct perf_event_header, size), &size, sizeof(size));
		ck_assert_int_eq(pmu_record_parse(format, start, size, &record), -EILSEQ);
	}
	munmap(pages, 2 * PAGE);
}

START_TEST(a_record_that_was_cut_is_refused_and_nothing_behind_it_is_read)
{
	struct built built;

	build_full_sample(&built);
	cut_everywhere(&full_format, &built);
	build_words(&built, PERF_RECORD_THROTTLE, 3);
	cut_everywhere(&tasks_format, &built);
	build_words(&built, PERF_RECORD_LOST, 2);
	cut_everywhere(&tasks_format, &built);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(*(array))))

START_TEST(registers_of_another_processor_are_not_taken_for_x86)
{
	static const uint64_t value;
	static const struct {
		uint64_t mask;
		bool is_x86;
	} masks[] = { { 0xff03ff, true },
		      { 0xff0fff, true },
		      { (UINT64_C(1) << 33) - 1, false },
		      { (UINT64_C(1) << 32) - 1, false } };
	struct pmu_sample sample = { .regs = &value,
				     .regs_abi = PERF_SAMPLE_REGS_ABI_64,
				     .regs_mask = masks[_i].mask };

	ck_assert_int_eq(pmu_sample_is_x86(&sample), masks[_i].is_x86);
	sample.regs_abi = PERF_SAMPLE_REGS_ABI_32;
	ck_assert(!pmu_sample_is_x86(&sample));
	sample.regs = NULL;
	ck_assert(!pmu_sample_is_x86(&sample));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pmu-record");
	TCase *tcase = tcase_create("records");

	tcase_add_test(tcase, every_field_of_a_full_sample_is_found);
	tcase_add_loop_test(tcase, registers_of_another_processor_are_not_taken_for_x86, 0, 4);
	tcase_add_test(tcase, the_fast_way_finds_the_same_ip_and_thread);
	tcase_add_test(tcase, a_sample_of_a_kernel_thread_has_no_registers_and_no_stack);
	tcase_add_loop_test(tcase, a_count_that_leads_outside_of_the_record_is_refused, 0,
			    COUNT(bad_counts));
	tcase_add_loop_test(tcase, a_count_that_overflows_is_refused, 0, COUNT(overflows));
	tcase_add_test(tcase, an_mmap2_tells_the_map_and_its_file);
	tcase_add_test(tcase, an_mmap2_with_a_build_id_tells_it_instead_of_the_inode);
	tcase_add_test(tcase, an_old_mmap_says_only_whether_it_is_code);
	tcase_add_test(tcase, a_path_without_its_end_is_refused);
	tcase_add_test(tcase, a_comm_tells_the_name_and_whether_it_is_another_image);
	tcase_add_loop_test(tcase, a_fork_and_an_exit_tell_child_and_parent, 0, COUNT(task_types));
	tcase_add_test(tcase, losses_and_throttling_tell_their_numbers);
	tcase_add_loop_test(tcase, a_length_is_told_only_where_a_record_can_be, 0, COUNT(lengths));
	tcase_add_test(tcase, bytes_that_are_not_aligned_are_refused);
	tcase_add_test(tcase, an_unknown_type_is_stepped_over);
	tcase_add_test(tcase, a_record_that_was_cut_is_refused_and_nothing_behind_it_is_read);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
