#include "analyze/hints.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "analyze/symbols/allocator-code.h"
#include "analyze/symbols/debian-package.h"
#include "analyze/symbols/objects.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "store/database.h"
#include "store/statement.h"

#define DPKG_INFO "/var/lib/dpkg/info"
#define MIN_LACK  0.05 /* of the bytes or of the time, to be worth a hint */
#define MAX_FILES 3

static const char add_fact_sql[] =
	"INSERT OR REPLACE INTO fact (run_id, key, at_end, value) VALUES (?1, ?2, 1, ?3)";

/* Bytes by module whose innermost frame, but for operator new, has no line; ?1 = the run. */
/* clang-format off */
static const char lineless_sql[] =
	"SELECT frame.path, sum(bytes) * 1.0 / (SELECT sum(bytes) FROM site WHERE run_id = ?1) AS"
	" part FROM site JOIN stack AS inner_stack ON inner_stack.id = site.stack_id LEFT JOIN"
	" frame AS inner_frame ON inner_frame.id = inner_stack.frame_id JOIN stack ON stack.id ="
	" CASE WHEN inner_frame.function GLOB 'operator new*' THEN coalesce(inner_stack.parent_id,"
	" inner_stack.id) ELSE inner_stack.id END JOIN frame ON frame.id = stack.frame_id WHERE"
	" site.run_id = ?1 AND frame.path LIKE '/%' AND NOT EXISTS (SELECT 1 FROM frame_line WHERE"
	" frame_line.frame_id = frame.id AND line IS NOT NULL) GROUP BY frame.path ORDER BY part"
	" DESC LIMIT 2";
/* clang-format on */

/* The most time at variables of one module that has no symbols but for the loader; ?1 = the run. */
static const char nameless_sql[] =
	"SELECT symbol.path, sum(share_low) AS part FROM object_total JOIN symbol ON symbol.id ="
	" owner_id JOIN owner ON owner.id = owner_kind AND owner.name = 'global' WHERE run_id = ?1"
	" AND symbol.name IN ('[.data]', '[.bss]') AND EXISTS (SELECT 1 FROM module WHERE"
	" module.run_id = ?1 AND module.path = symbol.path AND debug_info = 'none') GROUP BY"
	" symbol.path ORDER BY part DESC LIMIT 1";

static const char allocators_sql[] =
	"INSERT OR REPLACE INTO fact (run_id, key, at_end, value) SELECT ?1, 'hint.allocator.' ||"
	" exe, 1, exe || ' brings its own malloc inside the executable: its calls of it are not"
	" seen, only its mmap calls' FROM (SELECT DISTINCT exe FROM loss JOIN process ON process.id"
	" = process_id WHERE loss.run_id = ?1 AND reason = 'malloc of its own')";

static int add_fact(sqlite3 *handle, int64_t run_id, const char *key, const char *value)
{
	sqlite3_stmt *stmt = NULL;
	int code = sqlite3_prepare_v2(handle, add_fact_sql, -1, &stmt, NULL);

	if (code == SQLITE_OK) {
		sqlite3_bind_int64(stmt, 1, run_id);
		sqlite3_bind_text(stmt, 2, key, -1, SQLITE_STATIC);
		sqlite3_bind_text(stmt, 3, value, -1, SQLITE_STATIC);
		code = statement_advance(stmt);
		sqlite3_finalize(stmt);
	}
	return db_errno(handle, code);
}

static int hint_allocators(sqlite3 *handle, int64_t run_id)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = db_errno(handle, sqlite3_prepare_v2(handle, allocators_sql, -1, &stmt, NULL));

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, run_id);
	return db_errno(handle, statement_advance(stmt));
}

/* What a module lacks, and who says so: a share of something, and a module's path. */
struct lack {
	const char *sql;
	const char *of; /* "of the bytes were asked for in" */
	const char *what;
	const char *cure; /* where no package has it */
	const char *key;
};

static const struct lack lacks[] = {
	{ lineless_sql, "of the bytes were asked for in", "line numbers", "build it with -g",
	  "debug" },
	{ nameless_sql, "of the CPU time, at least, is at variables of", "names of these",
	  "do not strip it", "debug.variables" },
};

/*
 * "37.0 % of the bytes were asked for in libx.so, which has no line numbers: package libx-dbgsym
 * has them"
 */
