#include "analyze/analyze.h"
#include "analyze/batch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/trace-maker.h"
#include "tests/support/fewer.h"
#include "tests/support/make-trace/make-trace.h"
#include "tests/support/suite.h"

static const struct import_options plain;
static const struct import_options forced = { .force = true };

/* The two forms of a database, for tests that are looped over them. */
static const struct import_options forms[] = { { .compact = false }, { .compact = true } };
#define N_FORMS 2

static struct maker maker;
static struct db *db;

static void set_up(void)
{
	maker_init(&maker);
}

static void tear_down(void)
{
	db = db_close(db);
	maker_finish(&maker);
}

/* ---- Traces whose truth is known ---- */

static struct make_trace_truth *make(const struct make_trace_options *options)
{
	struct make_trace_truth *truth = NULL;
	int fd = open(maker.trace, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(make_trace(fd, options, &truth), 0);
	return truth;
}

static int64_t total(const char *name)
{
	char *sql = sqlite3_mprintf("SELECT value FROM total WHERE name = %Q", name);
	int64_t value = check_integer(db_handle(db), sql);

	sqlite3_free(sql);
	return value;
}

static void check_heap(const struct make_trace_total *heap)
{
	ck_assert_int_eq(total("allocations"), (int64_t)heap->n_births);
	ck_assert_int_eq(total("frees"), (int64_t)heap->n_deaths);
	ck_assert_int_eq(total("reallocations"), (int64_t)heap->n_moves);
	ck_assert_int_eq(total("bytes"), (int64_t)heap->born_bytes);
	ck_assert_int_eq(total("live_blocks"), (int64_t)heap->live_blocks);
	ck_assert_int_eq(total("live_bytes"), (int64_t)heap->live_bytes);
	ck_assert_int_eq(total("peak_bytes"), (int64_t)heap->peak_bytes);
	/* Ticks are rounded to ns by either side. */
	ck_assert_int_le(llabs(total("peak_ns") - (int64_t)heap->peak_ns), 1);
}

/* stack.id of a truth's call path: its innermost frame is the only one with that offset there. */
static int64_t blocks_of(const struct make_trace_stack *stack, const char *column)
{
	char *sql = sqlite3_mprintf(
		"WITH RECURSIVE path(site, up, depth, text) AS ("
		" SELECT stack.id, parent_id, 1, frame.offset FROM site"
		"  JOIN stack ON stack.id = stack_id JOIN frame ON frame.id = frame_id"
		" UNION ALL SELECT site, stack.parent_id, path.depth + 1,"
		"  text || ',' || frame.offset FROM path JOIN stack ON stack.id = up"
		"  JOIN frame ON frame.id = frame_id)"
		" SELECT sum(%s) FROM site JOIN path ON site = stack_id"
		" WHERE up IS NULL AND text = '%lld,%lld,%lld,%lld'",
		column, (long long)stack->offsets[0] - 1, (long long)stack->offsets[1] - 1,
		(long long)stack->offsets[2] - 1, (long long)stack->offsets[3] - 1);
	int64_t n = check_integer(db_handle(db), sql);

	sqlite3_free(sql);
	return n;
}

static void check_stacks(const struct make_trace_truth *truth)
{
	for (uint32_t i = 0; i < truth->n_stacks; i++) {
		const struct make_trace_stack *stack = &truth->stacks[i];
		if (stack->heap.n_births == 0)
			continue;
		ck_assert_int_eq(blocks_of(stack, "n_blocks"), (int64_t)stack->heap.n_births);
		ck_assert_int_eq(blocks_of(stack, "bytes"), (int64_t)stack->heap.born_bytes);
		ck_assert_int_eq(blocks_of(stack, "live_bytes"), (int64_t)stack->heap.live_bytes);
		ck_assert_int_eq(blocks_of(stack, "peak_bytes"), (int64_t)stack->heap.peak_bytes);
		ck_assert_int_eq(blocks_of(stack, "n_faults"), (int64_t)stack->n_samples);
	}
}

static void check_owners(const struct make_trace_truth *truth)
{
	for (int owner = 1; owner < MAKE_TRACE_MAX_OWNERS; owner++) {
		char *sql = sqlite3_mprintf(
			"SELECT coalesce(sum(n), 0) FROM owner_share WHERE owner_kind = %d", owner);
		ck_assert_int_eq(check_integer(db_handle(db), sql),
				 (int64_t)truth->n_samples_of_owner[owner]);
		sqlite3_free(sql);
	}
}

START_TEST(a_synthetic_trace_gives_its_truth)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;

