#include "tests/support/make-trace/world.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "schemas/ring.h"

static struct trace_string text(const char *string)
{
	return (struct trace_string){ string, (uint32_t)strlen(string) };
}

static int write_run(struct world *world)
{
	static const char command[] = "maketrace\0--synthetic";
	struct trace_string strings[] = { text("maketrace"),
					  text("synthetic"),
					  { command, sizeof(command) - 1 },
					  text("/home/maketrace") };
	struct trace_run run = { .head.type = TRACE_RECORD_RUN,
				 .start_unix_ns = UINT64_C(1700000000000000000),
				 .repetition = 1,
				 .program_bytes = strings[0].n_bytes,
				 .mode_bytes = strings[1].n_bytes,
				 .command_bytes = strings[2].n_bytes,
				 .directory_bytes = strings[3].n_bytes };

	return trace_writer_record(world->writer, &run, sizeof(run), strings, 4);
}

static int write_facts(struct world *world)
{
	static const char *const facts[][2] = {
		{ "host", "maketrace" },
		{ "kernel", "6.1.0-maketrace" },
		{ "cpu_model", "made up" },
	};

	for (unsigned i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		struct trace_string strings[] = { text(facts[i][0]), text(facts[i][1]) };
		struct trace_fact fact = { .head.type = TRACE_RECORD_FACT,
					   .ticks = world->ticks,
					   .key_bytes = strings[0].n_bytes,
					   .value_bytes = strings[1].n_bytes };
		int r = trace_writer_record(world->writer, &fact, sizeof(fact), strings, 2);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Loads and stores as a CPU samples them, with all that it tells of one. */
static int write_access_source(struct world *world)
{
	struct trace_string strings[] = { text("accesses"), text("memory accesses"), text("") };
	struct trace_string detail_strings[] = { text("made up"), text("") };
	struct trace_source source = { .head.type = TRACE_RECORD_SOURCE,
				       .source_id = WORLD_SOURCE_ID,
				       .perf_type = PERF_TYPE_RAW,
				       .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
						      PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
						      PERF_SAMPLE_CPU | PERF_SAMPLE_WEIGHT |
						      PERF_SAMPLE_DATA_SRC,
				       .period = 1000,
				       .exclude_kernel = 1,
				       .clock_id = CLOCK_MONOTONIC_RAW,
				       .name_bytes = strings[0].n_bytes,
				       .unit_bytes = strings[1].n_bytes };
	struct trace_source_detail detail = { .head.type = TRACE_RECORD_SOURCE_DETAIL,
					      .source_id = WORLD_SOURCE_ID,
					      .kind = TRACE_SAMPLE_ACCESS,
					      .event_bytes = detail_strings[0].n_bytes };
	int r = trace_writer_record(world->writer, &source, sizeof(source), strings, 3);

	return r < 0 ? r
		     : trace_writer_record(world->writer, &detail, sizeof(detail), detail_strings,
					   2);
}

static int write_source(struct world *world)
{
	if (world->options.are_accesses)
		return write_access_source(world);
	struct trace_string strings[] = { text("faults"), text("page faults"), text("") };
	struct trace_source source = { .head.type = TRACE_RECORD_SOURCE,
				       .source_id = WORLD_SOURCE_ID,
				       .perf_type = PERF_TYPE_SOFTWARE,
				       .perf_config = PERF_COUNT_SW_PAGE_FAULTS,
				       .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
						      PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
						      PERF_SAMPLE_CPU,
				       .period = 1,
				       .exclude_kernel = 1,
				       .clock_id = CLOCK_MONOTONIC_RAW,
				       .name_bytes = strings[0].n_bytes,
				       .unit_bytes = strings[1].n_bytes };

	return trace_writer_record(world->writer, &source, sizeof(source), strings, 3);
}

int world_write_clock(struct world *world)
{
	struct trace_clock clock = { .head.type = TRACE_RECORD_CLOCK,
				     .ticks = world->ticks,
				     .raw_ns = world_raw_ns(world->ticks),
				     .error_ns = 20 };

	return trace_writer_record(world->writer, &clock, sizeof(clock), NULL, 0);
}

#define BUILD_ID_BYTES 20
static const char program_build_id[BUILD_ID_BYTES + 1] = "maketrace---build-id";
static const char library_build_id[BUILD_ID_BYTES + 1] = "libmaketrace-buildid";

static int write_module(struct world *world, const struct world_process *process, const char *path)
{
	bool is_library = strcmp(path, WORLD_LIBRARY_PATH) == 0;
	uint64_t bias = is_library ? process->image.library_bias : process->image.program_bias;
	struct trace_string strings[] = {
		{ is_library ? library_build_id : program_build_id, BUILD_ID_BYTES }, text(path)
	};
	struct trace_module module = {
		.head.type = TRACE_RECORD_MODULE,
		.ticks = world->ticks,
		.bias = bias,
		.start = bias,
		.end = bias + (is_library ? WORLD_LIBRARY_BYTES : WORLD_PROGRAM_BYTES),
		.process_id = process->process_id,
		.build_id_bytes = strings[0].n_bytes,
		.path_bytes = strings[1].n_bytes,
	};

	return trace_writer_record(world->writer, &module, sizeof(module), strings, 2);
}

static int write_mapping(struct world *world, const struct world_process *process,
			 struct trace_mapping mapping, const char *path)
{
	struct trace_string string = text(path);

	mapping.head.type = TRACE_RECORD_MAPPING;
	mapping.ticks = world->ticks;
	mapping.process_id = process->process_id;
	mapping.prot = PROT_READ | PROT_WRITE;
	mapping.flags = MAP_PRIVATE;
	mapping.path_bytes = string.n_bytes;
	return trace_writer_record(world->writer, &mapping, sizeof(mapping), &string, 1);
}

static int write_thread(struct world *world, const struct world_process *process, uint32_t index)
{
	const struct world_thread *thread = &process->threads[index];
	struct trace_string name = text(index == 0 ? "maketrace" : "worker");
	struct trace_thread record = { .head.type = TRACE_RECORD_THREAD,
				       .thread_id = thread->thread_id,
				       .process_id = process->process_id,
				       .tid = thread->tid,
				       .ns_tid = thread->tid,
				       .start_ticks = world->ticks,
				       .stack_start = thread->stack_start,
				       .stack_end = thread->stack_start + WORLD_STACK_BYTES,
				       .is_main = index == 0,
				       .name_bytes = name.n_bytes };

	return trace_writer_record(world->writer, &record, sizeof(record), &name, 1);
}

static int write_process(struct world *world, const struct world_process *process)
{
	struct trace_string strings[] = { text(WORLD_PROGRAM_PATH), text("maketrace") };
	struct trace_process record = { .head.type = TRACE_RECORD_PROCESS,
					.process_id = process->process_id,
					.parent_id = process->process_id > 1,
					.pid = process->pid,
					.ns_pid = process->pid,
					.birth = RING_BIRTH_EXEC,
					.start_ticks = world->ticks,
					.exe_bytes = strings[0].n_bytes,
					.command_bytes = strings[1].n_bytes };
	struct trace_mapping old_map = { .start = WORLD_OLD_MAP_START,
					 .size = WORLD_OLD_MAP_BYTES };
	struct trace_mapping stack = { .start = process->threads[0].stack_start,
				       .size = WORLD_STACK_BYTES };

	int r = trace_writer_record(world->writer, &record, sizeof(record), strings, 2);
	if (r == 0)
		r = write_module(world, process, WORLD_PROGRAM_PATH);
	if (r == 0)
		r = write_module(world, process, WORLD_LIBRARY_PATH);
	if (r == 0)
		r = write_mapping(world, process, stack, "[stack]");
	if (r == 0)
		r = write_mapping(world, process, old_map, "");
	for (uint32_t i = 0; r == 0 && i < world->options.n_threads; i++)
		r = write_thread(world, process, i);
	return r;
}

int world_write_start(struct world *world)
{
	int r = write_run(world);

	if (r == 0)
		r = write_facts(world);
	if (r == 0)
		r = write_source(world);
	if (r == 0)
		r = world_write_clock(world);
	for (uint32_t i = 0; r == 0 && i < world->options.n_processes; i++)
		r = write_process(world, &world->processes[i]);
	return r;
}

static int write_process_end(struct world *world, const struct world_process *process)
{
	struct trace_process_end end = { .head.type = TRACE_RECORD_PROCESS_END,
					 .process_id = process->process_id,
					 .ticks = world->ticks };

	for (uint32_t i = 0; i < world->options.n_threads; i++) {
		struct trace_thread_end thread = { .head.type = TRACE_RECORD_THREAD_END,
						   .thread_id = process->threads[i].thread_id,
						   .ticks = world->ticks };
		int r = trace_writer_record(world->writer, &thread, sizeof(thread), NULL, 0);
		if (r < 0)
			return r;
	}
	return trace_writer_record(world->writer, &end, sizeof(end), NULL, 0);
}

int world_write_end(struct world *world)
{
	uint64_t run_ns = world_run_ns(world->ticks);
	struct trace_exit exit_record = { .head.type = TRACE_RECORD_EXIT,
					  .ticks = world->ticks,
					  .user_ns = run_ns,
					  .minor_faults = world->options.are_accesses
								  ? 0
								  : world->truth->n_samples };
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < world->options.n_processes; i++)
		r = write_process_end(world, &world->processes[i]);
	if (r == 0)
		r = trace_writer_record(world->writer, &exit_record, sizeof(exit_record), NULL, 0);
	if (r == 0)
		r = world_write_clock(world);
	return r;
}
