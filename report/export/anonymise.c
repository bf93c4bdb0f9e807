#include "report/export/anonymise.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "store/query-value.h"
#include "store/statement.h"

/* Numbers that stand for texts, as functions of SQL. One thread. */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/hash-map.h"

struct pseudonyms {
	struct key_map numbers; /* 128-bit hash of kind and text -> number */
	uint64_t n;
};

static void destroy(void *user)
{
	struct pseudonyms *pseudonyms = user;

	key_map_finish(&pseudonyms->numbers);
	free(pseudonyms);
}

/* The number of a text, from 1; 0: no memory. */
static uint64_t number_of(struct pseudonyms *pseudonyms, const char *kind, const char *text,
			  size_t n_bytes)
{
	XXH128_hash_t hash = XXH3_128bits_withSeed(text, n_bytes, XXH3_64bits(kind, strlen(kind)));
	uint64_t number = key_map_get(&pseudonyms->numbers, hash.low64, hash.high64);

	if (number)
		return number;
	number = pseudonyms->n + 1;
	if (key_map_put(&pseudonyms->numbers, hash.low64, hash.high64, number) < 0)
		return 0;
	return pseudonyms->n = number;
}

static void give(sqlite3_context *context, sqlite3_str *text)
{
	int n_bytes = sqlite3_str_length(text);
	int result = sqlite3_str_errcode(text);
	char *bytes = sqlite3_str_finish(text);

	if (result != SQLITE_OK)
		sqlite3_result_error_code(context, result);
	else
		sqlite3_result_text(context, bytes ? bytes : sqlite3_mprintf(""), n_bytes,
				    sqlite3_free);
}

static bool append(struct pseudonyms *pseudonyms, sqlite3_str *out, const char *kind,
		   const char *text, size_t n_bytes)
{
	uint64_t number = number_of(pseudonyms, kind, text, n_bytes);

	sqlite3_str_appendf(out, "%s_%llu", kind, (unsigned long long)number);
	return number;
}

/* Whether there is nothing to replace: then the value itself is the result. */
static bool is_nothing(sqlite3_context *context, sqlite3_value *value)
{
	if (sqlite3_value_type(value) == SQLITE_NULL || sqlite3_value_bytes(value) == 0) {
		sqlite3_result_value(context, value);
		return true;
	}
	return false;
}

static void of_text(sqlite3_context *context, int n, sqlite3_value **values)
{
	struct pseudonyms *pseudonyms = sqlite3_user_data(context);

	(void)n;
	if (is_nothing(context, values[1]))
		return;
	sqlite3_str *out = sqlite3_str_new(NULL);
	const char *text = (const char *)sqlite3_value_text(values[1]);

	if (append(pseudonyms, out, (const char *)sqlite3_value_text(values[0]), text,
		   (size_t)sqlite3_value_bytes(values[1]))) {
		give(context, out);
		return;
	}
	sqlite3_free(sqlite3_str_finish(out));
	sqlite3_result_error_nomem(context);
}

static void give_path(sqlite3_context *context, const char *path)
{
	struct pseudonyms *pseudonyms = sqlite3_user_data(context);
	sqlite3_str *out = sqlite3_str_new(NULL);
	bool is_whole = true;

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n)
			is_whole &= append(pseudonyms, out, "name", path, n);
		path += n;
		if (*path == '/') {
			sqlite3_str_appendchar(out, 1, '/');
			path++;
		}
	}
	if (is_whole) {
		give(context, out);
		return;
	}
	sqlite3_free(sqlite3_str_finish(out));
	sqlite3_result_error_nomem(context);
}

static void of_path(sqlite3_context *context, int n, sqlite3_value **values)
{
	(void)n;
	if (!is_nothing(context, values[0]))
		give_path(context, (const char *)sqlite3_value_text(values[0]));
}

static void of_object(sqlite3_context *context, int n, sqlite3_value **values)
{
	struct pseudonyms *pseudonyms = sqlite3_user_data(context);

	(void)n;
	if (is_nothing(context, values[0]))
		return;
	const char *text = (const char *)sqlite3_value_text(values[0]);
	if (text[strspn(text, "0123456789abcdef")]) {
		give_path(context, text);
		return;
	}
	uint64_t number = number_of(pseudonyms, "object", text, strlen(text));
	char hex[48];
	snprintf(hex, sizeof(hex), "%040llx", (unsigned long long)number);
	if (number)
		sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
	else
		sqlite3_result_error_nomem(context);
}

/*
 * Register on db, until it is closed:
 *	pseudonym(kind, text)	"kind_N", the same for the same text and kind
 *	pseudonym_path(text)	each part between slashes as pseudonym('name', part)
 *	pseudonym_object(text)	a build-id: N as 40 hex digits; a path: as pseudonym_path
 * NULL and '' stay. Returns an SQLite result code.
 */
