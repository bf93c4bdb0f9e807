#include "report/known-leaks.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "store/query-value.h"
#include "store/statement.h"

#define MAX_FRAMES 300 /* as in sql-functions.c */
#define NAME_BYTES 96

/* Parts of the runtime, by the files that hold them. */
enum module {
	MODULE_OTHER,
	MODULE_LOADER,
	MODULE_C,
	MODULE_CXX,
};

static const struct {
	const char *pattern; /* of the file's name without its folder */
	enum module module;
} modules[] = {
	{ "ld-musl-*", MODULE_C },	   { "ld-linux*.so*", MODULE_LOADER },
	{ "ld-[0-9]*.so", MODULE_LOADER }, { "ld64.so*", MODULE_LOADER },
	{ "libc.so*", MODULE_C },	   { "libc-[0-9]*.so", MODULE_C },
	{ "libpthread[-.]*", MODULE_C },   { "libdl[-.]*", MODULE_C },
	{ "librt[-.]*", MODULE_C },	   { "libresolv[-.]*", MODULE_C },
	{ "libnss_*.so*", MODULE_C },	   { "libstdc++.so*", MODULE_CXX },
	{ "libgcc_s.so*", MODULE_CXX },	   { "libc++.so*", MODULE_CXX },
	{ "libc++abi.so*", MODULE_CXX },
};

/* When what a function of the runtime allocated, and did not free, is the runtime's. */
enum when {
	WHEN_ALWAYS,
	WHEN_STREAM, /* it may be a stream of the program's own, which it did not close */
	/* likewise, and only what a stream's buffer is made by: else it is the caller's */
	WHEN_BUFFER,
	WHEN_INNER, /* what it allocates itself is the caller's */
	WHEN_STATE, /* only what it has the C library make for all later calls */
};

/*
 * By the name of the function that was called from outside, as plain_name() gives it. A space on
 * either side.
 */
static const struct rule {
	const char *what;
	enum when when;
	const char *names;
} rules[] = {
	{ "stdio buffers", WHEN_ALWAYS,
	  " puts printf vprintf putchar perror getchar gets wprintf vwprintf putwchar getwchar " },
	{ "stdio buffers", WHEN_STREAM,
	  " fputs fputc putc fwrite fprintf vfprintf fgets fgetc getc fread ungetc fflush fputwc"
	  " putwc fputws fgetwc getwc fgetws ungetwc fwprintf vfwprintf fwide fseek fseeko rewind"
	  " ftell ftello fgetpos fsetpos setvbuf setbuf setbuffer setlinebuf overflow uflow"
	  " underflow default_uflow default_xsputn default_xsgetn file_overflow file_underflow"
	  " file_xsputn file_xsgetn sputn sgetn woverflow wunderflow wuflow wdefault_uflow"
	  " wdefault_xsputn"
	  " wdefault_xsgetn wfile_overflow wfile_underflow wfile_xsputn " },
	{ "stdio buffers", WHEN_BUFFER,
	  " getline getdelim scanf vscanf fscanf vfscanf wscanf vwscanf fwscanf vfwscanf"
	  " file_doallocate"
	  " wfile_doallocate " },
	{ "locale", WHEN_ALWAYS,
	  " setlocale gettext dgettext dcgettext ngettext dngettext dcngettext dcigettext"
	  " textdomain bindtextdomain bind_textdomain_codeset set_binding_values strerror"
	  " strerror_l strsignal psignal btowc wctob mbrtowc mbsrtowcs mbsnrtowcs mbstowcs mbtowc"
	  " wcrtomb wcsrtombs wcsnrtombs wcstombs wctomb mbrlen mblen"
	  " wcsmbs_load_conv " },
	{ "locale", WHEN_INNER, " newlocale " },
	{ "time zone", WHEN_ALWAYS,
	  " localtime gmtime mktime timelocal mktime_internal tzset tz_convert ctime strftime"
	  " strftime_l wcsftime"
	  " wcsftime_l strptime " },
	{ "environment", WHEN_ALWAYS, " setenv putenv unsetenv clearenv add_to_environ " },
	{ "exit handlers", WHEN_ALWAYS,
	  " cxa_atexit on_exit at_quick_exit cxa_at_quick_exit cxa_thread_atexit_impl"
	  " register_atfork"
	  " pthread_atfork " },
	{ "loader", WHEN_ALWAYS,
	  " dlopen dlmopen dlsym dlvsym dlerror dladdr dladdr1"
	  " dlinfo dlclose dl_iterate_phdr dlerror_run"
	  " dlopen_implementation dlsym_implementation dlvsym_implementation tls_get_addr " },
	{ "threads", WHEN_ALWAYS, " pthread_create thrd_create pthread_setspecific tss_set " },
	{ "name service", WHEN_ALWAYS,
	  " getpwnam getpwuid getpwent setpwent getgrnam getgrgid getgrent setgrent getgrouplist"
	  " initgroups gethostbyname gethostbyname2 gethostbyaddr gethostent sethostent"
	  " getservbyname getservbyport getservent setservent getprotobyname getprotobynumber"
	  " getprotoent setprotoent getnetbyname getnetbyaddr getnetent setnetent getspnam getspent"
	  " setspent getrpcbyname getrpcbynumber getrpcent getaliasbyname getaliasent getutent"
	  " getutid getutline getlogin getmntent getttyent getttynam ttyname getusershell getfsent"
	  " getfsspec getfsfile getnameinfo gethostid res_init res_ninit res_query res_search"
	  " res_querydomain " },
	{ "name service", WHEN_STATE, " getaddrinfo " },
	{ "libstdc++", WHEN_ALWAYS,
	  " std::ios_base::sync_with_stdio std::locale::locale std::locale::global"
	  " std::locale::combine std::locale::classic std::ios_base::Init::Init"
	  " ZNSt8ios_base15sync_with_stdioEb ZNSt6localeC1EPKc"
	  " ZNSt6localeC2EPKc ZNSt6locale6globalERKS_ " },
};

