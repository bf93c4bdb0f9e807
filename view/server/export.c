#include "view/server/export.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "common/human-number.h"
#include "report/text/json.h"
#include "store/database.h"
#include "store/heatmap/heatmap.h"
#include "store/query-value.h"
#include "store/statement.h"
#include "view/answers/answers.h"
#include "view/context.h"
#include "view/server/page.h"

struct view_stored {
	int64_t run_id; /* the one that is taken along in full */
	int64_t from_ns, to_ns; /* of it; 0 to INT64_MAX: all */
	size_t max_bytes; /* of all answers together */
};

/*
 * Answers that are taken along in one file: as many as there is room for, the most wanted first.
 * Written as {"REQUEST": answer}, with the requests as the page writes them: "NAME?a=1&b=2",
 * parameters sorted by name.
 */

#define KEY_BYTES 512u

struct store {
	struct view_context *context;
	struct json json; /* an open object */
	size_t max_bytes;
	int64_t run_id;
	int64_t other_run_id; /* what it is compared with; 0: none */
	int64_t process_id; /* with most blocks and samples; 0: none */
	int64_t from_ns, to_ns, height; /* of its picture */
	/* of the part that is counted, as in keys before and behind what sorts between; "": all */
	char from[40], to[40];
	bool is_full; /* something did not fit */
	unsigned n_parts; /* pictures of a part */
	unsigned n_sites;
	unsigned depth; /* parts are 1 / 2^depth of both axes */
};

/* How much each kind of answer may hold. */
static const struct view_limits whole_limits = { true, 2000, 2000, 0, 0 };
static const struct view_limits part_limits = { true, 150, 400, 0, 0 };
static const struct view_limits other_limits = { true, 0, 0, 2000, 150 };

static int fault_of(int error)
{
	return error == -ENOMEM || error == -EINTR ? error : -EPROTO;
}

/*
 * Add the answer of a request, unless there is none or it does not fit: then the page says that the
 * file does not hold it. Returns 0, -ENOMEM, -EINTR, or -EPROTO: the database cannot be read, the
 * context or its handle says why.
 */
__attribute__((format(printf, 3, 4))) static int
add(struct store *store, const struct view_limits *limits, const char *format, ...)
{
	struct view_request request;
	char key[KEY_BYTES];
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	va_list arguments;
	int kept = view_context_kept(store->context); /* the answer forgets it */

	if (kept < 0) {
		store->context->message[0] = '\0';
		return fault_of(kept);
	}
	va_start(arguments, format);
	vsnprintf(key, sizeof(key), format, arguments);
	va_end(arguments);
	if (view_request_parse_api(key, &request) != 200)
		return 0;
	store->context->limits = *limits;
	unsigned status =
		view_answer_make(store->context, request.answer, &request.values, &text, &n_bytes);
	if (status >= 499 && store->context->error != -EFBIG)
		return fault_of(store->context->error);
	if (status != 200)
		return 0;
	if (store->json.n_bytes + n_bytes + KEY_BYTES > store->max_bytes) {
		store->is_full = true;
		return 0;
	}
	const struct json answer = { .bytes = text, .n_bytes = n_bytes };
	json_name(&store->json, key);
	json_raw(&store->json, &answer);
	return 0;
}

/* ---- Pictures ---- */

struct rectangle {
	int64_t from_ns, to_ns, low, high;
	unsigned width, height; /* cells */
};

static int add_picture(struct store *store, const struct view_limits *limits, const char *by,
		       const struct rectangle *of)
{
	return add(store, limits,
		   "picture?by=%s&from=%lld&height=%u&high=%lld&low=%lld&process=%lld&run=%lld"
		   "&to=%lld&width=%u",
		   by, (long long)of->from_ns, of->height, (long long)of->high, (long long)of->low,
		   (long long)store->process_id, (long long)store->run_id, (long long)of->to_ns,
		   of->width);
}

/* All addresses over the time that is counted. */
static int add_whole(struct store *store, const char *by, unsigned width)
{
	const struct rectangle whole = { store->from_ns, store->to_ns, 0,
					 store->height,	 width,	       width / 2 };

	return store->height ? add_picture(store, &whole_limits, by, &whole) : 0;
}

/* Colours that say something of this run. */
static const struct {
	const char *by;
	const char *is_told_sql;
} colours[] = {
	{ "thread", "SELECT 1" },
	{ "source", "SELECT count(*) > 1 FROM source WHERE run_id = :run AND n_samples > 0" },
	{ "level", "SELECT EXISTS (SELECT 1 FROM access_total JOIN data_source USING (data_src)"
		   " WHERE run_id = :run AND level IS NOT NULL)" },
	{ "latency", "SELECT EXISTS (SELECT 1 FROM access_total WHERE run_id = :run"
		     " AND n_latencies > 0)" },
};

