#include "tests/analyze/trace-maker.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/ring.h"
#include "tests/analyze/check-db.h"

static struct trace_string text(const char *string)
{
	return (struct trace_string){ string, (uint32_t)strlen(string) };
}

/* A recording's id: no two traces of a test may agree in it. */
static void set_id(uint8_t id[16])
{
	static uint32_t n;
	uint64_t words[2] = { (uint64_t)getpid(), ++n };

	memcpy(id, words, sizeof(words));
}

static void write_run(struct maker *maker)
{
	struct trace_run run = {
		.head.type = TRACE_RECORD_RUN,
		.start_unix_ns = 1700000000000000000,
		.repetition = 1,
		.program_bytes = 4,
		.mode_bytes = 7,
		.command_bytes = 9,
		.directory_bytes = 4,
	};
	struct trace_string strings[] = {
		text("prog"), text("default"), { "prog\0-n 10", 9 }, text("/tmp")
	};
	struct trace_clock clock = {
		.head.type = TRACE_RECORD_CLOCK,
		.ticks = MAKER_START,
		.raw_ns = MAKER_START,
		.error_ns = 25,
	};

	ck_assert_int_eq(trace_writer_record(maker->writer, &run, sizeof(run), strings, 4), 0);
	ck_assert_int_eq(trace_writer_record(maker->writer, &clock, sizeof(clock), NULL, 0), 0);
}