	options.seed = (uint64_t)(_i / N_FORMS) + 1;
	options.kind = (_i / N_FORMS) % MAKE_TRACE_KIND_COUNT;
	options.n_processes = 1 + (uint32_t)(_i / N_FORMS) % 3;
	options.n_threads = 1 + (uint32_t)(_i / N_FORMS) % 4;
	options.n_events = 30000;
	struct make_trace_truth *truth = make(&options);
	ck_assert_int_eq(db_open_any(maker.trace, &forms[_i % N_FORMS], &db), 0);
	ck_assert_int_eq(total("events"), (int64_t)truth->n_events);
	ck_assert_int_eq(total("mappings"), (int64_t)truth->mapping.n_births);
	ck_assert_int_eq(total("mapped_bytes"), (int64_t)truth->mapping.born_bytes);
	check_heap(&truth->heap);
	check_stacks(truth);
	check_owners(truth);
	check_aggregates(db_handle(db), 1);
	check_no_row(db_handle(db), "SELECT reason FROM loss");
	make_trace_truth_free(truth);
}
END_TEST

/* ---- Aggregates of samples ---- */

#define N_BLOCKS 6

/* One sample: one to four accesses of a role, to blocks and to places that are none. */
static void make_sample(uint32_t number, uint64_t time_ns)
{
	struct trace_access accesses[4];
	size_t n = 1 + (size_t)rand() % 4;
	bool is_fault = rand() % 4 == 0;

	n = is_fault ? 1 : n;
	for (size_t i = 0; i < n; i++) {
		accesses[i] = (struct trace_access){
			.raw_ns = time_ns,
			.ip = 0x400000 + (uint64_t)rand() % 16,
			.address = 0x10000 + (uint64_t)rand() % (N_BLOCKS + 2) * 256 + 8,
			.sample = number,
			.pid = 1001,
			.tid = 2001,
			.size = 8,
			.share = 1.0f / (float)n,
			.role = is_fault ? TRACE_ROLE_FAULT : TRACE_ROLE_WINDOW,
		};
	}
	maker_accesses(&maker, is_fault ? 2 : 1, accesses, n);
}

START_TEST(aggregates_of_samples_are_what_the_rows_give)
{
	srand((unsigned)(_i / N_FORMS));
	maker_process(&maker, 1, 0, 0);
	maker_thread(&maker, 1, 1, 0);
	maker_source(&maker, 1, "clock", "ns of user CPU time", 1000003);
	maker_source(&maker, 2, "faults", "page faults", 1);
	maker_node(&maker, 1, 1, 0, 0x400010);
	maker_node(&maker, 1, 2, 1, 0x400020);
	for (uint64_t i = 0; i < N_BLOCKS; i++) {
		struct trace_event allocation = {
			.op = TRACE_OP_ALLOC,
			.call = TRACE_CALL_MALLOC,
			.stack_id = (uint32_t)(i % 3),
			.ticks = 100 + i,
			.address = 0x10000 + i * 256,
			.size = 200,
		};
		maker_event(&maker, 1, &allocation);
	}
	for (uint32_t i = 1; i <= 400; i++)
		make_sample(i, 1000 + 100 * i);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &forms[_i % N_FORMS], &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM sample"), 400);
	ck_assert_int_gt(check_integer(db_handle(db), "SELECT count(*) FROM touch"
						      " WHERE owner_kind = 1"),
			 400);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM site"), 3);
	check_aggregates(db_handle(db), 1);
}
END_TEST

/* ---- Damage ---- */

static void make_small(void)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;

	options.n_events = 20000;
	make_trace_truth_free(make(&options));
}

START_TEST(a_cut_off_trace_is_read_up_to_there_and_says_so)
{
	struct stat st;

	make_small();
	ck_assert_int_eq(stat(maker.trace, &st), 0);
	ck_assert_int_eq(truncate(maker.trace, st.st_size * (_i + 1) / 10), 0);
	ck_assert_int_eq(db_open_any(maker.trace, &forms[_i % N_FORMS], &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT ended_cleanly FROM run"), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM loss"
						      " WHERE reason LIKE 'cut off%'"),
			 1);
	check_aggregates(db_handle(db), 1);
}
END_TEST