static int add_whole_pictures(struct store *store)
{
	sqlite3 *db = db_handle(store->context->db);
	int r = add_whole(store, "direction", 800);

	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]) && r == 0; i++) {
		if (report_sql_number(db, colours[i].is_told_sql, store->run_id))
			r = add_whole(store, colours[i].by, 480);
	}
	return r;
}

/* Both axes in 2^depth parts each. */
static int add_parts(struct store *store, unsigned depth)
{
	int64_t n = INT64_C(1) << depth;
	int64_t span = store->to_ns - store->from_ns;
	int r = 0;

	for (int64_t i = 0; i < n * n && r == 0 && !store->is_full; i++) {
		int64_t x = i % n, y = i / n;
		const struct rectangle part = {
			store->from_ns + span / n * x,
			x + 1 == n ? store->to_ns : store->from_ns + span / n * (x + 1),
			store->height / n * y,
			y + 1 == n ? store->height : store->height / n * (y + 1),
			320,
			160,
		};
		r = add_picture(store, &part_limits, "direction", &part);
		store->n_parts += !store->is_full;
		store->depth = depth;
	}
	return r;
}

static int add_all_parts(struct store *store)
{
	int r = 0;

	for (unsigned depth = 1; depth <= 4 && store->height >> depth > 320 && r == 0; depth++)
		r = store->is_full ? 0 : add_parts(store, depth);
	return r;
}

/* ---- Lists ---- */

static int add_objects(struct store *store, int64_t run_id)
{
	static const char *const sorts[] = { "share",	     "peak_bytes",  "bytes",	 "n_blocks",
					     "live_bytes",   "n_temporary", "n_samples", "n_faults",
					     "mean_life_ns", "n_accesses",  "latency",	 "name" };
	int r = 0;

	for (size_t i = 0; i < sizeof(sorts) / sizeof(sorts[0]) && r == 0; i++)
		r = add(store, &other_limits,
			"objects?descending=1&%slimit=50&offset=0&run=%lld&sort=%s%s", store->from,
			(long long)run_id, sorts[i], store->to);
	return r;
}

/* What the pages of lists ask for. */
static int add_reports(struct store *store)
{
	static const char *const kinds[] = {
		"findings", "peak",    "leaks",	    "hot",   "cold",	"unused",   "sharing",
		"resident", "regions", "functions", "pools", "plugins", "own_time",
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && r == 0; i++)
		r = add(store, &other_limits, "report?%skind=%s&run=%lld%s", store->from, kinds[i],
			(long long)store->run_id, store->to);
	return r;
}

static int add_flames(struct store *store, int64_t run_id, bool is_inverse)
{
	static const char *const metrics[] = { "bytes",	 "time",   "peak",     "leaked",
					       "blocks", "faults", "accesses", "latency" };
	int r = 0;

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]) && r == 0; i++)
		r = add(store, &other_limits, "flame?by=%s&%sinverse=%d&run=%lld%s", metrics[i],
			store->from, is_inverse, (long long)run_id, store->to);
	return r;
}

/* Details of the sites with most samples, most bytes, and most that was not freed. */
static int add_sites(struct store *store)
{
	static const char sql[] =
		"SELECT stack_id FROM (SELECT stack_id, min(place) AS place FROM ("
		" SELECT stack_id, row_number() OVER (ORDER BY n_samples DESC, bytes DESC) AS place"
		"  FROM site WHERE run_id = ?1"
		" UNION ALL SELECT stack_id, row_number() OVER (ORDER BY bytes DESC) FROM site"
		"  WHERE run_id = ?1"
		" UNION ALL SELECT stack_id, row_number() OVER (ORDER BY live_bytes DESC) FROM site"
		"  WHERE run_id = ?1) GROUP BY stack_id) WHERE place <= 12 ORDER BY place";
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(store->context->db), sql, &row);

	if (r < 0)
		return fault_of(r);
	statement_integer(row, 1, store->run_id);
	while (r == 0 && (r = statement_step(row)) == 1) {
		bool was_full = store->is_full;
		r = add(store, &other_limits, "object?%srun=%lld&site=%lld%s", store->from,
			(long long)store->run_id, (long long)sqlite3_column_int64(row, 0),
			store->to);
		store->n_sites += store->is_full == was_full;
	}
	return r < 0 ? fault_of(r) : 0;
}