/* What makes what lasts, such as the list of name services; exported, so that it has a name. */
static const char states[] =
	" nss_database_get resolv_context_get"
	" resolv_context_get_override nss_lookup_function libc_dlopen_mode libc_dlopen ";

/* What makes streams of the program's own: where one was not closed, buffers may be its. */
static const char makers[] =
	" fopen fopen_internal fdopen popen tmpfile fmemopen open_memstream open_wmemstream"
	" fopencookie setmntent freopen ";

/* A stack, innermost first. */
struct frames {
	struct {
		enum module module;
		char name[NAME_BYTES];
	} items[MAX_FRAMES];
	size_t n;
	bool has_end; /* up to the outermost: nothing else is there */
};

static enum module module_of(const char *path)
{
	const char *name = text_base_name(path);

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (fnmatch(modules[i].pattern, name, 0) == 0)
			return modules[i].module;
	return MODULE_OTHER;
}

static bool drop_end(char *name, const char *end)
{
	size_t n = strlen(name), n_end = strlen(end);

	if (n <= n_end || strcmp(name + n - n_end, end) != 0)
		return false;
	name[n - n_end] = '\0';
	return true;
}

/* "__isoc99_scanf" and "_IO_puts" by the names of the standards; of C++ without the arguments. */
static void plain_name(const char *name, char *ret_name)
{
	static const char *const begins[] = { "_", "IO_", "isoc99_", "isoc23_", "GI_", "new_" };
	static const char *const ends[] = { "_unlocked", "_chk", "64",	 "_impl",
					    "_internal", "_2_1", "_2_0", "_r" };
	bool has_changed = true;

	while (has_changed) {
		has_changed = false;
		for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
			if (strncmp(name, begins[i], strlen(begins[i])) == 0) {
				name += strlen(begins[i]);
				has_changed = true;
			}
	}
	size_t n = strcspn(name, "(@");
	n = n < NAME_BYTES ? n : NAME_BYTES - 1;
	memcpy(ret_name, name, n);
	ret_name[n] = '\0';
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]);)
		i = drop_end(ret_name, ends[i]) ? 0 : i + 1;
}

/*
 * "(behind gmtime, localtime)", of code without a name (symbol-table.h), becomes the plain names
 * with spaces between.
 */