static void lack_text(const struct lack *lack, const char *path, double part, char *text,
		      size_t n_bytes)
{
	char package[256], debug[300];
	int n = snprintf(text, n_bytes, "%.1f %% %s %s, which has no %s: ", 100 * part, lack->of,
			 text_base_name(path), lack->what);

	if (n < 0 || (size_t)n >= n_bytes)
		return;
	if (package_of_file(DPKG_INFO, path, package, sizeof(package)) < 0) {
		snprintf(text + n, n_bytes - (size_t)n, "%s", lack->cure);
		return;
	}
	package_debug_name(package, debug, sizeof(debug));
	snprintf(text + n, n_bytes - (size_t)n, "package %s has them", debug);
}

/* Whether its names are lost with it, whatever package might have its lines. */
static bool is_lost(const struct object *object)
{
	return object->state > OBJECT_FOUND && object->path[0] == '/';
}

/* A file that is not there has a hint of its own. */
static bool is_here(const struct objects *objects, const char *path)
{
	for (size_t i = 0; i < objects_count(objects); i++) {
		const struct object *object = objects_at(objects, i);

		if (is_lost(object) && strcmp(object->path, path) == 0)
			return false;
	}
	return true;
}

static int hint_lack(sqlite3 *handle, int64_t run_id, const struct objects *objects,
		     const struct lack *lack)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = db_errno(handle, sqlite3_prepare_v2(handle, lack->sql, -1, &stmt, NULL));

	sqlite3_bind_int64(stmt, 1, run_id);
	for (int i = 0; r == 0 && statement_advance(stmt) == SQLITE_ROW; i++) {
		double part = sqlite3_column_double(stmt, 1);
		const char *path = statement_string(stmt, 0);
		char key[32], value[1024];
		if (part < MIN_LACK)
			break;
		if (!is_here(objects, path))
			continue;
		snprintf(key, sizeof(key), "hint.%s.%d", lack->key, i);
		lack_text(lack, path, part, value, sizeof(value));
		r = add_fact(handle, run_id, key, value);
	}
	return r;
}

/* How many places of an object have no name. */
static int64_t count_unnamed(struct db *db, const struct object *object)
{
	return db_integer_of(db, 0,
			     "SELECT count(*) FROM frame WHERE object = ?1 AND function IS NULL",
			     "t", object->name);
}

/* "X was rebuilt since it was recorded: 12 code addresses have neither names nor lines; ..." */
static void lost_text(const struct object *object, int64_t n, char *text, size_t n_bytes)
{
	static const char *const reasons[] = {
		[OBJECT_MISSING] = "is not on this machine",
		[OBJECT_REBUILT] = "was rebuilt since it was recorded",
		[OBJECT_NO_ELF] = "is no ELF file",
	};
	const char *remedy = object->state == OBJECT_NO_ELF ? "a runtime's own format"
			     : object->build_id
				     ? "--debug-dir or --sysroot may name the file with build-id "
				     : "--sysroot may name its machine's files";

	snprintf(text, n_bytes,
		 "%.160s %s: %" PRId64 " code address%s without names and lines (%s%.40s)",
		 object->path, reasons[object->state], n, n == 1 ? " is" : "es are", remedy,
		 object->build_id ? object->build_id : "");
}

static int hint_files(struct db *db, int64_t run_id, const struct objects *objects,
		      char *ret_problem, size_t n_bytes)
{
	int r = 0;
	int n_hints = 0;

	for (size_t i = 0; r == 0 && i < objects_count(objects) && n_hints < MAX_FILES; i++) {
		const struct object *object = objects_at(objects, i);
		bool is_lost_one = is_lost(object) && !allocator_is_tool(object);
		int64_t n = is_lost_one ? count_unnamed(db, object) : 0;
		char key[32], value[400];

		if (n == 0)
			continue;
		snprintf(key, sizeof(key), "hint.debug.file.%d", n_hints);
		lost_text(object, n, value, sizeof(value));
		if (n_hints++ == 0)
			snprintf(ret_problem, n_bytes, "%s", value);
		r = add_fact(db_handle(db), run_id, key, value);
	}
	return r;
}

int hints_write(struct db *db, int64_t run_id, const struct objects *objects, char *ret_problem,
		size_t n_bytes)
{
	ret_problem[0] = '\0';

	int r = hint_allocators(db_handle(db), run_id);
	r = r ?: hint_files(db, run_id, objects, ret_problem, n_bytes);
	for (size_t i = 0; r == 0 && i < sizeof(lacks) / sizeof(lacks[0]); i++)
		r = hint_lack(db_handle(db), run_id, objects, &lacks[i]);
	return r;
}