static int add_diffs(struct store *store)
{
	static const char *const metrics[] = { "bytes", "peak", "time", "blocks" };
	int64_t a = store->other_run_id < store->run_id ? store->other_run_id : store->run_id;
	int64_t b = store->other_run_id < store->run_id ? store->run_id : store->other_run_id;
	int r = 0;

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]) && r == 0; i++)
		r = add(store, &other_limits, "diff?a=%lld&b=%lld&by=%s&limit=2000", (long long)a,
			(long long)b, metrics[i]);
	return r;
}

static int add_run(struct store *store, int64_t run_id)
{
	int r = add(store, &other_limits, "run?run=%lld", (long long)run_id);

	if (r == 0 && store->from[0] && run_id == store->run_id)
		r = add(store, &other_limits, "run?%srun=%lld%s", store->from, (long long)run_id,
			store->to);
	return r < 0 ? r
		     : add(store, &other_limits, "timeline?run=%lld&width=1000", (long long)run_id);
}

static int add_other_run(struct store *store)
{
	int64_t run_id = store->other_run_id;
	int r = run_id ? add_diffs(store) : 0;

	if (r == 0 && run_id)
		r = add(store, &other_limits, "flame?by=bytes&inverse=0&run=%lld",
			(long long)run_id);
	return r;
}

/* ---- All of it ---- */

/* clang-format off */
static const char main_process_sql[] =
	"SELECT id FROM process WHERE run_id = :run ORDER BY (SELECT coalesce(sum(n_blocks +"
	" n_samples + n_faults), 0) FROM thread_total JOIN thread ON thread.id = thread_id WHERE"
	" process_id = process.id) DESC, number LIMIT 1";
/* clang-format on */

/* How far the picture of the process reaches; without one there is nothing to draw. */
static int find_picture(struct store *store)
{
	const struct picture_request request = {
		.run_id = store->run_id,
		.process_id = store->process_id,
		.width = 1,
		.height = 1,
	};
	struct picture_store *pictures = NULL;
	struct picture *picture = NULL;
	int r = view_context_pictures(store->context, &pictures);

	r = r ?: picture_make(pictures, &request, &picture);
	if (r == 0) {
		store->from_ns = picture->request.from_ns;
		store->to_ns = picture->request.to_ns;
		store->height = (int64_t)picture->request.high;
	}
	picture_free(picture);
	return r == -ENODATA || r == -ENOENT ? 0 : r;
}

/* The part that is counted, as far as the run goes. */
static int find_part(struct store *store, const struct view_stored *stored)
{
	sqlite3 *db = db_handle(store->context->db);
	int64_t end =
		report_sql_number(db, "SELECT duration_ns FROM run WHERE id = :run", store->run_id);
	int64_t to = stored->to_ns < end ? stored->to_ns : end;

	if (stored->from_ns <= 0 && stored->to_ns >= end)
		return 0;
	if (stored->from_ns >= end)
		return view_context_refuse(store->context, -EPROTO,
					   "--from lies behind the end of the run");
	store->from_ns = stored->from_ns;
	store->to_ns = to;
	snprintf(store->from, sizeof(store->from), "from=%lld&", (long long)stored->from_ns);
	snprintf(store->to, sizeof(store->to), "&to=%lld", (long long)to);
	return 0;
}

static int find_what(struct store *store, const struct view_stored *stored)
{
	sqlite3 *db = db_handle(store->context->db);

	store->process_id = report_sql_number(db, main_process_sql, store->run_id);
	/* The run before, or else the one behind. */
	store->other_run_id = report_sql_number(
		db, "SELECT id FROM run WHERE id <> :run ORDER BY id < :run DESC, id DESC LIMIT 1",
		store->run_id);
	return find_picture(store) ?: find_part(store, stored);
}

static int add_main_run(struct store *store)
{
	int r = add_run(store, store->run_id);

	if (r == 0 && store->other_run_id)
		r = add_run(store, store->other_run_id);
	if (r == 0)
		r = add(store, &other_limits, "bands?process=%lld&run=%lld",
			(long long)store->process_id, (long long)store->run_id);
	r = r ?: add_whole_pictures(store);
	r = r ?: add_flames(store, store->run_id, false);
	r = r ?: add_objects(store, store->run_id);
	return r ?: add_reports(store);
}

