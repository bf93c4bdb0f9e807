#include "report/callgraph/call-paths.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "report/text/site-name.h"
#include "store/library-frames.h"
#include "store/row-limit.h"
#include "store/statement.h"

#define FUNCTION_TABLE_SEED UINT64_C(0xcbf29ce484222325)

/* While reading: functions by a hash of name and file; chains by number. */
struct names {
	struct key_map first; /* of a hash: number of a function */
	uint32_t *next; /* by number: another one with the same hash */
	size_t n_allocated;
	struct key_map sources; /* of a hash: index of a source file */
};

static void names_finish(struct names *names)
{
	key_map_finish(&names->first);
	key_map_finish(&names->sources);
	free(names->next);
}
#define auto_names __attribute__((cleanup(names_finish)))

static uint64_t hash_of(const char *text, uint64_t hash)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static int add_source(struct paths *paths, const char *source)
{
	int r = grow_one(&paths->sources, paths->n_sources, &paths->n_sources_allocated);
	if (r < 0)
		return r;
	paths->sources[paths->n_sources] = strdup(source);
	return paths->sources[paths->n_sources++] ? 0 : -ENOMEM;
}

static int add_function(struct paths *paths, const char *name, const char *module)
{
	int r = grow_one(&paths->functions, paths->n_functions, &paths->n_functions_allocated);
	if (r < 0)
		return r;

	struct path_function *function = &paths->functions[paths->n_functions++];
	*function = (struct path_function){ .name = strdup(name), .module = strdup(module) };
	return function->name && function->module ? 0 : -ENOMEM;
}

/* The number of a function, made when it is new. */
static int find_function(struct paths *paths, struct names *names, const char *name,
			 const char *module, uint32_t *ret_number)
{
	uint64_t hash = hash_of(module, hash_of(name, FUNCTION_TABLE_SEED));
	uint32_t first = (uint32_t)key_map_get(&names->first, hash, 0);

	for (uint32_t i = first; i; i = names->next[i]) {
		const struct path_function *function = &paths->functions[i];
		*ret_number = i;
		if (strcmp(function->name, name) == 0 && strcmp(function->module, module) == 0)
			return 0;
	}
	size_t number = paths->n_functions;
	int r = grow_one(&names->next, number, &names->n_allocated);
	r = r ?: add_function(paths, name, module);
	r = r ?: key_map_put(&names->first, hash, 0, number);
	if (r < 0)
		return r;
	names->next[number] = first;
	*ret_number = (uint32_t)number;
	return 0;
}

/* The index of a source file, made when it is new; two of one hash are only told apart. */
static int find_source(struct paths *paths, struct names *names, const char *source,
		       uint32_t *ret_index)
{
	uint64_t hash = hash_of(source, FUNCTION_TABLE_SEED);
	uint64_t found = key_map_get(&names->sources, hash, 0);
	int r = 0;

	if (*source == '\0' || (found && strcmp(paths->sources[found], source) == 0)) {
		*ret_index = *source ? (uint32_t)found : 0;
		return 0;
	}
	r = add_source(paths, source);
	if (r == 0 && !found)
		r = key_map_put(&names->sources, hash, 0, paths->n_sources - 1);
	if (r == 0)
		*ret_index = (uint32_t)paths->n_sources - 1;
	return r;
}

static bool is_excluded(const struct paths *paths, const char *function)
{
	for (const char *const *name = paths->options.excluded; name && *name; name++)
		if (paths_is_named(function, *name))
			return true;
	return false;
}

enum {
	COLUMN_ID,
	COLUMN_PATH,
	COLUMN_FUNCTION,
	COLUMN_LINE,
	COLUMN_FILE,
	COLUMN_DEPTH,
	COLUMN_USER_DEPTH,
	COLUMN_IN_LINE
};

static bool is_library(sqlite3_stmt *row)
{
	return frame_is_library(sqlite3_column_int(row, COLUMN_DEPTH),
				sqlite3_column_int(row, COLUMN_USER_DEPTH),
				statement_string_or_null(row, COLUMN_FUNCTION),
				statement_string_or_null(row, COLUMN_FILE),
				statement_string_or_null(row, COLUMN_PATH));
}

