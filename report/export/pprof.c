#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/utf8.h"
#include "report/export/export.h"
#include "report/text/site-name.h"
#include "store/query-value.h"
#include "store/statement.h"

struct protobuf {
	uint8_t *bytes;
	size_t n;
	size_t n_allocated;
	bool is_failed; /* no memory */
};

/*
 * Messages of protocol buffers, as far as writing them needs: fields are appended to a message in
 * memory. developers.google.com/protocol-buffers/docs/encoding. Errors stick: look at is_failed in
 * the end. All zero is an empty message.
 */

enum wire { WIRE_VARINT = 0, WIRE_BYTES = 2 };

static void protobuf_finish(struct protobuf *message)
{
	free(message->bytes);
	*message = (struct protobuf){ 0 };
}

static void append(struct protobuf *message, const void *bytes, size_t n)
{
	if (grow_array_by(&message->bytes, message->n, n, &message->n_allocated, 1) < 0) {
		message->is_failed = true;
		return;
	}
	if (n)
		memcpy(message->bytes + message->n, bytes, n);
	message->n += n;
}

static void append_varint(struct protobuf *message, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	append(message, bytes, n);
}

/* A field of a whole number; 0 is the default and is left out. */
static void protobuf_number(struct protobuf *message, unsigned field, int64_t value)
{
	if (value == 0)
		return;
	append_varint(message, field << 3 | WIRE_VARINT);
	append_varint(message, (uint64_t)value);
}

/* A text, bytes, or a message that is complete. */
static void protobuf_bytes(struct protobuf *message, unsigned field, const void *bytes, size_t n)
{
	append_varint(message, field << 3 | WIRE_BYTES);
	append_varint(message, n);
	append(message, bytes, n);
}

static void protobuf_text(struct protobuf *message, unsigned field, const char *text)
{
	protobuf_bytes(message, field, text, strlen(text));
}

static void protobuf_message(struct protobuf *message, unsigned field, const struct protobuf *inner)
{
	message->is_failed |= inner->is_failed;
	protobuf_bytes(message, field, inner->bytes, inner->n);
}

/* Numbers in a row, packed. */
static void protobuf_numbers(struct protobuf *message, unsigned field, const int64_t *values,
			     size_t n)
{
	struct protobuf inner = { 0 };

	for (size_t i = 0; i < n; i++)
		append_varint(&inner, (uint64_t)values[i]);
	protobuf_message(message, field, &inner);
	protobuf_finish(&inner);
}

/*
 * pprof's profile.proto, gzipped (github.com/google/pprof/blob/main/proto/profile.proto). One
 * sample for each call site, one location for each frame with the functions of it that are shown.
 */

/* Numbers of the fields. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14
};
enum { TYPE_TYPE = 1, TYPE_UNIT = 2 };
enum { SAMPLE_LOCATION_ID = 1, SAMPLE_VALUE = 2 };
enum {
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7
};
enum { LOCATION_ID = 1, LOCATION_MAPPING_ID = 2, LOCATION_ADDRESS = 3, LOCATION_LINE = 4 };
enum { LINE_FUNCTION_ID = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3, FUNCTION_FILENAME = 4 };

/* The values of a sample, in the order of sites_sql. */
static const struct {
	const char *type, *unit;
} value_types[] = {
	{ "alloc_objects", "count" }, { "alloc_space", "bytes" }, { "inuse_objects", "count" },
	{ "inuse_space", "bytes" },   { "peak_space", "bytes" },  { "time", "nanoseconds" },
};
#define N_VALUES      (sizeof(value_types) / sizeof(value_types[0]))
#define DEFAULT_VALUE 1

static const char sites_sql[] =
	"SELECT site.stack_id, site.n_blocks, site.bytes, live_blocks, live_bytes,"
	" coalesce(site_peak.bytes, 0), CAST(round(time_ns) AS INTEGER) FROM site"
	" LEFT JOIN site_peak ON site_peak.run_id = site.run_id"
	"  AND site_peak.stack_id = site.stack_id WHERE site.run_id = :run";

static const char comment[] =
	"memsight: alloc: asked for in all; inuse: not freed; peak: live when "
	"the run's live bytes were highest; time: user CPU time at accesses";

struct pprof {
	sqlite3 *db;
	const struct export_request *request;
	struct paths *paths;
	struct protobuf out; /* the profile, up to what was flushed */
	gzFile file;
	bool *is_used; /* by id of a location */
	char **strings; /* the table; number 0 is "" */
	size_t n_strings;
	size_t n_strings_allocated;
	int64_t last; /* the string that was asked for last: mappings repeat */
	int error;
};

/*
 * Strings are few beside samples, and functions and files come once each: no search but the last.
 */
