/*
 * How fast addresses become rows: page faults and clock samples attributed and written, and frames
 * named. Prints rates; asserts nothing. Arguments: an ELF file to take frames of (default: cc1's).
 */
#include <gelf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyze/samples/samples.h"
#include "analyze/symbols/symbols.h"
#include "decode/decode.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "store/database.h"

#define N_FAULTS  1000000
#define N_CLOCK	  300000
#define N_FRAMES  100000 /* of cc1: seconds */
#define BLOCK	  UINT64_C(0x5000000)
#define BLOCK_END UINT64_C(0x9000000)
#define CODE	  UINT64_C(0x400000)

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool find_block(void *user, uint32_t process, uint64_t address, struct owner_block *ret)
{
	(void)user;
	(void)process;
	if (address < BLOCK || address >= BLOCK_END)
		return false;
	*ret = (struct owner_block){ 11, BLOCK, BLOCK_END - BLOCK, 1 };
	return true;
}

static bool was_block(void *user, uint32_t process, uint64_t address)
{
	(void)user;
	(void)process;
	(void)address;
	return false;
}

static bool last_freed(void *user, uint32_t thread, struct owner_block *ret)
{
	(void)user;
	(void)thread;
	(void)ret;
	return false;
}

static bool find_mapping(void *user, uint32_t process, uint64_t address, struct owner_mapping *ret)
{
	(void)user;
	(void)process;
	(void)address;
	(void)ret;
	return false;
}

static int64_t same(void *user, uint64_t time)
{
	(void)user;
	return (int64_t)time;
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

static void add_source(struct samples *samples, uint32_t number, uint64_t sample_type)
{
	struct trace_source source = {
		.head.type = TRACE_RECORD_SOURCE,
		.source_id = number,
		.perf_type = PERF_TYPE_SOFTWARE,
		.perf_config = sample_type & PERF_SAMPLE_ADDR ? PERF_COUNT_SW_PAGE_FAULTS
							      : PERF_COUNT_SW_CPU_CLOCK,
		.sample_type = sample_type,
		.regs_user = DECODE_REGS_MASK,
		.period = 1000,
		.name_bytes = 1,
		.unit_bytes = 1,
	};
	struct trace_source *record = make_record(&source, sizeof(source), "x", 1, "u", 1);

	samples_source(samples, record);
	free(record);
}

static void add_task(struct tasks *tasks)
{
	struct trace_process *process = make_process(1, 0, 1001, RING_BIRTH_EXEC);
	struct trace_thread *thread = make_thread(1, 1, 1001);

	thread->stack_start = UINT64_C(0x7ff00000);
	thread->stack_end = UINT64_C(0x7ff80000);
	tasks_add_process(tasks, process, 0);
	tasks_add_thread(tasks, thread, 0);
	free(process);
	free(thread);
}

/* In segments of 10,000, as a trace has them. */
static void feed_faults(struct samples *samples)
{
	static struct fault_record records[10000];
	double start = now();

	for (int i = 0; i < N_FAULTS;) {
		for (int k = 0; k < 10000; k++, i++)
			records[k] = (struct fault_record){
				.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER,
					  sizeof(records[k]) },
				.ip = CODE + (uint64_t)(i % 100),
				.pid = 1001,
				.tid = 1001,
				.time = (uint64_t)i,
				.address = i % 4 ? BLOCK + (uint64_t)i * 64 % (BLOCK_END - BLOCK)
						 : UINT64_C(0x7ff10000) + (uint64_t)i % 4096,
			};
		samples_perf(samples, 1, records, sizeof(records));
		samples_advance(samples, i);
	}
	printf("page faults: %.2f M/s\n", N_FAULTS / (now() - start) / 1e6);
}

