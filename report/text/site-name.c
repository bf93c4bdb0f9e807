#include "report/text/site-name.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/text-stream.h"
#include "common/text.h"
#include "report/text/fit-text.h"
#include "store/library-frames.h"
#include "store/statement.h"

#define DEFAULT_CALLS 3
#define MAX_DEPTH     300 /* a damaged database must not make a loop */
#define NAME_COLUMNS  56u

static const char rows_sql[] =
	"SELECT stack.parent_id, stack.stop, frame.path, frame.offset,"
	"  coalesce(frame_line.function, frame.function), frame_line.file, frame_line.line,"
	"  coalesce(frame.user_depth, -1), coalesce(frame_line.depth, 0), stack.user_id,"
	"  frame_line.call"
	" FROM stack LEFT JOIN frame ON frame.id = stack.frame_id"
	" LEFT JOIN frame_line ON frame_line.frame_id = frame.id"
	" WHERE stack.id = ? ORDER BY frame_line.depth";

/* Another path that leads on from the same call. */
static const char sibling_sql[] = "SELECT 1 FROM stack WHERE parent_id = ? AND id <> ? LIMIT 1";

enum {
	COLUMN_PARENT,
	COLUMN_STOP,
	COLUMN_PATH,
	COLUMN_OFFSET,
	COLUMN_FUNCTION,
	COLUMN_FILE,
	COLUMN_LINE,
	COLUMN_USER_DEPTH,
	COLUMN_DEPTH,
	COLUMN_USER_ID,
	COLUMN_CALL,
};

/* What lies behind the program's call, by names of libraries. */
struct folded {
	char inner[FRAME_NAME_BYTES]; /* the innermost that says something */
	char outer[FRAME_NAME_BYTES]; /* the outermost */
	char innermost[FRAME_NAME_BYTES]; /* be it one that libraries keep to themselves */
	bool is_forked; /* other paths lead on from behind the program's call */
};

struct naming {
	sqlite3_stmt *row;
	sqlite3_stmt *sibling;
	FILE *out;
	struct folded folded;
	int64_t user_id;
	int n_shown;
	int max_shown;
	bool has_inner;
	bool is_cut;
	bool is_whole; /* stack_text(): each call, with what debug information says of it */
	bool has_skipped; /* whole: operator new, who called it is meant */
	bool is_initialiser; /* the call shown last */
	char inlined[FRAME_NAME_BYTES]; /* of the frame at hand: the function shown last */
	int code; /* of SQLite: what failed */
};

static const char *column_text(struct naming *naming, int column)
{
	const char *text = statement_string_or_null(naming->row, column);

	if (!text && sqlite3_errcode(sqlite3_db_handle(naming->row)) == SQLITE_NOMEM)
		naming->code = SQLITE_NOMEM;
	return text;
}

/* ---- Names of libraries ---- */

static void drop_all(char *name, const char *part)
{
	size_t n = strlen(part);

	for (char *at = strstr(name, part); at; at = strstr(at, part))
		memmove(at, at + n, strlen(at + n) + 1);
}

/* "pthread_create_2_1": since which version of the C library it does what it does. */
static void drop_version(char *name)
{
	size_t n = strlen(name), n_numbers = 0;

	while (n > 1 && isdigit((unsigned char)name[n - 1])) {
		size_t n_digits = 1;
		while (n_digits < n && isdigit((unsigned char)name[n - 1 - n_digits]))
			n_digits++;
		if (n_digits == n || name[n - 1 - n_digits] != '_')
			break;
		n -= n_digits + 1;
		n_numbers++;
	}
	if (n_numbers >= 2 && n > 0)
		name[n] = '\0';
}