static int64_t string(struct pprof *pprof, const char *text)
{
	if (pprof->n_strings && strcmp(pprof->strings[pprof->last], text) == 0)
		return pprof->last;
	if (pprof->n_strings && *text == '\0')
		return 0;
	char *copy = utf8_copy(text); /* proto3 refuses anything else */
	if (!copy || grow_one(&pprof->strings, pprof->n_strings, &pprof->n_strings_allocated) < 0) {
		free(copy);
		pprof->error = -ENOMEM;
		return 0;
	}
	pprof->strings[pprof->n_strings] = copy;
	pprof->last = (int64_t)pprof->n_strings;
	return (int64_t)pprof->n_strings++;
}

static void flush(struct pprof *pprof)
{
	if (pprof->out.is_failed)
		pprof->error = -ENOMEM;
	else if (gzwrite(pprof->file, pprof->out.bytes, (unsigned)pprof->out.n) !=
		 (int)pprof->out.n)
		pprof->error = errno == ENOMEM ? -ENOMEM : -EIO;
	pprof->out.n = 0;
}

/* Give a message to the stream. */
static void put(struct pprof *pprof, unsigned field, struct protobuf *message)
{
	protobuf_message(&pprof->out, field, message);
	protobuf_finish(message);
	if (pprof->out.n > 1 << 16)
		flush(pprof);
}

static void put_types(struct pprof *pprof)
{
	for (size_t i = 0; i < N_VALUES; i++) {
		struct protobuf type = { 0 };
		int64_t name = string(pprof, value_types[i].type);
		protobuf_number(&type, TYPE_TYPE, name);
		protobuf_number(&type, TYPE_UNIT, string(pprof, value_types[i].unit));
		put(pprof, PROFILE_SAMPLE_TYPE, &type);
		if (i == DEFAULT_VALUE)
			protobuf_number(&pprof->out, PROFILE_DEFAULT_SAMPLE_TYPE, name);
	}
}

static void put_functions(struct pprof *pprof)
{
	for (size_t i = 1; i < pprof->paths->n_functions && pprof->error == 0; i++) {
		const struct path_function *from = &pprof->paths->functions[i];
		struct protobuf function = { 0 };
		int64_t name = string(pprof, from->name);
		protobuf_number(&function, FUNCTION_ID, (int64_t)i);
		protobuf_number(&function, FUNCTION_NAME, name);
		protobuf_number(&function, FUNCTION_SYSTEM_NAME, name);
		protobuf_number(&function, FUNCTION_FILENAME,
				string(pprof, from->source ? from->source : ""));
		put(pprof, PROFILE_FUNCTION, &function);
	}
}

/*
 * A frame has up to three locations: its functions of the program; with the one of a library
 * that was asked for there; and all functions, where call stacks are whole.
 */
enum location { LOCATION_PROGRAM, LOCATION_ASKED, LOCATION_WHOLE, N_LOCATIONS };

static int64_t location_id(uint32_t frame, enum location location)
{
	return (int64_t)frame * N_LOCATIONS + location;
}

static bool is_asked(const struct paths *paths, const struct path_step *step)
{
	return step->is_library && site_names_library(paths->functions[step->function].name);
}

/* Of a frame's functions the outermost one of a library that says something; frame->n: none. */
static uint32_t asked_of(const struct paths *paths, const struct path_frame *frame)
{
	uint32_t asked = frame->n;

	for (uint32_t i = 0; i < frame->n; i++)
		if (is_asked(paths, &paths->called[frame->first + i]))
			asked = i;
	return asked;
}

static void put_line(const struct path_step *step, struct protobuf *location)
{
	struct protobuf line = { 0 };

	protobuf_number(&line, LINE_FUNCTION_ID, step->function);
	protobuf_number(&line, LINE_LINE, step->line);
	protobuf_message(location, LOCATION_LINE, &line);
	protobuf_finish(&line);
}

static void put_location(struct pprof *pprof, sqlite3_stmt *row, int64_t mapping,
			 enum location kind)
{
	uint32_t id = (uint32_t)sqlite3_column_int64(row, 0);
	const struct path_frame *frame = &pprof->paths->frames[id];
	uint32_t asked = kind == LOCATION_ASKED ? asked_of(pprof->paths, frame) : frame->n;
	struct protobuf location = { 0 };

	protobuf_number(&location, LOCATION_ID, location_id(id, kind));
	protobuf_number(&location, LOCATION_MAPPING_ID, mapping);
	protobuf_number(&location, LOCATION_ADDRESS, sqlite3_column_int64(row, 1));
	for (uint32_t i = 0; i < frame->n; i++) {
		const struct path_step *step = &pprof->paths->called[frame->first + i];
		if (kind == LOCATION_WHOLE || !step->is_library || i == asked)
			put_line(step, &location);
	}
	put(pprof, PROFILE_LOCATION, &location);
}