static void take_name(const char *name, char *ret_name)
{
	static const char behind[] = "(behind ";
	char one[NAME_BYTES], plain[NAME_BYTES];
	size_t n = 0;

	if (strncmp(name, behind, strlen(behind)) != 0) {
		plain_name(name, ret_name);
		return;
	}
	ret_name[0] = '\0';
	for (name += strlen(behind); *name; name += strspn(name, ", )")) {
		size_t n_one = strcspn(name, ",)");

		snprintf(one, sizeof(one), "%.*s", (int)n_one, name);
		plain_name(one, plain);
		if (n + strlen(plain) + 2 > NAME_BYTES) {
			ret_name[0] = '\0'; /* not all are known: nothing is said of it */
			return;
		}
		n += (size_t)snprintf(ret_name + n, NAME_BYTES - n, "%s%s", n ? " " : "", plain);
		name += n_one;
	}
}

/* Whether a name, or of several each, is in a list. */
static bool is_among(const char *names, const char *name)
{
	char word[NAME_BYTES + 2];
	bool is_all = *name != '\0';

	for (size_t n; is_all && *name; name += n + (name[n] == ' ')) {
		n = strcspn(name, " ");
		snprintf(word, sizeof(word), " %.*s ", (int)n, name);
		is_all = strstr(names, word) != NULL;
	}
	return is_all;
}

/*
 * One row of a stack. Returns whether its caller may matter: behind code of the program's own
 * nothing does.
 */
static bool add_frame(struct frames *frames, sqlite3_stmt *row)
{
	bool is_outermost = sqlite3_column_type(row, 0) == SQLITE_NULL;
	bool has_frame = sqlite3_column_type(row, 2) != SQLITE_NULL;
	enum module before = frames->n ? frames->items[frames->n - 1].module : MODULE_OTHER;
	enum module module = has_frame ? module_of(statement_string(row, 2)) : MODULE_OTHER;

	/* _start, which belongs to the program's file */
	if (is_outermost && has_frame && module == MODULE_OTHER && before == MODULE_C)
		module = MODULE_C;
	frames->items[frames->n].module = module;
	take_name(statement_string(row, 1), frames->items[frames->n].name);
	frames->n++;
	frames->has_end = is_outermost && module != MODULE_OTHER;
	return module != MODULE_OTHER && !is_outermost && frames->n < MAX_FRAMES;
}

static void read_frames(struct frames *frames, sqlite3_stmt *row, int64_t stack_id)
{
	frames->n = 0;
	frames->has_end = false;
	for (bool is_wanted = true; is_wanted;) {
		sqlite3_reset(row);
		sqlite3_bind_int64(row, 1, stack_id);
		is_wanted = statement_advance(row) == SQLITE_ROW && add_frame(frames, row);
		stack_id = sqlite3_column_int64(row, 0);
	}
}

/* Behind the frames from i on that are of the C part of the runtime, or of the C++ part. */
static size_t behind_run(const struct frames *frames, size_t i)
{
	bool is_cxx = i < frames->n && frames->items[i].module == MODULE_CXX;

	while (i < frames->n && frames->items[i].module != MODULE_OTHER &&
	       (frames->items[i].module == MODULE_CXX) == is_cxx)
		i++;
	return i;
}

/*
 * Where the part of the runtime that allocated was entered: the index of the frame; -1: the
 * innermost is in neither.
 */
static int find_entry(const struct frames *frames)
{
	return (int)behind_run(frames, 0) - 1;
}

static bool is_buffer(const struct frames *frames)
{
	return is_among(" file_doallocate wfile_doallocate default_doallocate ",
			frames->items[0].name);
}

static bool is_state(const struct frames *frames, size_t entry)
{
	return array_find(frames->items, entry, it,
			  it->module == MODULE_LOADER || is_among(states, it->name));
}

/* has_streams: the program left streams open. */
static const char *match_rules(const struct frames *frames, size_t entry, bool has_streams)
{
	const char *name = frames->items[entry].name;
	bool is_of_cxx = entry + 1 < frames->n && frames->items[entry + 1].module == MODULE_CXX;
	bool is_standard =
		is_of_cxx || !has_streams; /* streams of C++ use stdin, stdout and stderr only */

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *rule = &rules[i];
		const bool holds[] = {
			[WHEN_ALWAYS] = true,
			[WHEN_STREAM] = is_standard,
			[WHEN_BUFFER] = is_standard && is_buffer(frames),
			[WHEN_INNER] = entry > 0,
			[WHEN_STATE] = is_state(frames, entry),
		};
		if (holds[rule->when] && is_among(rule->names, name))
			return rule->what;
	}
	return NULL;
}