/* "std::__cxx11::basic_string::_M_create" is "string::_M_create". */
static void library_name(const char *function, char ret_name[FRAME_NAME_BYTES])
{
	static const char *const spaces[] = { "__cxx11::", "__gnu_cxx::", "__detail::",
					      "__1::",	   "__debug::",	  "std::" };
	static const char *const kept[] = { "__GI_", "_IO_", "__" }; /* "_IO_puts", "__printf" */

	frame_plain_name(function, "", ret_name);
	for (size_t i = 0; !strstr(ret_name, "::") && i < sizeof(kept) / sizeof(*kept); i++)
		if (strncmp(ret_name, kept[i], strlen(kept[i])) == 0)
			memmove(ret_name, ret_name + strlen(kept[i]),
				strlen(ret_name + strlen(kept[i])) + 1);
	drop_version(ret_name);
	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++)
		drop_all(ret_name, spaces[i]);
	if (strncmp(ret_name, "basic_string::", 14) == 0)
		drop_all(ret_name, "basic_");
}

/* Also what is no name of a function: "(in libc.so.6)". */
static bool is_silent(const char *name)
{
	return *name == '\0' || *name == '(' || frame_is_silent(name);
}

/* A name of C++ with a part that the standard keeps for libraries. */
static bool is_inside(const char *name)
{
	for (const char *at = strstr(name, "::") ? name : NULL; at; at = strstr(at, "::")) {
		at += *at == ':' ? 2 : 0;
		if (*at == '_' && (at[1] == '_' || isupper((unsigned char)at[1])))
			return true;
	}
	return false;
}

bool site_names_library(const char *name)
{
	return !is_silent(name) && !is_inside(name);
}

static void fold(struct naming *naming, const char *function)
{
	static const char behind[] = "(behind "; /* code without a name: by who ends in it */
	struct folded *folded = &naming->folded;
	char name[FRAME_NAME_BYTES] = "";

	if (function && strncmp(function, behind, strlen(behind)) == 0)
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(function + strlen(behind), ",)"),
			 function + strlen(behind));
	else if (function)
		library_name(function, name);
	if (is_silent(name))
		return;
	if (!folded->innermost[0])
		strcpy(folded->innermost, name);
	if (!site_names_library(name))
		return;
	if (!folded->inner[0])
		strcpy(folded->inner, name);
	strcpy(folded->outer, name);
}

/* Of "map::operator[]" the 3 bytes of "map"; 0: of no class. */
static size_t class_length(const char *name)
{
	const char *last = NULL;

	for (const char *at = strstr(name, "::"); at; at = strstr(at + 2, "::"))
		last = at;
	return last ? (size_t)(last - name) : 0;
}

static void write_folded(struct naming *naming)
{
	const struct folded *folded = &naming->folded;
	size_t n_inner = class_length(folded->inner), n_outer = class_length(folded->outer);
	bool is_other = n_inner && n_outer &&
			(n_inner != n_outer || memcmp(folded->inner, folded->outer, n_inner) != 0);

	if (folded->outer[0]) {
		fputs(" \u203a ", naming->out);
		fit_write(naming->out, folded->outer, NAME_COLUMNS);
	}
	if (!naming->has_inner || (!is_other && !folded->is_forked))
		return;
	const char *inner = is_other ? folded->inner : folded->innermost;
	if (strcmp(inner, folded->outer) == 0)
		return;
	fputs(" \u203a ", naming->out);
	fit_write(naming->out,
		  is_other || !class_length(inner) ? inner : inner + class_length(inner) + 2,
		  NAME_COLUMNS);
}

/* ---- Calls of the program ---- */

void site_plain_name(const char *function, bool is_library, char ret_name[FRAME_NAME_BYTES])
{
	if (is_library) {
		library_name(function, ret_name);
		return;
	}
	frame_plain_name(function, "<>", ret_name);
	drop_all(ret_name, "(anonymous namespace)::");
	if (frame_is_initialiser(ret_name))
		strcpy(ret_name, SITE_INITIALISER);
}

static void write_function(struct naming *naming, const char *function)
{
	char name[FRAME_NAME_BYTES];

	site_plain_name(function, false, name);
	naming->is_initialiser = strcmp(name, SITE_INITIALISER) == 0;
	fit_write(naming->out, name, NAME_COLUMNS);
}