static void put_mapping(struct pprof *pprof, sqlite3_stmt *row, int64_t id)
{
	const char *object = statement_string(row, 3);
	struct protobuf mapping = { 0 };

	protobuf_number(&mapping, MAPPING_ID, id);
	protobuf_number(&mapping, MAPPING_START, sqlite3_column_int64(row, 4));
	protobuf_number(&mapping, MAPPING_LIMIT, sqlite3_column_int64(row, 5));
	protobuf_number(&mapping, MAPPING_FILENAME, string(pprof, statement_string(row, 2)));
	if (!strchr(object, '/'))
		protobuf_number(&mapping, MAPPING_BUILD_ID, string(pprof, object));
	/* Functions and the rest are known: do not look for them in files. */
	for (unsigned field = MAPPING_HAS_FUNCTIONS; field < MAPPING_HAS_FUNCTIONS + 4; field++)
		protobuf_number(&mapping, field, 1);
	put(pprof, PROFILE_MAPPING, &mapping);
}

/*
 * pprof takes the first mapping for the program: what the run's first process has become by exec.
 * Addresses are those of the first process that mapped the file.
 */
/* clang-format off */
static const char frames_sql[] =
	"WITH program(path) AS (SELECT exe FROM process WHERE run_id = :run AND pid = (SELECT pid"
	"  FROM process WHERE run_id = :run ORDER BY number LIMIT 1) ORDER BY exec_seq DESC LIMIT"
	" 1), mapped(path, start, end, bias) AS (SELECT path, start, end, bias FROM (SELECT path,"
	"  start,"
	"  end, bias, row_number() OVER (PARTITION BY path ORDER BY process_id, load_ns) AS place"
	"  FROM module WHERE run_id = :run) WHERE place = 1)"
	" SELECT id, offset + coalesce(bias, 0), path, object, coalesce(start, 0), coalesce(end, 0)"
	" FROM (SELECT id, offset, path, object FROM frame UNION ALL"
	"  SELECT NULL, 0, path, path FROM program WHERE path NOT IN (SELECT path FROM frame))"
	" LEFT JOIN mapped USING (path)"
	" ORDER BY path IN (SELECT path FROM program) DESC, object, id";
/* clang-format on */

/* Frames by file: a mapping comes before its locations. */
static int put_locations(struct pprof *pprof)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(pprof->db, frames_sql, pprof->request->run_id, -1);
	auto_free char *object = NULL;
	int64_t mapping = 0;
	int code = SQLITE_DONE;

	while (row && pprof->error == 0 && (code = statement_advance(row)) == SQLITE_ROW) {
		const char *now = statement_string(row, 3);
		if (!object || strcmp(object, now) != 0) {
			free(object);
			object = strdup(now);
			pprof->error = object ? 0 : -ENOMEM;
			put_mapping(pprof, row, ++mapping);
		}
		int64_t id = sqlite3_column_int64(row, 0);
		for (int kind = 0;
		     id > 0 && (uint64_t)id < pprof->paths->n_frames && kind < N_LOCATIONS; kind++)
			if (pprof->is_used[location_id((uint32_t)id, kind)])
				put_location(pprof, row, mapping, kind);
	}
	return row && (code == SQLITE_DONE || pprof->error) ? pprof->error : -EPROTO;
}

static bool is_program(const struct paths *paths, uint32_t number)
{
	const struct path_frame *frame = &paths->frames[number];

	for (uint32_t i = 0; i < frame->n; i++)
		if (!paths->called[frame->first + i].is_library)
			return true;
	return false;
}

/* As paths_walk() folds calls of libraries: the locations that are left, innermost first. */
static size_t fold(const struct paths *paths, const uint32_t *frames, size_t n, int64_t *ids)
{
	size_t program = 0, n_ids = 0, asked = n;

	while (program < n && !is_program(paths, frames[program]))
		program++;
	for (size_t i = 0; i < n && i <= program; i++)
		if (asked_of(paths, &paths->frames[frames[i]]) < paths->frames[frames[i]].n)
			asked = i;
	for (size_t i = 0; i < n; i++) {
		if (program == n)
			ids[n_ids++] = location_id(frames[i], LOCATION_WHOLE);
		else if (i == asked)
			ids[n_ids++] = location_id(frames[i], LOCATION_ASKED);
		else if (is_program(paths, frames[i]))
			ids[n_ids++] = location_id(frames[i], LOCATION_PROGRAM);
	}
	return n_ids;
}