/* What a facet keeps for its locale; what it writes goes to a buffer. */
static bool is_facet(const struct frames *frames)
{
	static const char *const facets[] = { "punct_cache", "num_put<", "num_get<", "timepunct<" };

	for (size_t i = 0; i < frames->n && i < 4 && frames->items[i].module == MODULE_CXX; i++) {
		if (strstr(frames->items[i].name, "stringbuf") ||
		    strstr(frames->items[i].name, "filebuf"))
			return false;
		for (size_t k = 0; k < sizeof(facets) / sizeof(facets[0]); k++)
			if (strstr(frames->items[i].name, facets[k]))
				return true;
	}
	return false;
}

static const char *name_of(enum module module)
{
	return module == MODULE_CXX ? "libstdc++" : module == MODULE_LOADER ? "loader" : "libc";
}

/* The pool for exceptions of a program with the C++ runtime in its own file. */
static bool is_pool(const struct frames *frames)
{
	return frames->n && (strcmp(frames->items[0].name, "GLOBAL__sub_I_eh_alloc.cc") == 0 ||
			     strstr(frames->items[0].name, "__gnu_cxx9__freeres"));
}

/* A constructor of the C++ runtime: the loader calls it. */
static bool is_constructor(const struct frames *frames, size_t behind)
{
	return frames->items[0].module == MODULE_CXX && behind < frames->n &&
	       frames->items[behind].module == MODULE_LOADER;
}

static const char *what_of(const struct frames *frames, bool has_streams)
{
	size_t behind = behind_run(frames, 0);

	if (behind == 0)
		return is_pool(frames) ? "libstdc++" : NULL;
	for (size_t end = behind, before = 0; end > before;
	     before = end, end = behind_run(frames, end)) {
		const char *what = match_rules(frames, end - 1, has_streams);
		if (what)
			return what;
	}
	if (is_facet(frames))
		return "locale";
	/* nothing but the runtime, or the loader itself */
	enum module module = frames->items[0].module;
	return frames->has_end || module == MODULE_LOADER || is_constructor(frames, behind)
		       ? name_of(module)
		       : NULL;
}

static const char sites_sql[] =
	"SELECT stack_id FROM site WHERE run_id = :run AND live_blocks > exec_blocks";

/* Whether a stream of the program's own was left open, or something that may be one. */
static int find_streams(sqlite3 *db, int64_t run_id, sqlite3_stmt *row, bool *ret_has)
{
	auto_statement sqlite3_stmt *sites = report_sql_prepare(db, sites_sql, run_id, -1);
	struct frames frames;
	int code = SQLITE_DONE;

	*ret_has = false;
	while (sites && !*ret_has && (code = statement_advance(sites)) == SQLITE_ROW) {
		read_frames(&frames, row, sqlite3_column_int64(sites, 0));
		int entry = find_entry(&frames);
		const char *name = entry < 0 ? NULL : frames.items[entry].name;
		*ret_has = name && (is_among(makers, name) ||
				    (!*name && frames.items[entry].module == MODULE_C));
	}
	return sites && (code == SQLITE_DONE || *ret_has) ? 0 : -EPROTO;
}