/* Turn bytes in the middle of the file around. */
static void damage(int seed)
{
	struct stat st;
	int fd = open(maker.trace, O_RDWR | O_CLOEXEC);

	ck_assert_int_eq(fstat(fd, &st), 0);
	srand((unsigned)seed);
	for (int i = 0; i < 1 + seed % 7; i++) {
		off_t at = 64 + rand() % (st.st_size - 64);
		char byte;
		ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
		byte = (char)(byte ^ (1 << rand() % 8));
		ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
}

START_TEST(a_damaged_trace_loses_what_is_damaged_and_counts_it)
{
	make_small();
	damage(_i);
	ck_assert_int_eq(db_open_any(maker.trace, &forms[_i % N_FORMS], &db), 0);
	ck_assert_int_ge(check_integer(db_handle(db), "SELECT sum(count) FROM loss"
						      " WHERE source = 'trace'"),
			 1);
	check_aggregates(db_handle(db), 1);
}
END_TEST

START_TEST(events_of_an_unknown_thread_are_counted)
{
	struct trace_event event = { .op = TRACE_OP_ALLOC, .ticks = 10, .address = 64, .size = 1 };

	maker_process(&maker, 1, 0, 0);
	maker_event(&maker, 7, &event);
	maker_close(&maker, 100);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count FROM loss WHERE reason LIKE"
						      " 'events of threads%'"),
			 1);
}
END_TEST

/* ---- Well-formed frames with absurd contents ---- */

static uint64_t absurd(void)
{
	static const uint64_t values[] = { 0,
					   1,
					   16,
					   4096,
					   0x10000,
					   0x10010,
					   UINT32_MAX,
					   INT64_MAX,
					   UINT64_C(1) << 63,
					   UINT64_MAX - 8,
					   UINT64_MAX };

	return values[(size_t)rand() % (sizeof(values) / sizeof(values[0]))];
}

static void write_absurd_event(void)
{
	struct trace_event event = {
		.op = (uint8_t)(1 + rand() % 15),
		.call = (uint8_t)(rand() % TRACE_CALL_LIMIT),
		.flags = (uint16_t)(rand() % 3),
		.stack_id = (uint32_t)absurd(),
		.ticks = absurd(),
		.begin_ticks = absurd(),
		.address = absurd(),
		.size = absurd(),
		.old_address = absurd(),
		.old_size = absurd(),
		.detail = absurd(),
	};

	/* What the format cannot hold is refused. */
	trace_writer_event(maker.writer, (uint32_t)(rand() % 5), &event);
}

/* An absurd list of classes, or a name, under an id that notes may use. */
static void write_absurd_text(void)
{
	static const char *const texts[] = { "", ",, heap,,faults x", "samples", "a region" };
	struct trace_string text = { .bytes = texts[rand() % 4] };
	struct trace_text record = {
		.head.type = TRACE_RECORD_TEXT,
		.id = absurd(),
		.process_id = (uint32_t)absurd(),
	};

	text.n_bytes = record.text_bytes = (uint32_t)strlen(text.bytes);
	ck_assert_int_eq(trace_writer_record(maker.writer, &record, sizeof(record), &text, 1), 0);
}

static void write_absurd_record(void)
{
	switch (rand() % 9) {
	case 8:
		write_absurd_text();
		break;
	case 0:
		maker_process(&maker, (uint32_t)(rand() % 4), (uint32_t)(rand() % 4), absurd());
		break;
	case 1:
		maker_fork(&maker, (uint32_t)(rand() % 4), (uint32_t)(rand() % 4), absurd());
		break;
	case 2:
		maker_end(&maker, (uint32_t)(rand() % 4), absurd(), rand() % 3 - 2);
		break;
	case 3:
		maker_thread(&maker, (uint32_t)(rand() % 5), (uint32_t)(rand() % 4), absurd());
		break;
	case 4:
		maker_mapping(&maker, (uint32_t)(rand() % 4), absurd(), absurd());
		break;
	case 5:
		maker_source(&maker, (uint32_t)(rand() % 3), rand() % 2 ? "clock" : "faults", "x",
			     absurd());
		break;
	case 6:
		maker_node(&maker, (uint32_t)(rand() % 5), (uint32_t)absurd(), (uint32_t)absurd(),
			   absurd());
		break;
	default:
		make_sample((uint32_t)absurd(), absurd());
	}
}