/* " app.c:12 A = malloc(…)", " app.c:12:17", " labels app.c:9" */
static void write_line(struct naming *naming, const char *file)
{
	const char *call = column_text(naming, COLUMN_CALL);
	int line = sqlite3_column_int(naming->row, COLUMN_LINE);
	bool is_column = call && *call == ':';

	if (call && naming->is_initialiser && !is_column)
		fprintf(naming->out, " %s", call);
	fprintf(naming->out, " %s:%d", text_base_name(file), line);
	if (call && (is_column || !naming->is_initialiser)) {
		fputs(is_column ? "" : " ", naming->out);
		fit_write(naming->out, call, NAME_COLUMNS);
	}
}

/* Without lines the offset tells two places in one function apart. */
static void write_offset(struct naming *naming, const char *function, const char *path)
{
	if (path)
		fprintf(naming->out, function ? " (%s+0x%llx)" : "%s+0x%llx", text_base_name(path),
			sqlite3_column_int64(naming->row, COLUMN_OFFSET));
}

static void write_place(struct naming *naming)
{
	const char *function = column_text(naming, COLUMN_FUNCTION);
	const char *file = column_text(naming, COLUMN_FILE);
	const char *path = column_text(naming, COLUMN_PATH);

	naming->is_initialiser = false;
	if (function)
		write_function(naming, function);
	if (file)
		write_line(naming, file);
	else
		write_offset(naming, function, path);
}

/* stack_text()'s way. */
static void write_whole_place(struct naming *naming)
{
	const char *function = column_text(naming, COLUMN_FUNCTION);
	const char *file = column_text(naming, COLUMN_FILE);
	const char *path = column_text(naming, COLUMN_PATH);
	const char *call = column_text(naming, COLUMN_CALL);

	if (function)
		fputs(function, naming->out);
	if (file)
		fprintf(naming->out, " %s:%d%s%s", text_base_name(file),
			sqlite3_column_int(naming->row, COLUMN_LINE),
			call && *call != ':' ? " " : "", call ? call : "");
	else
		write_offset(naming, function, path);
}

static bool is_initialiser_again(struct naming *naming)
{
	const char *function = column_text(naming, COLUMN_FUNCTION);

	return naming->is_initialiser && function && frame_is_initialiser(function);
}

/* A part of a function that the compiler has set into the rest of it: its line says where. */
static bool is_part_again(struct naming *naming)
{
	const char *function = column_text(naming, COLUMN_FUNCTION);

	if (!function || strcmp(function, naming->inlined) == 0)
		return function != NULL;
	snprintf(naming->inlined, sizeof(naming->inlined), "%s", function);
	return false;
}

/* operator new at the inner end says nothing of the program, unless there is nothing else. */
static bool is_operator_new(struct naming *naming, const char *stop)
{
	const char *function = column_text(naming, COLUMN_FUNCTION);

	if (naming->n_shown > 0)
		return false;
	if (function && strncmp(function, "operator new", 12) == 0)
		return naming->has_skipped = true;
	if (naming->has_skipped && stop) {
		fputs("operator new", naming->out);
		naming->n_shown++;
	}
	return false;
}

/* A call of the program, or why the path ends. */
static void write_call(struct naming *naming)
{
	const char *stop = column_text(naming, COLUMN_STOP);
	bool is_first = naming->n_shown == 0;

	if (naming->is_whole ? is_operator_new(naming, stop)
			     : is_initialiser_again(naming) || is_part_again(naming))
		return;
	if (naming->n_shown == naming->max_shown) {
		naming->is_cut = true;
		return;
	}
	if (naming->n_shown++)
		fputs(" < ", naming->out);
	if (stop)
		fprintf(naming->out, "(%s)", stop);
	else if (naming->is_whole)
		write_whole_place(naming);
	else
		write_place(naming);
	if (is_first && !naming->is_whole)
		write_folded(naming);
}