/* One function of a frame; those of one frame follow each other. */
static int add_to_frame(struct paths *paths, struct names *names, sqlite3_stmt *row)
{
	uint64_t id = (uint64_t)sqlite3_column_int64(row, COLUMN_ID);
	const char *module = text_base_name(statement_string(row, COLUMN_PATH));
	const char *name = statement_string_or_null(row, COLUMN_FUNCTION);
	struct path_step step = { .line = sqlite3_column_int(row, COLUMN_LINE),
				  .column = sqlite3_column_int(row, COLUMN_IN_LINE) };
	char plain[FRAME_NAME_BYTES];
	auto_free char *made = NULL;

	if (id >= paths->n_frames)
		return -EBADMSG;
	struct path_frame *frame = &paths->frames[id];
	if (!name && asprintf(&made, "(in %s)", *module ? module : "unknown code") < 0)
		return -ENOMEM;
	step.is_excluded = is_excluded(paths, name ? name : made);
	step.is_library = paths->options.fold && is_library(row);
	if (paths->options.fold && name) {
		site_plain_name(name, step.is_library, plain);
		name = plain;
		step.is_excluded |= is_excluded(paths, name);
	}
	int r = find_function(paths, names, name ? name : made, module, &step.function);
	r = r ?: find_source(paths, names, statement_string(row, COLUMN_FILE), &step.source);
	r = r ?: array_add(paths->called, paths->n_called, paths->n_called_allocated, step);
	if (r < 0)
		return r;
	if (step.source && !paths->functions[step.function].source)
		paths->functions[step.function].source = paths->sources[step.source];
	if (frame->n++ == 0)
		frame->first = (uint32_t)paths->n_called - 1;
	return 0;
}

static const char frames_sql[] =
	"SELECT frame.id, path, coalesce(frame_line.function, frame.function), line, file,"
	" coalesce(depth, 0), coalesce(user_depth, -1), line_column FROM frame LEFT JOIN frame_line"
	" ON frame_line.frame_id = frame.id ORDER BY frame.id, depth";

static int read_frames(struct paths *paths, sqlite3 *db)
{
	auto_names struct names names = { 0 };
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = grow_one(&names.next, 0, &names.n_allocated);

	r = r ?: add_function(paths, "", "");
	r = r ?: add_source(paths, "");
	r = r ?: statement_prepare(db, frames_sql, &stmt);
	while (r == 0 && (r = statement_step(stmt)) == 1)
		r = add_to_frame(paths, &names, stmt);
	return r;
}

static int read_stacks(struct paths *paths, sqlite3 *db)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = statement_prepare(db, "SELECT id, parent_id, frame_id FROM stack", &stmt);

	while (r == 0 && (r = statement_step(stmt)) == 1) {
		uint64_t id = (uint64_t)sqlite3_column_int64(stmt, 0);
		if (id >= paths->n_stacks)
			return -EBADMSG;
		paths->stacks[id] = (struct path_stack){
			.parent = sqlite3_column_int64(stmt, 1),
			.frame = (uint32_t)sqlite3_column_int64(stmt, 2),
		};
		r = 0;
	}
	return r;
}

/* Ids are given out one by one, so that arrays hold them; a damaged database is refused. */
static int allocate(struct paths *paths, sqlite3 *db)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = statement_prepare(db,
				  "SELECT coalesce((SELECT max(id) FROM stack), 0),"
				  " coalesce((SELECT max(id) FROM frame), 0),"
				  " coalesce((SELECT min(id) FROM stack), 1),"
				  " coalesce((SELECT min(id) FROM frame), 1)",
				  &stmt);
	r = r ?: statement_step(stmt);
	if (r < 0)
		return r;
	int64_t last_stack = sqlite3_column_int64(stmt, 0);
	int64_t last_frame = sqlite3_column_int64(stmt, 1);
	if (last_stack >= UINT32_MAX || !row_is_below(last_stack, row_limit(db, "stack")) ||
	    last_frame >= UINT32_MAX || !row_is_below(last_frame, row_limit(db, "frame")) ||
	    sqlite3_column_int64(stmt, 2) < 1 || sqlite3_column_int64(stmt, 3) < 1)
		return -EBADMSG;
	paths->n_stacks = (size_t)last_stack + 1;
	paths->n_frames = (size_t)last_frame + 1;
	paths->stacks = calloc(paths->n_stacks, sizeof(*paths->stacks));
	paths->frames = calloc(paths->n_frames, sizeof(*paths->frames));
	return paths->stacks && paths->frames ? 0 : -ENOMEM;
}