static int insert_kept(sqlite3_stmt *stmt, int64_t stack_id, const char *what)
{
	sqlite3_reset(stmt);
	sqlite3_bind_int64(stmt, 1, stack_id);
	sqlite3_bind_text(stmt, 2, what, -1, SQLITE_STATIC);
	return statement_advance(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

static int fill_kept(sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *sites = report_sql_prepare(db, sites_sql, run_id, -1);
	auto_statement sqlite3_stmt *row = report_sql_prepare(
		db,
		"SELECT parent_id, coalesce((SELECT function FROM frame_line WHERE"
		" frame_line.frame_id = frame.id ORDER BY depth DESC LIMIT 1), function), path FROM"
		" stack LEFT JOIN frame ON frame.id = frame_id WHERE stack.id = ?",
		0, -1);
	auto_statement sqlite3_stmt *add =
		report_sql_prepare(db, "INSERT OR REPLACE INTO temp.kept VALUES (?, ?)", 0, -1);
	struct frames frames;
	bool has_streams = false;
	int code = SQLITE_DONE;
	int r = sites && row && add ? find_streams(db, run_id, row, &has_streams) : -EPROTO;

	while (r == 0 && (code = statement_advance(sites)) == SQLITE_ROW) {
		int64_t stack_id = sqlite3_column_int64(sites, 0);
		read_frames(&frames, row, stack_id);
		const char *what = what_of(&frames, has_streams);
		if (what)
			r = insert_kept(add, stack_id, what);
	}
	return r == 0 && code != SQLITE_DONE ? -EPROTO : r;
}

int kept_table(sqlite3 *db, int64_t run_id)
{
	static const char make_sql[] = "DROP TABLE IF EXISTS temp.kept;"
				       "CREATE TEMP TABLE kept(stack_id INTEGER PRIMARY KEY,"
				       " what TEXT NOT NULL)";

	if (sqlite3_exec(db, make_sql, NULL, NULL, NULL) != SQLITE_OK)
		return -EPROTO;
	return fill_kept(db, run_id);
}

struct suppressions {
	char **rules;
	size_t n;
	size_t n_allocated;
};

struct suppressions *suppressions_free(struct suppressions *suppressions)
{
	if (!suppressions)
		return NULL;
	array_free(suppressions->rules, suppressions->n, it, free(*it));
	free(suppressions);
	return NULL;
}

static void cleanup(struct suppressions **suppressions)
{
	*suppressions = suppressions_free(*suppressions);
}
#define auto_suppressions __attribute__((cleanup(cleanup)))

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* One line without its end. */
static int parse_line(struct suppressions *suppressions, const char *line, size_t n_bytes)
{
	static const char kind[] = "leak:";

	for (; n_bytes && is_blank(*line); line++)
		n_bytes--;
	while (n_bytes && is_blank(line[n_bytes - 1]))
		n_bytes--;
	if (n_bytes == 0 || *line == '#')
		return 0;
	if (n_bytes <= strlen(kind) || memcmp(line, kind, strlen(kind)) != 0 ||
	    memchr(line, '\0', n_bytes))
		return -EINVAL;

	int r = grow_one(&suppressions->rules, suppressions->n, &suppressions->n_allocated);
	if (r < 0)
		return r;
	char *rule = strndup(line + strlen(kind), n_bytes - strlen(kind));
	if (!rule)
		return -ENOMEM;
	suppressions->rules[suppressions->n++] = rule;
	return 0;
}

int suppressions_parse(const char *text, size_t n_bytes, struct suppressions **ret_suppressions,
		       unsigned *ret_line)
{
	auto_suppressions struct suppressions *suppressions = calloc(1, sizeof(*suppressions));
	const char *end = text + n_bytes;
	unsigned number = 0;

	if (!suppressions)
		return -ENOMEM;
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		const char *next = stop ? stop + 1 : end;
		number++;
		int r = parse_line(suppressions, text, (size_t)((stop ? stop : end) - text));
		if (r < 0) {
			*ret_line = number;
			return r;
		}
		text = next;
	}
	*ret_suppressions = steal_ptr(&suppressions);
	return 0;
}

int suppressions_read(const char *path, struct suppressions **ret_suppressions, unsigned *ret_line)
{
	auto_fclose FILE *file = fopen(path, "re");
	auto_free char *text = NULL;
	size_t n_allocated = 0;

	*ret_line = 0;
	if (!file)
		return -errno;
	/* Everything up to a NUL, which no such file has. */
	errno = 0;
	ssize_t n = getdelim(&text, &n_allocated, '\0', file);
	if (n < 0 && errno)
		return -errno;
	return suppressions_parse(text, n < 0 ? 0 : (size_t)n, ret_suppressions, ret_line);
}

/* The next piece of a pattern lies at the text's begin, or anywhere in it; then behind it. */
static const char *find_piece(const char *text, const char *piece, size_t n_bytes, bool is_first)
{
	if (is_first)
		return strncmp(text, piece, n_bytes) == 0 ? text + n_bytes : NULL;
	const char *found = n_bytes ? memmem(text, strlen(text), piece, n_bytes) : text;
	return found ? found + n_bytes : NULL;
}

bool suppressions_match(const char *pattern, const char *text)
{
	bool is_first = *pattern == '^';
	bool is_open = false; /* a * stands right before */

	if (!text || !*text)
		return false;
	pattern += is_first;
	while (*pattern) {
		size_t n_bytes = strcspn(pattern, "*$");
		if (*pattern == '*') {
			is_first = false;
			is_open = true;
			pattern++;
			continue;
		}
		if (*pattern == '$')
			return *text == '\0' || is_open;
		if (!*text)
			return false;
		text = find_piece(text, pattern, n_bytes, is_first);
		if (!text)
			return false;
		is_first = is_open = false;
		pattern += n_bytes;
	}
	return true;
}

static const char frames_sql[] =
	"WITH RECURSIVE path(id, parent_id, frame_id, depth) AS ("
	"  SELECT id, parent_id, frame_id, 0 FROM stack WHERE id = :run"
	"  UNION ALL SELECT stack.id, stack.parent_id, stack.frame_id, path.depth + 1"
	"  FROM path JOIN stack ON stack.id = path.parent_id WHERE path.depth < 1000)"
	" SELECT coalesce(frame_line.function, frame.function), file, path FROM path"
	" JOIN frame ON frame.id = frame_id LEFT JOIN frame_line USING (frame_id)";

/* The rule that matches any text of the row, or NULL. */
static const char *match_row(const struct suppressions *suppressions, sqlite3_stmt *row)
{
	for (size_t i = 0; i < suppressions->n; i++)
		for (int column = 0; column < 3; column++)
			if (suppressions_match(suppressions->rules[i],
					       statement_string_or_null(row, column)))
				return suppressions->rules[i];
	return NULL;
}

static const char *match_stack(const struct suppressions *suppressions, sqlite3_stmt *frames,
			       int64_t stack_id)
{
	const char *rule = NULL;

	sqlite3_reset(frames);
	sqlite3_bind_int64(frames, 1, stack_id);
	while (!rule && statement_advance(frames) == SQLITE_ROW)
		rule = match_row(suppressions, frames);
	return rule;
}

static int insert(sqlite3_stmt *stmt, int64_t stack_id, const char *rule)
{
	sqlite3_reset(stmt);
	sqlite3_bind_int64(stmt, 1, stack_id);
	sqlite3_bind_text(stmt, 2, rule, -1, SQLITE_STATIC);
	return statement_advance(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

static int fill_table(const struct suppressions *suppressions, sqlite3 *db, int64_t run_id)
{
	sqlite3_stmt *sites = report_sql_prepare(
		db, "SELECT stack_id FROM site WHERE run_id = :run AND live_blocks > exec_blocks",
		run_id, -1);
	sqlite3_stmt *frames = report_sql_prepare(db, frames_sql, 0, -1);
	auto_statement sqlite3_stmt *row = report_sql_prepare(
		db, "INSERT OR REPLACE INTO temp.suppressed VALUES (?, ?)", 0, -1);
	int r = sites && frames && row ? 0 : -EPROTO;

	while (r == 0 && statement_advance(sites) == SQLITE_ROW) {
		int64_t stack_id = sqlite3_column_int64(sites, 0);
		const char *rule = match_stack(suppressions, frames, stack_id);
		if (rule)
			r = insert(row, stack_id, rule);
	}
	sqlite3_finalize(sites);
	sqlite3_finalize(frames);
	return r;
}

int suppressions_table(const struct suppressions *suppressions, sqlite3 *db, int64_t run_id)
{
	static const char make_sql[] = "DROP TABLE IF EXISTS temp.suppressed;"
				       "CREATE TEMP TABLE suppressed(stack_id INTEGER PRIMARY KEY,"
				       " rule TEXT NOT NULL)";

	if (sqlite3_exec(db, make_sql, NULL, NULL, NULL) != SQLITE_OK)
		return -EPROTO;
	return suppressions ? fill_table(suppressions, db, run_id) : 0;
}