/* Whether the function of a row is a library's; why a path ends is not. */
static bool is_library(struct naming *naming)
{
	return sqlite3_column_type(naming->row, COLUMN_STOP) == SQLITE_NULL &&
	       frame_is_library(sqlite3_column_int(naming->row, COLUMN_DEPTH),
				sqlite3_column_int(naming->row, COLUMN_USER_DEPTH),
				column_text(naming, COLUMN_FUNCTION),
				column_text(naming, COLUMN_FILE), column_text(naming, COLUMN_PATH));
}

static bool has_siblings(struct naming *naming, int64_t parent, int64_t stack_id)
{
	sqlite3_reset(naming->sibling);
	sqlite3_bind_int64(naming->sibling, 1, parent);
	sqlite3_bind_int64(naming->sibling, 2, stack_id);
	int code = statement_advance(naming->sibling);
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		naming->code = code;
	return code == SQLITE_ROW;
}

/* One stack row; returns its parent, or 0 at the outer end. */
static int64_t name_row(struct naming *naming, int64_t stack_id, bool is_behind)
{
	int64_t parent = 0;
	int code = SQLITE_DONE;

	naming->inlined[0] = '\0';
	sqlite3_reset(naming->row);
	sqlite3_bind_int64(naming->row, 1, stack_id);
	while (!naming->is_cut && (code = statement_advance(naming->row)) == SQLITE_ROW) {
		parent = sqlite3_column_int64(naming->row, COLUMN_PARENT);
		if (naming->is_whole)
			write_call(naming);
		else if (is_behind || (is_library(naming) && naming->n_shown == 0))
			fold(naming, column_text(naming, COLUMN_FUNCTION));
		else if (!is_library(naming))
			write_call(naming);
	}
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		naming->code = code;
	if (!naming->is_whole && is_behind && naming->has_inner &&
	    has_siblings(naming, parent, stack_id))
		naming->folded.is_forked = true;
	return naming->code == SQLITE_OK ? parent : 0;
}

static void write_stack(struct naming *naming, int64_t stack_id)
{
	bool is_behind = true;

	for (int depth = 0; stack_id != 0 && !naming->is_cut && depth < MAX_DEPTH; depth++) {
		is_behind &= stack_id != naming->user_id;
		stack_id = name_row(naming, stack_id, is_behind);
	}
	if (naming->is_cut)
		fputs(" < \u2026", naming->out);
}

/* stack.user_id of a stack; 0: there is none, or the row is not there. */
static int64_t find_user(struct naming *naming, int64_t stack_id)
{
	int64_t user_id = 0;

	sqlite3_bind_int64(naming->row, 1, stack_id);
	int code = statement_advance(naming->row);
	if (code == SQLITE_ROW)
		user_id = sqlite3_column_int64(naming->row, COLUMN_USER_ID);
	else if (code != SQLITE_DONE)
		naming->code = code;
	return user_id;
}

static char *write_name(struct naming *naming, int64_t stack_id)
{
	char *text = NULL;
	size_t n_bytes = 0;

	naming->out = text_stream_open(&text, &n_bytes);
	if (naming->out)
		write_stack(naming, stack_id);
	if (!naming->out || text_stream_close(naming->out, &text) < 0)
		naming->code = SQLITE_NOMEM;
	return text;
}

static unsigned names_of(sqlite3_context *context)
{
	const unsigned *names = sqlite3_user_data(context);

	return names ? *names : 0;
}

/* Give the text away; of linked names with the stack's id before it (report.h). */
static void give(sqlite3_context *context, int64_t stack_id, const char *text)
{
	bool is_linked = names_of(context) & REPORT_NAMES_LINKED && stack_id;
	auto_free char *linked = NULL;

	if (is_linked && asprintf(&linked, "\x1e%lld\x1f%s\x1e", (long long)stack_id, text) < 0)
		linked = NULL;
	if (is_linked && !linked)
		sqlite3_result_error_nomem(context);
	else
		sqlite3_result_text(context, is_linked ? linked : text, -1, SQLITE_TRANSIENT);
}