/* The locations of a stack, innermost first. */
static size_t locations_of(const struct paths *paths, int64_t stack_id, int64_t *ids)
{
	uint32_t frames[PATHS_MAX_DEPTH];
	size_t n = 0;

	while (stack_id > 0 && (size_t)stack_id < paths->n_stacks && n < PATHS_MAX_DEPTH) {
		const struct path_stack *stack = &paths->stacks[stack_id];
		if (stack->frame && stack->frame < paths->n_frames)
			frames[n++] = stack->frame;
		stack_id = stack->parent;
	}
	if (paths->options.fold)
		return fold(paths, frames, n, ids);
	for (size_t i = 0; i < n; i++)
		ids[i] = location_id(frames[i], LOCATION_WHOLE);
	return n;
}

static int find_used(struct pprof *pprof)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(pprof->db, sites_sql, pprof->request->run_id, -1);
	int64_t ids[PATHS_MAX_DEPTH];
	int code = SQLITE_DONE;

	export_begin(pprof->db, pprof->request, "finding places", EXPORT_N_SITES);
	while (row && (code = statement_advance(row)) == SQLITE_ROW) {
		size_t n = locations_of(pprof->paths, sqlite3_column_int64(row, 0), ids);
		for (size_t i = 0; i < n; i++)
			pprof->is_used[ids[i]] = true;
		export_row(NULL, pprof->request);
	}
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}

static int put_samples(struct pprof *pprof)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(pprof->db, sites_sql, pprof->request->run_id, -1);
	int64_t ids[PATHS_MAX_DEPTH];
	int code = SQLITE_DONE;

	export_begin(pprof->db, pprof->request, "writing", EXPORT_N_SITES);
	while (row && pprof->error == 0 && (code = statement_advance(row)) == SQLITE_ROW) {
		size_t n = locations_of(pprof->paths, sqlite3_column_int64(row, 0), ids);
		int64_t values[N_VALUES];
		struct protobuf sample = { 0 };
		for (size_t i = 0; i < N_VALUES; i++)
			values[i] = sqlite3_column_int64(row, (int)i + 1);
		protobuf_numbers(&sample, SAMPLE_LOCATION_ID, ids, n);
		protobuf_numbers(&sample, SAMPLE_VALUE, values, N_VALUES);
		put(pprof, PROFILE_SAMPLE, &sample);
		export_row(NULL, pprof->request);
	}
	return row && (code == SQLITE_DONE || pprof->error) ? pprof->error : -EPROTO;
}

static void put_rest(struct pprof *pprof)
{
	int64_t run_id = pprof->request->run_id;

	protobuf_number(&pprof->out, PROFILE_TIME_NANOS,
			report_sql_number(pprof->db,
					  "SELECT start_unix_ns FROM run WHERE id = :run", run_id));
	protobuf_number(&pprof->out, PROFILE_DURATION_NANOS,
			report_sql_number(pprof->db, "SELECT duration_ns FROM run WHERE id = :run",
					  run_id));
	auto_free char *told = profile_title(pprof->db, run_id, comment);
	if (!told)
		pprof->error = -ENOMEM;
	protobuf_number(&pprof->out, PROFILE_COMMENT, string(pprof, told ? told : ""));
	for (size_t i = 0; i < pprof->n_strings; i++)
		protobuf_text(&pprof->out, PROFILE_STRING_TABLE, pprof->strings[i]);
	flush(pprof);
}

static int put_all(struct pprof *pprof)
{
	string(pprof, "");
	put_types(pprof);
	put_functions(pprof);
	int r = find_used(pprof) ?: put_locations(pprof) ?: put_samples(pprof);
	put_rest(pprof);
	return r < 0 ? r : pprof->error;
}

int export_pprof_write(FILE *out, sqlite3 *db, const struct export_request *request)
{
	struct pprof pprof = { .db = db, .request = request };
	auto_paths struct paths *paths = NULL;
	int r = paths_open(db, &request->paths, &paths);
	if (r < 0)
		return r;
	auto_free bool *is_used = calloc(paths->n_frames * N_LOCATIONS, sizeof(*is_used));
	if (!is_used)
		return -ENOMEM;
	pprof.is_used = is_used;

	/* zlib closes its descriptor; the stream stays the caller's. */
	auto_close int fd = fflush(out) == 0 ? dup(fileno(out)) : -1;
	pprof.paths = paths;
	pprof.file = fd < 0 ? NULL : gzdopen(fd, "wb");
	if (!pprof.file)
		return fd < 0 ? -EIO : -ENOMEM;
	steal_fd(&fd);
	r = put_all(&pprof);
	if (gzclose(pprof.file) != Z_OK && r == 0)
		r = -EIO;
	array_free(pprof.strings, pprof.n_strings, it, free(*it));
	protobuf_finish(&pprof.out);
	return r;
}