START_TEST(absurd_contents_are_repaired_or_counted)
{
	srand((unsigned)_i);
	for (int i = 0; i < 300; i++) {
		if (rand() % 3)
			write_absurd_event();
		else
			write_absurd_record();
		if (rand() % 50 == 0)
			maker_commit(&maker, absurd());
	}
	maker_close(&maker, absurd());
	ck_assert_int_eq(db_open_any(maker.trace, &forms[_i % N_FORMS], &db), 0);
	ck_assert_int_eq(total("allocations"), total("frees") + total("live_blocks"));
	/* Parts of chunks of own allocators are in their chunks. */
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM allocation WHERE"
						      " within_id IS NULL"),
			 total("allocations"));
	check_no_row(db_handle(db), "SELECT id FROM allocation WHERE freed_ns < allocated_ns");
}
END_TEST

/* ---- Which database ---- */

static int64_t n_runs(const char *path)
{
	db = db_close(db);
	ck_assert_int_eq(db_open(path, &db), 0);
	int64_t n = check_integer(db_handle(db), "SELECT count(*) FROM run");
	db = db_close(db);
	return n;
}

static void keep_result(void *context, const struct batch_told *told)
{
	*(struct import_result *)context = told->result;
}

static int analyse_into(const char *path, const struct import_options *options,
			struct import_result *result)
{
	auto_results struct results results = { 0 };
	struct batch_request request = {
		.db_path = path,
		.mode = DB_ADD,
		.results = &results,
		.options = *options,
		.end = keep_result,
		.context = result,
	};
	size_t n_failed = 0;

	ck_assert_int_eq(results_add(&results, maker.trace), 0);
	int r = batch_import(&request, &n_failed);
	ck_assert_uint_eq(n_failed, 0);
	return r;
}

START_TEST(a_recording_is_imported_once_and_replaced_by_force)
{
	struct import_result result;

	make_small();
	ck_assert_int_eq(analyse_into(maker.db, &forms[_i % N_FORMS], &result), 0);
	ck_assert(!result.is_skipped);
	int64_t n_events = (int64_t)result.n_events;
	ck_assert_int_eq(analyse_into(maker.db, &forms[_i % N_FORMS], &result), 0);
	ck_assert(result.is_skipped);
	ck_assert_int_eq(n_runs(maker.db), 1);
	ck_assert_int_eq(analyse_into(maker.db, &forced, &result), 0);
	ck_assert(!result.is_skipped);
	ck_assert_int_eq(n_runs(maker.db), 1);

	ck_assert_int_eq(db_open(maker.db, &db), 0);
	ck_assert_int_eq(total("events"), n_events);
	check_aggregates(db_handle(db), check_integer(db_handle(db), "SELECT id FROM run"));
	check_no_row(db_handle(db), "SELECT run_id FROM allocation"
				    " WHERE run_id NOT IN (SELECT id FROM run)");
}
END_TEST

START_TEST(two_recordings_share_a_database_and_its_stacks)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct import_result result;

	options.n_events = 15000;
	for (options.seed = 1; options.seed <= 2; options.seed++) {
		make_trace_truth_free(make(&options));
		ck_assert_int_eq(analyse_into(maker.db, &forms[_i % N_FORMS], &result), 0);
		ck_assert(!result.is_skipped);
	}
	ck_assert_int_eq(n_runs(maker.db), 2);
	ck_assert_int_eq(db_open(maker.db, &db), 0);
	check_aggregates(db_handle(db), 1);
	check_aggregates(db_handle(db), 2);
	check_no_row(db_handle(db), "SELECT parent_id FROM stack GROUP BY parent_id, frame_id, stop"
				    " HAVING count(*) > 1");
	check_no_row(db_handle(db), "SELECT 1 FROM allocation JOIN thread ON thread.id = thread_id"
				    " WHERE thread.run_id <> allocation.run_id");
}
END_TEST