/* Preparing takes longer than a name: the statements of one call serve the query's next rows. */
struct queries {
	sqlite3_stmt *row, *sibling;
};

static void free_queries(void *user)
{
	struct queries *queries = user;

	sqlite3_finalize(queries->row);
	sqlite3_finalize(queries->sibling);
	free(queries);
}

static struct queries *prepare_queries(sqlite3 *db, int *ret_code)
{
	struct queries *queries = calloc(1, sizeof(*queries));

	*ret_code =
		queries ? sqlite3_prepare_v2(db, rows_sql, -1, &queries->row, NULL) : SQLITE_NOMEM;
	if (*ret_code == SQLITE_OK)
		*ret_code = sqlite3_prepare_v2(db, sibling_sql, -1, &queries->sibling, NULL);
	if (queries && *ret_code != SQLITE_OK) {
		free_queries(queries);
		queries = NULL;
	}
	return queries;
}

static char *write_with(struct naming *naming, const struct queries *queries, int64_t stack_id)
{
	naming->row = queries->row;
	naming->sibling = queries->sibling;
	if (!naming->is_whole)
		naming->user_id = find_user(naming, stack_id);
	naming->is_whole |= !naming->user_id;
	char *text = naming->code == SQLITE_OK ? write_name(naming, stack_id) : NULL;
	sqlite3_reset(naming->row);
	sqlite3_reset(naming->sibling);
	return text;
}

/* SQLite keeps what belongs to an argument that is constant, as the number of calls is. */
#define KEEPER 1

/* Give the name of the stack in the first argument. */
static void name(sqlite3_context *context, struct naming *naming, sqlite3_value **args)
{
	int64_t stack_id = sqlite3_value_int64(args[0]);
	struct queries *kept = sqlite3_get_auxdata(context, KEEPER);
	struct queries *queries =
		kept ? kept : prepare_queries(sqlite3_context_db_handle(context), &naming->code);
	auto_free char *text = !queries	  ? NULL
			       : stack_id ? write_with(naming, queries, stack_id)
					  : strdup("(no stack recorded)");

	if (queries && !kept) /* it may be freed at once */
		sqlite3_set_auxdata(context, KEEPER, queries, free_queries);
	if (naming->code == SQLITE_OK && !text)
		naming->code = SQLITE_NOMEM;
	if (naming->code != SQLITE_OK)
		sqlite3_result_error_code(context, naming->code);
	else
		give(context, stack_id, text);
}

static void site_name(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	bool is_full = names_of(context) & REPORT_NAMES_FULL;
	struct naming naming = {
		.max_shown = is_full	  ? MAX_DEPTH
			     : n_args > 1 ? sqlite3_value_int(args[1])
					  : DEFAULT_CALLS,
		.has_inner = n_args <= 2 || sqlite3_value_int(args[2]) != 0,
		.is_whole = is_full,
	};

	name(context, &naming, args);
}

static void stack_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	struct naming naming = {
		.max_shown = n_args > 1 ? sqlite3_value_int(args[1]) : DEFAULT_CALLS,
		.is_whole = true,
	};

	name(context, &naming, args);
}

int site_name_register(sqlite3 *db, const unsigned *names)
{
	int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
	int code = SQLITE_OK;

	for (int n_args = 1; code == SQLITE_OK && n_args <= 3; n_args++)
		code = sqlite3_create_function(db, "site_name", n_args, flags, (void *)names,
					       site_name, NULL, NULL);
	for (int n_args = 1; code == SQLITE_OK && n_args <= 2; n_args++)
		code = sqlite3_create_function(db, "stack_text", n_args, flags, NULL, stack_text,
					       NULL, NULL);
	return code;
}