void maker_init(struct maker *maker)
{
	struct trace_file_header header = {
		.machine = 62,
		.clock = RING_CLOCK_RAW,
		.ticks_per_second = 1000000000,
		.start_ticks = MAKER_START,
	};

	*maker = (struct maker){ 0 };
	const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(maker->folder, sizeof(maker->folder), "%s/memsight-test-XXXXXX", base);
	ck_assert_ptr_nonnull(mkdtemp(maker->folder));
	snprintf(maker->trace, sizeof(maker->trace), "%s/t.mst", maker->folder);
	snprintf(maker->db, sizeof(maker->db), "%s/t.mst.db", maker->folder);
	set_id(header.recording_id);
	int fd = open(maker->trace, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(trace_writer_open(fd, &header, &maker->writer), 0);
	write_run(maker);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st;
	(void)type;
	(void)walk;
	return remove(path);
}

void maker_finish(struct maker *maker)
{
	maker->writer = trace_writer_close(maker->writer);
	ck_assert_int_eq(nftw(maker->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void add_process(struct maker *maker, struct trace_process *process)
{
	struct trace_string strings[] = { text("/bin/prog"), text("prog") };

	process->head.type = TRACE_RECORD_PROCESS;
	process->pid = 1000 + process->process_id;
	process->ns_pid = process->pid;
	process->start_ticks += MAKER_START;
	process->exe_bytes = strings[0].n_bytes;
	process->command_bytes = strings[1].n_bytes;
	ck_assert_int_eq(trace_writer_record(maker->writer, process, sizeof(*process), strings, 2),
			 0);
}

void maker_process(struct maker *maker, uint32_t number, uint32_t parent, uint64_t start_ns)
{
	struct trace_process process = {
		.process_id = number,
		.parent_id = parent,
		.birth = RING_BIRTH_EXEC,
		.start_ticks = start_ns,
	};

	add_process(maker, &process);
}

void maker_fork(struct maker *maker, uint32_t number, uint32_t parent, uint64_t start_ns)
{
	struct trace_process process = {
		.process_id = number,
		.parent_id = parent,
		.birth = RING_BIRTH_FORK,
		.start_ticks = start_ns,
	};

	add_process(maker, &process);
}

void maker_end(struct maker *maker, uint32_t process, uint64_t time_ns, int status)
{
	struct trace_process_end end = {
		.head.type = TRACE_RECORD_PROCESS_END,
		.process_id = process,
		.status = status,
		.ticks = time_ns + MAKER_START,
	};

	ck_assert_int_eq(trace_writer_record(maker->writer, &end, sizeof(end), NULL, 0), 0);
}

void maker_thread(struct maker *maker, uint32_t number, uint32_t process, uint64_t start_ns)
{
	struct trace_thread thread = {
		.head.type = TRACE_RECORD_THREAD,
		.thread_id = number,
		.process_id = process,
		.tid = 2000 + number,
		.ns_tid = 2000 + number,
		.start_ticks = start_ns + MAKER_START,
	};

	ck_assert_int_eq(trace_writer_record(maker->writer, &thread, sizeof(thread),
					     &(struct trace_string){ "", 0 }, 1),
			 0);
}

void maker_mapping(struct maker *maker, uint32_t process, uint64_t start, uint64_t size)
{
	struct trace_string path = text("/lib/one.so");
	struct trace_mapping mapping = {
		.head.type = TRACE_RECORD_MAPPING,
		.ticks = MAKER_START,
		.start = start,
		.size = size,
		.process_id = process,
		.prot = 1,
		.flags = 2,
		.path_bytes = path.n_bytes,
	};

	ck_assert_int_eq(trace_writer_record(maker->writer, &mapping, sizeof(mapping), &path, 1),
			 0);
}

void maker_event(struct maker *maker, uint32_t thread, const struct trace_event *event)
{
	struct trace_event copy = *event;

	copy.ticks += MAKER_START;
	copy.begin_ticks = event->begin_ticks ? event->begin_ticks + MAKER_START : copy.ticks;
	check_equal(trace_writer_event(maker->writer, thread, &copy), 0);
}

void maker_source(struct maker *maker, uint32_t number, const char *name, const char *unit,
		  uint64_t period)
{
	struct trace_string strings[] = { text(name), text(unit), text("") };
	struct trace_source source = {
		.head.type = TRACE_RECORD_SOURCE,
		.source_id = number,
		.period = period,
		.name_bytes = strings[0].n_bytes,
		.unit_bytes = strings[1].n_bytes,
	};

	ck_assert_int_eq(trace_writer_record(maker->writer, &source, sizeof(source), strings, 3),
			 0);
}

void maker_fact(struct maker *maker, const char *key, const char *value)
{
	struct trace_string strings[] = { text(key), text(value) };
	struct trace_fact fact = {
		.head.type = TRACE_RECORD_FACT,
		.key_bytes = strings[0].n_bytes,
		.value_bytes = strings[1].n_bytes,
	};

	ck_assert_int_eq(trace_writer_record(maker->writer, &fact, sizeof(fact), strings, 2), 0);
}

void maker_node(struct maker *maker, uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc)
{
	struct trace_node node = { id, parent, pc };

	ck_assert_int_eq(trace_writer_node(maker->writer, thread, &node), 0);
}

void maker_accesses(struct maker *maker, uint32_t source, const struct trace_access *accesses,
		    size_t n)
{
	struct trace_access copies[16];

	ck_assert_uint_le(n, 16);
	for (size_t i = 0; i < n; i++) {
		copies[i] = accesses[i];
		copies[i].raw_ns += MAKER_START;
	}
	ck_assert_int_eq(trace_writer_accesses(maker->writer, source, copies, n), 0);
}

void maker_commit(struct maker *maker, uint64_t time_ns)
{
	struct trace_commit commit = { MAKER_START + time_ns, MAKER_START + time_ns };
	uint64_t n_dropped;

	ck_assert_int_eq(trace_writer_commit(maker->writer, &commit, &n_dropped), 0);
}

void maker_close(struct maker *maker, uint64_t time_ns)
{
	struct trace_commit commit = { MAKER_START + time_ns, MAKER_START + time_ns };

	ck_assert_int_eq(trace_writer_finish(maker->writer, &commit), 0);
	maker->writer = trace_writer_close(maker->writer);
}