START_TEST(a_reader_analyses_a_trace_again_only_when_it_is_newer)
{
	struct stat first, second;
	struct timespec future[2] = { { .tv_sec = time(NULL) + 100 },
				      { .tv_sec = time(NULL) + 100 } };

	make_small();
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(stat(maker.db, &first), 0);
	db = db_close(db);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(stat(maker.db, &second), 0);
	ck_assert_uint_eq(first.st_ino, second.st_ino);
	db = db_close(db);
	ck_assert_int_eq(utimensat(AT_FDCWD, maker.trace, future, 0), 0);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(stat(maker.db, &second), 0);
	ck_assert_uint_ne(first.st_ino, second.st_ino);
}
END_TEST

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

START_TEST(what_is_no_trace_and_no_database_is_refused)
{
	char path[128];
	struct import_result result;

	snprintf(path, sizeof(path), "%s/other", maker.folder);
	write_file(path, "just some text that is neither of them, but long enough for a header");
	ck_assert_int_eq(db_open_any(path, &plain, &db), -EBADMSG);
	make_small();
	ck_assert_int_eq(analyse_into(path, &plain, &result), -EBADMSG);
	ck_assert_int_eq(db_open_any("/proc/none", &plain, &db), -ENOENT);
	ck_assert_int_eq(db_open_any("/tmp", &plain, &db), -EISDIR);
}
END_TEST

START_TEST(a_database_of_a_newer_version_is_refused_and_left_alone)
{
	struct import_result result;
	sqlite3 *handle;

	make_small();
	ck_assert_int_eq(analyse_into(maker.db, &plain, &result), 0);
	ck_assert_int_eq(sqlite3_open(maker.db, &handle), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(handle, "PRAGMA user_version = 99", NULL, NULL, NULL), 0);
	sqlite3_close(handle);
	ck_assert_int_eq(db_open(maker.db, &db), -EPROTONOSUPPORT);
	ck_assert_int_eq(analyse_into(maker.db, &forced, &result), -EPROTONOSUPPORT);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), -EPROTONOSUPPORT);
}
END_TEST

START_TEST(a_database_of_an_older_version_is_refused_and_that_beside_its_trace_made_anew)
{
	struct import_result result;
	sqlite3 *handle;

	make_small();
	ck_assert_int_eq(sqlite3_open(maker.db, &handle), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(handle,
				      "CREATE TABLE run (id INTEGER PRIMARY KEY, program TEXT);"
				      "PRAGMA user_version = 15;"
				      "PRAGMA application_id = 0x4d534442", /* MSDB */
				      NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(handle);
	ck_assert_int_eq(db_open(maker.db, &db), -ESTALE);
	ck_assert_int_eq(db_begin(maker.db, DB_ADD, &db), -ESTALE);
	ck_assert_int_eq(db_begin(maker.db, DB_ADD | DB_COMPACT, &db), -ESTALE);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	db = db_close(db);
	ck_assert_int_eq(analyse_into(maker.db, &plain, &result), 0);
	ck_assert(result.is_skipped);
}
END_TEST

START_TEST(a_second_writer_is_turned_away)
{
	struct db *other = NULL;
	char partial[128];

	ck_assert_int_eq(db_begin(maker.db, DB_ADD, &db), 0);
	ck_assert_int_eq(db_begin(maker.db, DB_ADD, &other), -EBUSY);
	db = db_close(db);
	snprintf(partial, sizeof(partial), "%s.partial", maker.db);
	ck_assert_int_eq(access(partial, F_OK), -1);
	ck_assert_int_eq(access(maker.db, F_OK), -1);
}
END_TEST

static mode_t mode_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static const struct {
	mode_t first; /* of the trace of a new database */
	mode_t second; /* of one that is added */
	mode_t after_first;
	mode_t after_second;
} modes[] = {
	{ 0600, 0644, 0600, 0600 },
	{ 0644, 0640, 0644, 0640 },
	{ 0640, 0604, 0640, 0600 },
	{ 0400, 0444, 0600, 0600 },
};

START_TEST(a_database_is_no_more_open_than_its_traces)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct import_result result;

	make_trace_truth_free(make(&options));
	ck_assert_int_eq(chmod(maker.trace, modes[_i].first), 0);
	ck_assert_int_eq(analyse_into(maker.db, &plain, &result), 0);
	ck_assert_uint_eq(mode_of(maker.db), modes[_i].after_first);

	ck_assert_int_eq(chmod(maker.trace, 0600), 0);
	options.seed++;
	make_trace_truth_free(make(&options));
	ck_assert_int_eq(chmod(maker.trace, modes[_i].second), 0);
	ck_assert_int_eq(analyse_into(maker.db, &plain, &result), 0);
	ck_assert_uint_eq(mode_of(maker.db), modes[_i].after_second);
}
END_TEST

START_TEST(root_leaves_a_users_database_to_the_user)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct import_result result;
	struct stat st;

	if (geteuid() != 0)
		return; /* only root can give files away */
	make_trace_truth_free(make(&options));
	ck_assert_int_eq(chown(maker.trace, 65534, 65533), 0);
	ck_assert_int_eq(analyse_into(maker.db, &plain, &result), 0);
	ck_assert_int_eq(stat(maker.db, &st), 0);
	ck_assert_uint_eq(st.st_uid, 65534);
	ck_assert_uint_eq(st.st_gid, 65533);
}
END_TEST