int paths_open(sqlite3 *db, const struct paths_options *options, struct paths **ret_paths)
{
	auto_paths struct paths *paths = calloc(1, sizeof(*paths));

	if (!paths)
		return -ENOMEM;
	if (options)
		paths->options = *options;
	int r = allocate(paths, db) ?: read_frames(paths, db) ?: read_stacks(paths, db);
	if (r < 0)
		return r == -ENOMEM ? r : -EPROTO;
	*ret_paths = steal_ptr(&paths);
	return 0;
}

struct paths *paths_close(struct paths *paths)
{
	if (!paths)
		return NULL;
	for (size_t i = 0; i < paths->n_functions; i++) {
		free_all(paths->functions[i].name, paths->functions[i].module);
	}
	array_free(paths->sources, paths->n_sources, it, free(*it));
	free_all(paths->functions, paths->called, paths->frames, paths->stacks, paths);
	return NULL;
}

int paths_is_named(const char *function, const char *name)
{
	size_t n_bytes = strlen(name);

	return strncmp(function, name, n_bytes) == 0 &&
	       (function[n_bytes] == '\0' || function[n_bytes] == '(');
}

/* Innermost first, as the rows lead outwards. */
static size_t walk_outwards(const struct paths *paths, int64_t stack_id, struct path_step *steps)
{
	size_t n = 0;

	for (size_t depth = 0;
	     stack_id > 0 && (size_t)stack_id < paths->n_stacks && depth < PATHS_MAX_DEPTH;
	     depth++) {
		const struct path_stack *stack = &paths->stacks[stack_id];
		const struct path_frame *frame =
			&paths->frames[stack->frame < paths->n_frames ? stack->frame : 0];

		for (uint32_t i = 0; i < frame->n && n < PATHS_MAX_DEPTH; i++)
			steps[n++] = paths->called[frame->first + i];
		stack_id = stack->parent;
	}
	return n;
}

/* An initialiser that calls the one which does the work, by the same name. */
static bool is_again(const struct paths *paths, const struct path_step *steps, size_t n_kept,
		     size_t i)
{
	return n_kept && steps[n_kept - 1].function == steps[i].function &&
	       strcmp(paths->functions[steps[i].function].name, SITE_INITIALISER) == 0;
}

/* Of libraries what the program asked for; innermost it is the outermost that says something. */
static size_t fold(const struct paths *paths, struct path_step *steps, size_t n)
{
	size_t n_program = 0, n_kept = 0, asked = n;

	for (size_t i = 0; i < n; i++)
		n_program = steps[i].is_library ? n_program : i + 1;
	if (n_program == 0)
		return n;
	for (size_t i = n; paths->options.fold == PATHS_ASKED && i-- > n_program;)
		if (site_names_library(paths->functions[steps[i].function].name))
			asked = i;
	for (size_t i = 0; i < n; i++)
		if (is_again(paths, steps, n_kept, i))
			steps[n_kept - 1] = steps[i];
		else if (!steps[i].is_library || i == asked)
			steps[n_kept++] = steps[i];
	return n_kept;
}

size_t paths_walk(const struct paths *paths, int64_t stack_id,
		  struct path_step ret_steps[PATHS_MAX_DEPTH])
{
	size_t n = walk_outwards(paths, stack_id, ret_steps);
	size_t n_kept = 0;

	for (size_t i = 0; i < n / 2; i++) {
		struct path_step other = ret_steps[i];
		ret_steps[i] = ret_steps[n - 1 - i];
		ret_steps[n - 1 - i] = other;
	}
	for (size_t i = 0; i < n; i++)
		if (!ret_steps[i].is_excluded)
			ret_steps[n_kept++] = ret_steps[i];
	return paths->options.fold ? fold(paths, ret_steps, n_kept) : n_kept;
}