static int pseudonyms_register(sqlite3 *db)
{
	struct pseudonyms *pseudonyms = calloc(1, sizeof(*pseudonyms));
	int flags = SQLITE_UTF8;

	if (!pseudonyms)
		return SQLITE_NOMEM;
	/* On failure SQLite calls the destructor, too. */
	int r = sqlite3_create_function_v2(db, "pseudonym", 2, flags, pseudonyms, of_text, NULL,
					   NULL, destroy);
	if (r == SQLITE_OK)
		r = sqlite3_create_function_v2(db, "pseudonym_path", 1, flags, pseudonyms, of_path,
					       NULL, NULL, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_create_function_v2(db, "pseudonym_object", 1, flags, pseudonyms,
					       of_object, NULL, NULL, NULL);
	return r;
}

/* Names that only memsight gives, or that every program has. */
#define WORDS                                                                                      \
	"'[unknown]', '[module]', '[data]', '[rodata]', '[.data]', '[.bss]', '[.rodata]', "        \
	"'[heap]', '[stack]', '[vdso]', '[vvar]', '[vsyscall]', '[anon]', '//anon', 'default'"
#define UNLESS_WORD(new) "CASE WHEN value IN (" WORDS ") THEN value ELSE " new " END"
#define FUNCTION                                                                                   \
	"CASE WHEN value IN (" WORDS ") OR value GLOB 'operator new*' OR value GLOB 'operator "    \
	"delete*' THEN value ELSE pseudonym('function', value) END"
#define PATH   UNLESS_WORD("pseudonym_path(value)")
#define OBJECT UNLESS_WORD("pseudonym_object(value)")
/* Numbers, and what memsight was told that names nothing. */
#define FACT                                                                                       \
	"CASE WHEN key IN ('memsight.alloc', 'memsight.api', 'memsight.events',"                   \
	" 'memsight.follow', 'memsight.private', 'memsight.sink', 'memsight.stacks',"              \
	" 'memsight.heap_spill', 'memsight.version', 'memsight_version', 'machine') OR"            \
	" (key <> 'uid' AND value NOT GLOB '*[^0-9]*') THEN value"                                 \
	" ELSE pseudonym('value', value) END"
/* Of ours, but for what the program or its user may have given to it. */
#define SENTENCE "CASE WHEN value GLOB '*/*' THEN pseudonym('reason', value) ELSE value END"

/* Columns whose texts are memsight's own. A space on either side. */
static const char kept[] =
	" run.detail fact.key process.birth process.why_not module.debug_info stack.stop"
	" call.name source.name source.measures source.unit source.remedy loop.method"
	" owner.name owner.meaning process_sample.node_bytes page_snapshot.reason"
	" page_snapshot.way page_part.kind page_run.kind page_run.node_bytes page_touch.kind"
	" page_touch.node_touched page_block.kind page_write.state site_write.kind"
	" component.name component.unit component.kind component.plugin counter.name"
	" counter.unit loss.source total.name withheld.classes watch.note heap_kind.name"
	" band.kind timeline_level.level picture_category.colour picture_category.name"
	" picture_tile.colour ";

/* What becomes of the texts of others, named `value`. A column that is not here is replaced. */
static const struct rule {
	const char *table;
	const char *column;
	const char *sql;
} rules[] = {
	{ "run", "program", "pseudonym('name', value)" },
	{ "run", "mode", UNLESS_WORD("pseudonym('mode', value)") },
	{ "run", "command", "pseudonym('command', value)" },
	{ "run", "directory", PATH },
	{ "run", "trace", PATH },
	{ "run", "recording_id", OBJECT },
	{ "fact", "value", FACT },
	{ "process", "exe", PATH },
	{ "process", "command", "pseudonym('command', value)" },
	{ "thread_name", "name", "pseudonym('thread', value)" },
	{ "module", "path", PATH },
	{ "module", "build_id", OBJECT },
	{ "frame", "object", OBJECT },
	{ "frame", "path", PATH },
	{ "frame", "function", FUNCTION },
	{ "frame_line", "function", FUNCTION },
	{ "frame_line", "file", PATH },
	{ "frame_line", "call",
	  "CASE WHEN value GLOB ':[0-9]*' THEN value ELSE pseudonym('call', value) END" },
	{ "mapping", "path", PATH },
	{ "source", "event", SENTENCE },
	{ "source", "note", SENTENCE },
	{ "symbol", "object", OBJECT },
	{ "symbol", "path", PATH },
	{ "symbol", "name", UNLESS_WORD("pseudonym('variable', value)") },
	{ "page_part", "name", PATH },
	{ "region", "name", "pseudonym('region', value)" },
	{ "region_total", "name", "pseudonym('region', value)" },
	{ "function_trips", "name", "pseudonym('region', value)" },
	{ "mark", "name", "pseudonym('mark', value)" },
	{ "object_name", "name", "pseudonym('object', value)" },
	{ "loss", "reason", SENTENCE },
	{ "watch", "target", "pseudonym('variable', value)" },
	{ "heap_range", "place", PATH },
	{ "band", "name", PATH },
};

static const struct rule *rule_of(const char *table, const char *column)
{
	static const struct rule other = { NULL, NULL, "pseudonym('text', value)" };

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (strcmp(rules[i].table, table) == 0 && strcmp(rules[i].column, column) == 0)
			return &rules[i];
	}
	return &other;
}