/* ---- Ends in the middle ---- */

/* A summary of everything that a killed analysis must leave as it was. */
static int64_t fingerprint(const char *path)
{
	db = db_close(db);
	ck_assert_int_eq(db_open(path, &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM pragma_integrity_check"
						      " WHERE integrity_check <> 'ok'"),
			 0);
	int64_t sum = check_integer(
		db_handle(db), "SELECT (SELECT count(*) FROM run) * 1000003"
			       " + (SELECT total(allocated_ns % 1009) FROM allocation)"
			       " + (SELECT count(*) FROM stack) + (SELECT count(*) FROM touch)");
	db = db_close(db);
	return sum;
}

/* Small, as many moments are tried. */
#define N_KILLED_EVENTS 20000
#define MOST_KILLED_US	100000

/* Analyse in another process and kill it after a while. Returns whether it had ended by then. */
static bool analyse_and_kill(const char *path, useconds_t after_us)
{
	struct import_result result;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(analyse_into(path, &forced, &result) == 0 ? 0 : 1);
	ck_assert_int_gt(pid, 0);
	usleep(after_us);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFEXITED(status);
}

START_TEST(a_killed_analysis_leaves_the_database_as_before)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct import_result result;
	int n_killed = 0;

	options.n_events = N_KILLED_EVENTS;
	for (options.seed = 1; options.seed <= 2; options.seed++) {
		make_trace_truth_free(make(&options));
		ck_assert_int_eq(analyse_into(maker.db, &forms[_i % N_FORMS], &result), 0);
	}
	/* One that is killed right behind its end has replaced the run by an equal one. */
	int64_t before = fingerprint(maker.db);
	for (int i = 0; i < fewer(25); i++) {
		n_killed += !analyse_and_kill(maker.db, (useconds_t)(rand() % MOST_KILLED_US));
		ck_assert_int_eq(fingerprint(maker.db), before);
	}
	ck_assert_int_gt(n_killed, 0);
	ck_assert_int_eq(n_runs(maker.db), 2);
}
END_TEST

/* Ends its process, as one that is killed when a phase begins. */
static void die_at(void *context, const struct progress_step *step)
{
	if (strcmp(step->phase, context) == 0)
		raise(SIGKILL);
}

static const char *const phases[] = { "reading", "adding up", "writing blocks", "drawing pictures",
				      "making indexes" };

START_TEST(a_killed_analysis_leaves_no_new_database)
{
	struct import_options options = forms[_i % N_FORMS];
	struct import_result result;
	char partial[128];
	int status;

	make_small();
	options.progress = die_at;
	options.context = (void *)phases[_i / N_FORMS];
	pid_t pid = fork();
	if (pid == 0)
		_exit(analyse_into(maker.db, &options, &result));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert_int_eq(access(maker.db, F_OK), -1);
	snprintf(partial, sizeof(partial), "%s.partial", maker.db);
	ck_assert_int_eq(access(partial, F_OK), 0);

	/* What the dead writer left is taken over by the next one. */
	ck_assert_int_eq(analyse_into(maker.db, &forms[_i % N_FORMS], &result), 0);
	ck_assert_int_eq(access(partial, F_OK), -1);
	ck_assert_int_eq(n_runs(maker.db), 1);
}
END_TEST