/* A loop of five instructions with three operands, and straight code of 40 to 60 up to a return. */
static void feed_clock(struct samples *samples)
{
	static const uint8_t loop[] = { 0x8b, 0x06, 0x8b, 0x4e, 0x04, 0x89,
					0x07, 0x48, 0xff, 0xc3, 0xeb, 0xf4 };
	static struct clock_record records[10000];
	uint8_t code[4096];
	const struct trace_code head = { .address = CODE, .n_bytes = sizeof(code) };
	double start;

	memset(code, 0x90, sizeof(code));
	memcpy(code, loop, sizeof(loop));
	for (int i = 0; i < 60; i++)
		memcpy(code + 256 + i * 4, (const uint8_t[]){ 0x48, 0x8b, 0x46, (uint8_t)i }, 4);
	code[256 + 240] = 0xc3;
	samples_code(samples, 1, &head, code);
	start = now();
	for (int i = 0; i < N_CLOCK;) {
		for (int k = 0; k < 10000; k++, i++) {
			records[k] = (struct clock_record){
				.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER,
					  sizeof(records[k]) },
				.ip = i % 3 ? CODE : CODE + 256 + (uint64_t)(i % 20) * 4,
				.pid = 1001,
				.tid = 1001,
				.time = N_FAULTS + (uint64_t)i,
				.abi = PERF_SAMPLE_REGS_ABI_64,
			};
			records[k].regs[DECODE_SI] = BLOCK + (uint64_t)i * 64;
			records[k].regs[DECODE_DI] = UINT64_C(0x7ff10000);
			records[k].regs[DECODE_SP] = UINT64_C(0x7ff10000);
		}
		samples_perf(samples, 2, records, sizeof(records));
		samples_advance(samples, N_FAULTS + i);
	}
	printf("clock samples: %.2f M/s\n", N_CLOCK / (now() - start) / 1e6);
}

static void bench_samples(struct db *db)
{
	const struct owner_memory memory = { NULL, find_block, was_block, last_freed,
					     find_mapping };
	uint64_t common = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	struct sample_context context = {
		.db = db,
		.run_id = 1,
		.clock = { NULL, same, same },
		.machine = DECODE_MACHINE_X86_64,
	};
	struct objects *objects = NULL;
	struct globals *globals = NULL;
	struct samples *samples = NULL;

	if (objects_create(NULL, &objects) < 0 || tasks_create(1, 1, &context.tasks) < 0 ||
	    modules_create(context.tasks, objects, &context.modules) < 0 ||
	    globals_create(db_handle(db), objects, &globals) < 0 ||
	    stacks_create(db_handle(db), context.tasks, context.modules, objects, &context.stacks) <
		    0 ||
	    owners_create(context.tasks, context.modules, globals, &memory, &context.owners) < 0 ||
	    samples_create(&context, &samples) < 0)
		exit(1);
	add_task(context.tasks);
	add_source(samples, 1, common | PERF_SAMPLE_ADDR);
	add_source(samples, 2, common | PERF_SAMPLE_REGS_USER);
	feed_faults(samples);
	feed_clock(samples);
	samples_finish(samples, true);
	samples_wait(samples);
	samples_destroy(samples);
	owners_destroy(context.owners);
	stacks_destroy(context.stacks);
	globals_destroy(globals);
	modules_destroy(context.modules);
	tasks_destroy(context.tasks);
	objects_destroy(objects);
}

static void bench_symbols(const char *path)
{
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];
	struct objects *objects = NULL;
	double start = now();
	unsigned n_functions = 0, n_lines = 0;

	objects_create(NULL, &objects);
	struct object *object = objects_get(objects, NULL, 0, path, strlen(path));
	if (!object_open(object)) {
		printf("%s: cannot be read\n", path);
		objects_destroy(objects);
		return;
	}
	for (size_t i = 0; i < object->n_segments; i++) {
		const struct object_segment *segment = &object->segments[i];

		for (uint64_t k = 0; segment->is_executable && k < N_FRAMES; k++) {
			uint64_t address =
				segment->address + k * (segment->memory_bytes / N_FRAMES);

			n_lines += symbols_lines(object, address, lines, SYMBOLS_MAX_DEPTH) > 0;
			n_functions += symbols_function(object, address) != NULL;
		}
	}
	printf("%s: %d addresses in %.2f s; %u in functions, %u with lines\n", path, N_FRAMES,
	       now() - start, n_functions, n_lines);
	objects_destroy(objects);
}

int main(int n, char **arguments)
{
	char path[64];
	struct db *db = NULL;

	snprintf(path, sizeof(path), "/tmp/bench-addresses-%d.db", getpid());
	if (db_begin(path, DB_REPLACE, &db) < 0)
		return 1;
	bench_samples(db);
	db_close(db);
	unlink(path);
	if (n < 2)
		bench_symbols("/usr/lib/gcc/x86_64-linux-gnu/12/cc1");
	for (int i = 1; i < n; i++)
		bench_symbols(arguments[i]);
	return 0;
}