static int add_more(struct store *store)
{
	int r = add(store, &other_limits, "series");

	r = r ?: add_other_run(store);
	r = r ?: add_sites(store);
	r = r ?: add_flames(store, store->run_id, true);
	return r < 0 ? r : add_all_parts(store);
}

/* What the file holds and what it does not, for its reader. */
static void tell(struct store *store)
{
	char text[800];

	snprintf(text, sizeof(text),
		 "It holds %srun %lld: pictures of all of it (of %s of addresses, 800 x 400 cells),"
		 " %u of parts (the smallest 1/%u of both axes, 320 x 160 cells), the first 50"
		 " objects by each column, lists of at most 200 rows, details of %u call sites,"
		 " call trees of at most 2,000 nodes%s. It cannot count another part of the time,"
		 " filter what it does not hold, or show source files.%s",
		 store->from[0] ? "a part of " : "", (long long)store->run_id,
		 format_bytes((int64_t)store->height).text, store->n_parts, 1u << store->depth,
		 store->n_sites, store->other_run_id ? ", and a comparison with one other run" : "",
		 store->is_full ? " There was more than the file has room for." : "");
	json_set_open(&store->json, "stored", '{');
	json_set_integer(&store->json, "run", store->run_id);
	if (store->from[0]) {
		json_set_integer(&store->json, "from", store->from_ns);
		json_set_integer(&store->json, "to", store->to_ns);
	}
	json_set_text(&store->json, "version", MEMSIGHT_VERSION);
	json_set_text(&store->json, "text", text);
	json_close(&store->json, '}');
}

/*
 * Make the answers. What there was no room for is told in the answer "stored". Returns 0 with
 * *ret_json, to be dropped, or a negative errno (-EPROTO: SQLite tells; a message may be in the
 * context).
 */
static int view_stored_make(struct view_context *context, const struct view_stored *stored,
			    struct json *ret_json)
{
	struct store store = { .context = context,
			       .run_id = stored->run_id,
			       .max_bytes = stored->max_bytes };

	json_open(&store.json, '{');
	int r = find_what(&store, stored) ?: add(&store, &other_limits, "runs");
	r = r ?: add_main_run(&store);
	r = r ?: add_more(&store);
	if (r == 0 && view_context_kept(context) < 0)
		r = fault_of(view_context_kept(context));
	tell(&store);
	json_close(&store.json, '}');
	r = r ?: store.json.error;
	if (r < 0)
		json_drop(&store.json);
	else
		*ret_json = store.json;
	context->limits = (struct view_limits){ 0 };
	return r;
}

/* Nobody may read it who may not read the database. */
static mode_t mode_of(const char *database)
{
	struct stat st;

	return 0666 & (stat(database, &st) == 0 ? st.st_mode | 0600 : 0600);
}

/* ---- What is in it ---- */

/* How large the page is without answers. */
static int page_bytes(size_t *ret_n_bytes)
{
	auto_free char *text = NULL;

	return view_page_store("{}", &text, ret_n_bytes);
}

static int make_answers(const struct view_export *export, size_t max_bytes, char **ret_text,
			char *message)
{
	auto_view_context struct view_context *context = NULL;
	const struct view_stored stored = { export->run_id, export->from_ns, export->to_ns,
					    max_bytes };
	auto_json struct json json = { 0 };
	size_t n_bytes = 0;
	int r = view_context_open(&export->files, &context);

	r = r ?: view_stored_make(context, &stored, &json);
	if (r == -EPROTO)
		snprintf(message, VIEW_MESSAGE_BYTES, "%s",
			 context->message[0] ? context->message
					     : statement_message(db_handle(context->db)));
	return r < 0 ? r : json_finish(&json, ret_text, &n_bytes);
}

int view_export_write(const struct view_export *export, char *message)
{
	auto_free char *answers = NULL;
	auto_free char *text = NULL;
	size_t n_bytes = 0;

	message[0] = '\0';
	if (!export->force && access(export->output, F_OK) == 0)
		return -EEXIST;
	int r = page_bytes(&n_bytes);
	if (r == 0 && n_bytes + VIEW_EXPORT_MAX_BYTES / 4 > VIEW_EXPORT_MAX_BYTES)
		r = -EFBIG;
	if (r == 0) /* the answer that tells of all others comes on top */
		r = make_answers(export, VIEW_EXPORT_MAX_BYTES - n_bytes - 4096, &answers, message);
	r = r ?: view_page_store(answers, &text, &n_bytes);
	if (r < 0)
		return r;
	const struct new_file file = { export->output, mode_of(export->files.database),
				       export->force };
	return new_file_write(&file, text, n_bytes);
}