START_TEST(a_full_disk_leaves_the_database_as_before)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct import_result result;
	char folder[96], path[128];

	snprintf(folder, sizeof(folder), "%s/small", maker.folder);
	snprintf(path, sizeof(path), "%s/one.db", folder);
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	/* In a namespace of its own: it vanishes with this process, however that ends. */
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", folder, "tmpfs", 0, "size=2m") < 0) {
		fprintf(stderr, "not measured: cannot mount a small tmpfs here (%s)\n",
			strerror(errno));
		return;
	}
	options.n_events = 500000;
	make_trace_truth_free(make(&options));
	ck_assert_int_eq(analyse_into(path, &forms[_i % N_FORMS], &result), -ENOSPC);
	ck_assert_int_eq(access(path, F_OK), -1);

	options.n_events = 2000;
	make_trace_truth_free(make(&options));
	ck_assert_int_eq(analyse_into(path, &forms[_i % N_FORMS], &result), 0);
	int64_t before = fingerprint(path);
	options.n_events = 500000;
	options.seed = 3;
	make_trace_truth_free(make(&options));
	ck_assert_int_eq(analyse_into(path, &forms[_i % N_FORMS], &result), -ENOSPC);
	ck_assert_int_eq(fingerprint(path), before);
	ck_assert_int_eq(umount(folder), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("analyze");
	TCase *truth = tcase_create("truth");
	TCase *other = tcase_create("other");
	TCase *rights = tcase_create("rights"); /* what depends on who runs it */

	tcase_add_checked_fixture(truth, set_up, tear_down);
	tcase_add_checked_fixture(other, set_up, tear_down);
	tcase_add_checked_fixture(rights, set_up, tear_down);
	tcase_set_tags(rights, "rights");
	tcase_set_timeout(other, 120);
	tcase_set_timeout(rights, 120);
	tcase_add_loop_test(truth, a_synthetic_trace_gives_its_truth, 0, fewer(12) * N_FORMS);
	tcase_add_loop_test(truth, aggregates_of_samples_are_what_the_rows_give, 0,
			    fewer(8) * N_FORMS);
	tcase_add_loop_test(other, a_cut_off_trace_is_read_up_to_there_and_says_so, 0, 9);
	tcase_add_loop_test(other, a_damaged_trace_loses_what_is_damaged_and_counts_it, 0,
			    fewer(30));
	tcase_add_loop_test(other, absurd_contents_are_repaired_or_counted, 0, fewer(60));
	tcase_add_test(other, events_of_an_unknown_thread_are_counted);
	tcase_add_loop_test(other, a_recording_is_imported_once_and_replaced_by_force, 0, N_FORMS);
	tcase_add_loop_test(other, two_recordings_share_a_database_and_its_stacks, 0, N_FORMS);
	tcase_add_test(other, a_reader_analyses_a_trace_again_only_when_it_is_newer);
	tcase_add_test(other, what_is_no_trace_and_no_database_is_refused);
	tcase_add_test(other, a_database_of_a_newer_version_is_refused_and_left_alone);
	tcase_add_test(
		other,
		a_database_of_an_older_version_is_refused_and_that_beside_its_trace_made_anew);
	tcase_add_test(other, a_second_writer_is_turned_away);
	tcase_add_loop_test(rights, a_database_is_no_more_open_than_its_traces, 0,
			    sizeof(modes) / sizeof(*modes));
	tcase_add_test(rights, root_leaves_a_users_database_to_the_user);
	tcase_add_loop_test(other, a_killed_analysis_leaves_the_database_as_before, 0, N_FORMS);
	tcase_add_loop_test(other, a_killed_analysis_leaves_no_new_database, 0,
			    N_FORMS * (int)(sizeof(phases) / sizeof(*phases)));
	tcase_add_loop_test(rights, a_full_disk_leaves_the_database_as_before, 0, N_FORMS);
	suite_add_tcase(suite, truth);
	suite_add_tcase(suite, other);
	suite_add_tcase(suite, rights);
	return suite_run(suite);
}