static int run(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EPROTO;
}

static int replace(sqlite3 *db, const char *table, const char *column)
{
	const char *new = rule_of(table, column)->sql;
	char word[128];

	snprintf(word, sizeof(word), " %s.%s ", table, column);
	if (strstr(kept, word))
		return 0;
	/* The rule's `value` is the column: a subquery gives it that name. */
	char *sql = sqlite3_mprintf("UPDATE \"%w\" SET \"%w\" = (SELECT %s FROM (SELECT"
				    " \"%w\".\"%w\" AS value))",
				    table, column, new, table, column);
	int r = sql ? run(db, sql) : -ENOMEM;
	sqlite3_free(sql);
	return r;
}

static const char columns_sql[] =
	"SELECT tables.name, columns.name FROM sqlite_master AS tables,"
	" pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
	" AND tables.name NOT GLOB 'sqlite_*' AND tables.sql NOT LIKE 'CREATE VIRTUAL%'"
	" AND columns.type = 'TEXT'";

static void show(struct export_progress *progress, const struct progress_step *step)
{
	if (progress)
		progress->show(progress->context, step);
}

static int replace_all(sqlite3 *db, struct export_progress *progress)
{
	struct progress_step step = { .phase = "replacing names", .unit = "columns" };
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db, columns_sql, &statement);

	while (r == 0 && statement_step(statement) > 0)
		step.n_all++;
	sqlite3_reset(statement);
	while (r == 0 && (r = statement_step(statement)) > 0) {
		show(progress, &step);
		r = replace(db, statement_string(statement, 0), statement_string(statement, 1));
		step.n_done++;
	}
	return r;
}

/*
 * Hints are sentences with names in them; the view readme of a compact database says where memsight
 * is installed; samples of sqlite_stat4 are rows.
 */
static const char first_sql[] =
	"PRAGMA journal_mode = OFF; PRAGMA secure_delete = ON; BEGIN;"
	"DELETE FROM fact WHERE key GLOB 'hint.*'; DROP VIEW IF EXISTS readme;";
static const char last_sql[] =
	"INSERT INTO fact(run_id, key, at_end, value)"
	" SELECT id, 'memsight.anonymised', 1, 'yes' FROM run; COMMIT; VACUUM;";

static int rewrite(const char *path, struct export_progress *progress)
{
	sqlite3 *db = NULL;
	int r = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK ? 0 : -EIO;

	if (r == 0 && pseudonyms_register(db) != SQLITE_OK)
		r = -ENOMEM;
	r = r ?: run(db, first_sql);
	if (r == 0 && statement_has_column(db, NULL, "sqlite_stat4", NULL))
		r = run(db, "DELETE FROM sqlite_stat4");
	r = r ?: statement_kept(db) ?: replace_all(db, progress);
	show(progress, &(struct progress_step){ .phase = "packing" });
	r = r ?: run(db, last_sql);
	if (r < 0 && sqlite3_errcode(db) == SQLITE_FULL)
		r = -ENOSPC;
	statement_forget(db);
	sqlite3_close_v2(db);
	return r == -EPROTO ? -EIO : r;
}

static int is_copy(sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db, "SELECT 1 FROM fact WHERE key = 'memsight.anonymised'",
				  &statement);

	r = r < 0 ? r : statement_step(statement);
	return r > 0 ? -EALREADY : r;
}

#define STEPS_BETWEEN_LOOKS 100000

struct copying {
	const char *path;
	struct export_progress *progress;
	struct progress_step step;
};

static int look(void *user)
{
	struct copying *copying = user;
	struct stat status;

	if (stat(copying->path, &status) == 0)
		copying->step.n_done = (uint64_t)status.st_size;
	show(copying->progress, &copying->step);
	return 0;
}

static int copy(sqlite3 *db, const char *path, struct export_progress *progress)
{
	struct copying copying = { path, progress, { .phase = "copying" } };
	char *sql = sqlite3_mprintf("VACUUM INTO %Q", path);

	if (progress) {
		copying.step.n_all = (uint64_t)report_sql_number(
			db,
			"SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
			0);
		look(&copying);
		sqlite3_progress_handler(db, STEPS_BETWEEN_LOOKS, look, &copying);
	}
	int r = sql ? run(db, sql) : -ENOMEM;
	sqlite3_progress_handler(db, 0, NULL, NULL);
	sqlite3_free(sql);
	return r < 0 && (sqlite3_errcode(db) & 0xff) == SQLITE_FULL ? -ENOSPC : r;
}

int anonymise(sqlite3 *db, const char *path, bool replaces, struct export_progress *progress)
{
	auto_free char *partial = NULL;
	int r = is_copy(db);

	if (r == 0 && !replaces && access(path, F_OK) == 0)
		return -EEXIST;
	if (r < 0)
		return r;
	if (asprintf(&partial, "%s.partial", path) < 0)
		return -ENOMEM;
	/* Into an empty file: SQLite would let others read it. */
	auto_close int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = copy(db, partial, progress) ?: rewrite(partial, progress);
	if (r == 0 && rename(partial, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(partial);
	return r;
}
