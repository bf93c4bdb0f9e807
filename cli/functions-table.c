#include "cli/functions-table.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/functions/allocator-entries.h"
#include "analyze/functions/loaded-files.h"
#include "cli/cmd.h"
#include "cli/database.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "report/text/table.h"
#include "runner/attach/attach.h"
#include "runner/processes/image-proc.h"
#include "runner/run-command.h"
#include "runner/sampling/sampling.h"
#include "schemas/recording.h"
#include "schemas/ring.h"

#define MAX_NAMED 3 /* names of a list that are in no file */

/* The options that choose, by the kind of expression that they take. */
static const struct {
	enum option_id id;
	enum function_expression kind;
} expressions[] = {
	{ OPTION_FUNCTION_INCLUDE, FUNCTION_INCLUDE },
	{ OPTION_FUNCTION_EXCLUDE, FUNCTION_EXCLUDE },
	{ OPTION_MODULE_INCLUDE, MODULE_INCLUDE },
	{ OPTION_MODULE_EXCLUDE, MODULE_EXCLUDE },
};

#define N_EXPRESSIONS (sizeof(expressions) / sizeof(expressions[0]))

/* Those that choose functions. */
static const enum option_id ids[] = {
	OPTION_FUNCTION_INCLUDE, OPTION_FUNCTION_EXCLUDE, OPTION_MODULE_INCLUDE,
	OPTION_MODULE_EXCLUDE,	 OPTION_FUNCTION_LIST,	  OPTION_COLLECTION,
	OPTION_MIN_INSTRUCTIONS, OPTION_ALLOC_FUNCTION,	  OPTION_ALLOCATORS,
};

/* Those of allocators. */
static bool is_allocator(enum option_id id)
{
	return id == OPTION_ALLOC_FUNCTION || id == OPTION_ALLOCATORS;
}

static bool chooses_functions(const struct option_set *options)
{
	return array_find(ids, COUNT_OF(ids), it,
			  option_origin(options, *it) > OPTION_FROM_DEFAULT);
}

const char *functions_report(const struct option_set *options)
{
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (!is_allocator(ids[i]) && option_origin(options, ids[i]) > OPTION_FROM_DEFAULT)
			return "--functions";
	return chooses_functions(options) || option_text(options, OPTION_USDT_FROM) ? "--pools"
										    : NULL;
}

static bool is_by_uprobes(const struct option_set *options)
{
	return option_choice(options, OPTION_FUNCTION_METHOD) == CHOICE_FUNCTION_METHOD_UPROBE;
}

/* What goes with functions only, and with what of it. `report' is that of functions_report(). */
static int check_method(const struct option_set *options, const char *report)
{
	bool has_functions = report && strcmp(report, "--functions") == 0;
	bool is_steered =
		option_choice(options, OPTION_FUNCTION_MODE) == CHOICE_FUNCTION_MODE_REGION;
	const struct {
		bool is_asked;
		const char *name;
		const char *does;
	} rows[] = {
		{ option_flag(options, OPTION_TRIPS_ONLY), "--trips-only", "counts calls of" },
		{ is_steered, "--mode", "is for" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].is_asked && !has_functions)
			return cmd_usage("%s %s functions that are chosen, as by "
					 "--function-include",
					 rows[i].name, rows[i].does);
		if (rows[i].is_asked && is_by_uprobes(options))
			return cmd_usage("%s and --function-method uprobe exclude each other: the "
					 "kernel tells of each call",
					 rows[i].name);
	}
	if (is_by_uprobes(options) && !has_functions)
		return cmd_usage("--function-method is for functions that are chosen, as by "
				 "--function-include");
	if (is_steered && option_flag(options, OPTION_TRIPS_ONLY))
		return cmd_usage(
			"--mode region and --trips-only exclude each other: who only counts "
			"does not look at pauses");
	return CMD_DONE;
}

/* What --usdt-from does not go with. */
static int check_probes(const struct option_set *options)
{
	if (option_flag(options, OPTION_NO_ALLOC))
		return cmd_usage("--usdt-from needs the library that --no-alloc leaves "
				 "out");
	if (option_size(options, OPTION_SAMPLE_BYTES))
		return cmd_usage("--usdt-from and --sample-bytes exclude each other: of "
				 "blocks in blocks of malloc these must be known");
	if (option_origin(options, OPTION_EVENTS) > OPTION_FROM_DEFAULT &&
	    !(option_words(options, OPTION_EVENTS) & RING_EVENTS_HEAP))
		return cmd_usage("--usdt-from needs `heap' among --events");
	return CMD_DONE;
}

int functions_check(const struct option_set *options, bool *ret_is_chosen)
{
	*ret_is_chosen = false;
	if (option_flag(options, OPTION_FUNCTIONS_DRY_RUN))
		return CMD_DONE;
	if (option_text(options, OPTION_USDT_FROM)) {
		int r = check_probes(options);

		if (r != CMD_DONE)
			return r;
		*ret_is_chosen = true;
	}
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		if (option_origin(options, ids[i]) <= OPTION_FROM_DEFAULT)
			continue;
		bool is_alloc = is_allocator(ids[i]);
		*ret_is_chosen = true;
		if (is_by_uprobes(options) && !is_alloc)
			continue;
		if (option_flag(options, OPTION_NO_ALLOC))
			return cmd_usage("--%s needs the library that --no-alloc leaves out%s",
					 option_row(ids[i])->name,
					 is_alloc ? "" : "; --function-method uprobe does not");
		if (option_origin(options, OPTION_EVENTS) > OPTION_FROM_DEFAULT &&
		    !(option_words(options, OPTION_EVENTS) &
		      (is_alloc ? RING_EVENTS_HEAP : RING_EVENTS_REGIONS)))
			return cmd_usage("--%s needs `%s' among --events", option_row(ids[i])->name,
					 is_alloc ? "heap" : "regions");
	}
	if (option_origin(options, OPTION_FUNCTIONS_FORMAT) > OPTION_FROM_DEFAULT)
		return cmd_usage("record: --format is that of --functions-dry-run");
	return check_method(options, functions_report(options));
}

/* ---- What is meant ---- */

static int add_expressions(struct function_choice *choice, const struct option_set *options)
{
	char message[FUNCTION_MESSAGE_BYTES];

	for (size_t i = 0; i < N_EXPRESSIONS; i++) {
		const char *const *texts = option_texts(options, expressions[i].id);

		for (; texts && *texts; texts++) {
			int r = function_choice_add(choice, expressions[i].kind, *texts, message);

			if (r == -EINVAL)
				return cmd_usage("--%s: %s", option_row(expressions[i].id)->name,
						 message);
			if (r < 0)
				return cmd_fail("%s", strerror(-r));
		}
	}
	return CMD_DONE;
}

static int add_lists(struct function_choice *choice, const struct option_set *options)
{
	const char *const *paths = option_texts(options, OPTION_FUNCTION_LIST);
	uint32_t sets = option_words(options, OPTION_COLLECTION);
	char message[FUNCTION_MESSAGE_BYTES] = "out of memory";

	for (; paths && *paths; paths++) {
		int r = function_choice_add_file(choice, *paths, message);

		if (r < 0)
			return cmd_fail("--function-list: %s", message);
	}
	for (unsigned i = 0; sets >> i; i++) {
		enum option_choice set = (enum option_choice)(CHOICE_COLLECTION_MEMORY + i);

		if (sets >> i & 1 &&
		    function_choice_add_collection(choice, option_choice_name(set), message) < 0)
			return cmd_fail("--collection: %s", message);
	}
	return CMD_DONE;
}

static int add_allocators(struct function_choice *choice, const struct option_set *options)
{
	const char *const *texts = option_texts(options, OPTION_ALLOC_FUNCTION);
	uint32_t sets = option_words(options, OPTION_ALLOCATORS);
	char message[FUNCTION_MESSAGE_BYTES] = "out of memory";

	for (; texts && *texts; texts++) {
		int r = function_choice_add_rule(choice, *texts, message);

		if (r == -EINVAL)
			return cmd_usage("--alloc-function: %s", message);
		if (r < 0)
			return cmd_fail("%s", strerror(-r));
	}
	for (unsigned i = 0; sets >> i; i++) {
		enum option_choice set = (enum option_choice)(CHOICE_ALLOCATORS_APR + i);

		if (sets >> i & 1 &&
		    function_choice_add_allocator(choice, option_choice_name(set), message) < 0)
			return cmd_fail("--allocators: %s", message);
	}
	return CMD_DONE;
}

static const char no_names[] =
	"names of stripped files are not known: MODULE!0x1234 is the function "
	"at that address; the C library's are meant by libc!NAME, and its malloc is recorded "
	"without this";
static const char no_such_file[] = "neither the program nor a library of it is called so";

/* Of a set that comes with memsight the program may have a part, or none. */
static int check_rules(const struct function_choice *choice)
{
	const char *nearest = NULL, *set = NULL, *text;
	size_t at = 0;

	while ((text = function_choice_unmatched_rule(choice, &at, &set, &nearest))) {
		if (set)
			cmd_warn("the program and its libraries have no function of --allocators "
				 "%s",
				 set);
		else if (nearest)
			return cmd_fail("no function matches --alloc-function '%s'; is %s "
					"meant?",
					text, nearest);
		else
			return cmd_fail("no function matches --alloc-function '%s' (%s)", text,
					strstr(text, "!0x") ? no_such_file : no_names);
	}
	return CMD_DONE;
}

/* What has matched nothing. An expression is a mistake; of a list a name may be of another file. */
static int check_matches(const struct function_choice *choice)
{
	const char *nearest = NULL;
	bool is_expression = false;
	const char *text;
	char names[256] = "";
	size_t n_names = 0;
	size_t at = 0;

	while ((text = function_choice_unmatched(choice, &at, &is_expression, &nearest))) {
		if (is_expression && nearest)
			return cmd_fail("no function matches --function-include '%s'; is %s "
					"meant?",
					text, nearest);
		if (is_expression)
			return cmd_fail("no function matches --function-include '%s' (%s)", text,
					strstr(text, "!0x") ? no_such_file : no_names);
		if (n_names++ < MAX_NAMED)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.70s",
				 *names ? ", " : "", text);
	}
	if (n_names)
		cmd_warn("%zu line%s of --function-list match%s no function: %s%s", n_names,
			 n_names == 1 ? "" : "s", n_names == 1 ? "es" : "", names,
			 n_names > MAX_NAMED ? " ..." : "");
	return CMD_DONE;
}

/* "all", or file names with commas between: does one of them match this path's? */
static bool names_file(const char *list, const char *path)
{
	auto_free char *copy = list ? strdup(list) : NULL;
	char *rest = copy, *name;

	while ((name = strsep(&rest, ",")))
		if (strcmp(name, "all") == 0 || fnmatch(name, text_base_name(path), 0) == 0)
			return true;
	return false;
}

/* Is it a plug-in of --load, which a process may have mapped from before? */
static bool is_plugin(const struct option_set *options, const char *path)
{
	const char *const *plugins = option_texts(options, OPTION_LOAD);
	struct stat own, other;

	for (; plugins && *plugins; plugins++)
		if (stat(path, &own) == 0 && stat(*plugins, &other) == 0 &&
		    own.st_dev == other.st_dev && own.st_ino == other.st_ino)
			return true;
	return false;
}

static int find_all(struct function_choice *choice, const struct loaded_files *files,
		    const struct option_set *options, struct found_functions *found)
{
	struct functions_wish wish = {
		.choice = choice,
		.min_instructions = option_number(options, OPTION_MIN_INSTRUCTIONS),
		.by_uprobes = is_by_uprobes(options),
	};

	if (files->missing[0])
		cmd_warn("%s is not found: its functions are not listed", files->missing);
	for (size_t i = 0; i < files->n; i++) {
		if (strstr(files->paths[i], RECORDING_LIBRARY) ||
		    is_plugin(options, files->paths[i]))
			continue;
		wish.probes = names_file(option_text(options, OPTION_USDT_FROM), files->paths[i]);
		int r = functions_find(&wish, files->paths[i], found);
		if (r == -ENOEXEC)
			cmd_warn("%s cannot be read as an ELF file", files->paths[i]);
		else if (r < 0)
			return cmd_fail("%s: %s", files->paths[i], strerror(-r));
	}
	return CMD_DONE;
}

/* The allocator of a static program, of which other programs have a library. */
static int find_entries(const struct loaded_files *files, struct allocator_entries *entries)
{
	int r = files->n == 1 ? allocator_entries_find(files->paths[0], entries) : 0;

	if (r < 0 && r != -ENOEXEC)
		return cmd_fail("record: %s: %s", files->paths[0], strerror(-r));
	if (!entries->is_static)
		allocator_entries_finish(entries);
	return CMD_DONE;
}

/* Has the choice met nothing but what must not be instrumented? */
static int check_found(const struct found_functions *found, const char *name, bool wants_probes)
{
	size_t n_needed = 0, n_functions = found->n - found->n_probes;

	for (size_t i = 0; i < found->n; i++)
		n_needed += found->items[i].code.why == CODE_WHY_NEEDED;
	if (wants_probes && found->n_probes == 0)
		return cmd_fail("no probe of an allocator is in %s and its libraries, "
				"where --usdt-from looks: otel_memory:alloc, memsight:alloc, "
				"memsight_alloc",
				name);
	if (wants_probes && n_functions == 0)
		return CMD_DONE;
	if (found->n == 0)
		return cmd_fail("none of the %zu functions of %s and its libraries is "
				"chosen",
				found->n_all, name);
	if (n_needed == n_functions)
		return cmd_fail("%s%s must not be instrumented: %s", found->items[0].name,
				n_needed > 1 ? " and all others chosen" : "",
				function_why_text(CODE_WHY_NEEDED));
	return CMD_DONE;
}

/* ---- The table ---- */

struct table {
	struct loaded_files files;
	struct found_functions found;
	struct allocator_entries entries; /* of a static program */
};

static void bind_entry(sqlite3_stmt *insert, const struct allocator_entry *entry, const char *file,
		       const char *libc)
{
	static const char *const origins[] = { "by name", "by its code" };
	char address[24], whose[64];

	snprintf(address, sizeof(address), "0x%" PRIx64, entry->address);
	snprintf(whose, sizeof(whose), "%s, %s", libc, origins[entry->origin]);
	sqlite3_bind_text(insert, 1, entry->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 2, whose, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(insert, 3, file, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 4, address, -1, SQLITE_TRANSIENT);
	sqlite3_bind_null(insert, 5);
	sqlite3_bind_text(insert, 6,
			  !entry->can_patch	  ? NULL
			  : entry->patch.is_short ? "short jump"
						  : "jump",
			  -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 7, entry->why_not, -1, SQLITE_STATIC);
}

static void bind_function(sqlite3_stmt *insert, const struct found_function *function)
{
	char address[24];

	snprintf(address, sizeof(address), "0x%" PRIx64, function->code.start);
	sqlite3_bind_text(insert, 1, function->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 2, function->module, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 3, function->file, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 4, address, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int64(insert, 5, function->code.n_instructions);
	sqlite3_bind_text(insert, 6, function_way_text(function->code.way), -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 7, function_why_text(function->code.why), -1, SQLITE_STATIC);
}

/* Tables are those of a database: one in memory. 0 or -EPROTO. */
static int fill(sqlite3 *db, const struct table *table)
{
	const struct allocator_entries *entries = &table->entries;
	const struct found_functions *found = &table->found;
	sqlite3_stmt *insert = NULL;

	if (sqlite3_exec(db,
			 "CREATE TABLE functions (function, module, file, address, "
			 "instructions, how, why_not); BEGIN",
			 NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, "INSERT INTO functions VALUES (?, ?, ?, ?, ?, ?, ?)", -1,
			       &insert, NULL) != SQLITE_OK)
		return -EPROTO;
	int r = SQLITE_DONE;
	for (size_t i = 0; r == SQLITE_DONE && i < entries->n; i++) {
		bind_entry(insert, &entries->items[i], table->files.paths[0],
			   allocator_libc_text(entries->libc));
		r = sqlite3_step(insert);
		sqlite3_reset(insert);
	}
	for (size_t i = 0; r == SQLITE_DONE && i < found->n; i++) {
		bind_function(insert, &found->items[i]);
		r = sqlite3_step(insert);
		sqlite3_reset(insert);
	}
	sqlite3_finalize(insert);
	return r == SQLITE_DONE ? 0 : -EPROTO;
}

static int print(const struct table *table, const struct option_set *options)
{
	static const enum table_kind kinds[] = { TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN,
						 TABLE_COUNT };
	struct table_style style = { .format = TABLE_TEXT, .kinds = kinds, .n_kinds = 5 };
	sqlite3_stmt *rows = NULL;
	sqlite3 *db = NULL;
	int r = -EPROTO;

	table_format_parse(option_choice_name(option_choice(options, OPTION_FUNCTIONS_FORMAT)),
			   &style.format);
	style.width = database_terminal_width(STDOUT_FILENO);
	if (sqlite3_open(":memory:", &db) == SQLITE_OK && fill(db, table) == 0 &&
	    sqlite3_prepare_v2(db, "SELECT * FROM functions ORDER BY rowid", -1, &rows, NULL) ==
		    SQLITE_OK)
		r = table_write(stdout, rows, &style, NULL);
	if (r == -EPROTO)
		cmd_fail("%s", sqlite3_errmsg(db));
	sqlite3_finalize(rows);
	sqlite3_close(db);
	if (r == 0 && fflush(stdout) != 0)
		r = -EIO;
	if (r == -EIO)
		cmd_fail("cannot write to standard output");
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

static void say_entries(const struct table *table)
{
	const struct allocator_entries *entries = &table->entries;

	if (!entries->is_static)
		return;
	if (entries->n > 0)
		cmd_warn("%s is static: of its allocator, %s, %zu functions were found %s",
			 text_base_name(table->files.paths[0]), allocator_libc_text(entries->libc),
			 entries->n,
			 entries->items[0].origin == ENTRY_BY_SIGNATURE ? "by how they are built"
									: "by name");
	if (entries->why[0])
		cmd_warn("%s is static: %s", text_base_name(table->files.paths[0]), entries->why);
}

static void say_sums(const struct found_functions *found)
{
	size_t n[CODE_WAY_NONE + 1] = { 0 };
	char what[96], how[48] = "";

	for (size_t i = 0; i < found->n; i++)
		n[found->items[i].code.way]++;
	if (found->n_probes == found->n)
		snprintf(what, sizeof(what), "%zu probes", found->n);
	else
		snprintf(what, sizeof(what), "%zu of %zu functions%s", found->n - found->n_probes,
			 found->n_all, found->n_probes ? " and all probes" : "");
	if (n[CODE_WAY_UPROBE])
		snprintf(how, sizeof(how), "%zu by uprobes, ", n[CODE_WAY_UPROBE]);
	cmd_warn("%s, in %zu file%s: %s%zu by nops, %zu by a jump, %zu by a short jump, %zu not "
		 "(%.1f %%)",
		 what, found->n_files, found->n_files == 1 ? "" : "s", how, n[CODE_WAY_NOPS],
		 n[CODE_WAY_JUMP], n[CODE_WAY_SHORT_JUMP], n[CODE_WAY_NONE],
		 100.0 * (double)n[CODE_WAY_NONE] / (double)found->n);
}

/* ---- Files ---- */

/* Those of a command that would be run. */
static int list_command(const char *command, struct loaded_files *files)
{
	char message[LOADED_MESSAGE_BYTES];
	char program[PATH_MAX];
	int r = run_command_find(command, program);

	if (r < 0) {
		run_command_explain(command, r, message, sizeof(message));
		return cmd_fail("cannot run %s: %s", command, message);
	}
	return loaded_files_list(program, files, message) < 0 ? cmd_fail("%s", message) : CMD_DONE;
}

#define EXEC_PATIENCE_MS 5000u

struct mapped {
	pid_t pid;
	struct loaded_files *files;
	size_t n_seen;
	size_t n_gone; /* that are not there any more, or not the same */
	int error;
};

/* A file of another mount namespace lies below the process' root. */
static void take_map(void *user, const struct image_map *map)
{
	struct mapped *mapped = user;
	auto_free char *inside = NULL;
	struct stat status;

	if (!(map->prot & PROT_EXEC) || map->path[0] != '/' || !map->inode)
		return;
	mapped->n_seen++;
	if (stat(map->path, &status) == 0 && status.st_ino == map->inode) {
		mapped->error |= loaded_files_add(mapped->files, map->path);
		return;
	}
	if (asprintf(&inside, "/proc/%d/root%s", (int)mapped->pid, map->path) < 0)
		mapped->error = -ENOMEM;
	else if (stat(inside, &status) == 0 && status.st_ino == map->inode)
		mapped->error |= loaded_files_add(mapped->files, inside);
	else
		mapped->n_gone++;
}

/*
 * In the midst of an exec a process has nothing mapped: whoever has started it knows already that
 * the exec went well, as files that it closes are closed by then.
 */
static int look_at_maps(struct mapped *mapped)
{
	int r = image_each_map(mapped->pid, take_map, mapped);

	for (unsigned ms = 0; r == 0 && mapped->n_seen == 0 && ms < EXEC_PATIENCE_MS; ms++) {
		usleep(1000);
		r = image_each_map(mapped->pid, take_map, mapped);
	}
	return r;
}

/* Those that processes have mapped, also by dlopen. */
static int list_processes(const pid_t *pids, size_t n, struct loaded_files *files)
{
	for (size_t i = 0; i < n; i++) {
		struct mapped mapped = { .pid = pids[i], .files = files };
		int r = look_at_maps(&mapped);

		if (r < 0 || mapped.error)
			return cmd_fail("cannot see what process %d has mapped: %s", (int)pids[i],
					strerror(-(r < 0 ? r : -ENOMEM)));
		if (mapped.n_gone)
			cmd_warn(
				"%zu file%s of process %d cannot be read any more, and %s left out",
				mapped.n_gone, mapped.n_gone == 1 ? "" : "s", (int)pids[i],
				mapped.n_gone == 1 ? "is" : "are");
	}
	return CMD_DONE;
}

/* entries: of a static program, too; or NULL. */
static int find(const struct option_set *options, const struct functions_of *of,
		struct loaded_files *files, struct found_functions *found,
		struct allocator_entries *entries)
{
	auto_function_choice struct function_choice *choice = NULL;
	const char *name = of->name;
	bool wants_probes = option_text(options, OPTION_USDT_FROM);
	bool wants_functions = chooses_functions(options) || !wants_probes;
	int r;

	if (wants_functions && function_choice_create(&choice) < 0)
		return cmd_fail("%s", strerror(ENOMEM));
	if ((wants_functions && ((r = add_expressions(choice, options)) != CMD_DONE ||
				 (r = add_lists(choice, options)) != CMD_DONE ||
				 (r = add_allocators(choice, options)) != CMD_DONE)) ||
	    (r = of->pids ? list_processes(of->pids, of->n, files) : list_command(name, files)) !=
		    CMD_DONE ||
	    (r = find_all(choice, files, options, found)) != CMD_DONE ||
	    (wants_functions &&
	     ((r = check_matches(choice)) != CMD_DONE || (r = check_rules(choice)) != CMD_DONE)))
		return r;
	if (entries && (r = find_entries(files, entries)) != CMD_DONE)
		return r;
	if (!entries || !entries->is_static || found->n_all > 0)
		return check_found(found, name, wants_probes);
	return entries->n > 0 ? CMD_DONE
			      : cmd_fail("%s is static and has no names of functions; %s", name,
					 entries->why);
}

static void finish_table(struct table *table)
{
	functions_finish(&table->found);
	allocator_entries_finish(&table->entries);
	loaded_files_finish(&table->files);
}
#define auto_table __attribute__((cleanup(finish_table)))

int functions_dry_run(const struct option_set *options)
{
	auto_table struct table table = { 0 };
	auto_functions_plan struct functions_plan plan = { 0 };
	const char *processes = option_text(options, OPTION_ATTACH_PID);
	struct functions_of of = { .name = processes ? processes : options->operands[0] };
	struct attach_wish wish = { .text = processes, .rank = -1 };
	char message[ATTACH_MESSAGE_BYTES];
	auto_free pid_t *pids = NULL;

	if (processes && attach_find(&wish, &pids, &of.n, message) < 0)
		return cmd_fail("%s", message);
	of.pids = pids;
	int r = find(options, &of, &table.files, &table.found, &table.entries);

	/* What cannot be moved after all is found out by moving it. */
	int planned = r == CMD_DONE ? functions_plan(&table.found, &plan) : 0;

	if (planned < 0)
		r = cmd_fail("the functions cannot be planned: %s", strerror(-planned));
	r = r ?: print(&table, options);
	if (r != CMD_DONE || option_flag(options, OPTION_QUIET))
		return r;
	say_entries(&table);
	if (table.found.n > 0)
		say_sums(&table.found);
	return r;
}

void functions_chosen_finish(struct functions_chosen *chosen)
{
	functions_plan_finish(&chosen->plan);
	functions_finish(&chosen->found);
	loaded_files_finish(&chosen->files);
}

static int plan_chosen(const struct option_set *options, const struct functions_of *of,
		       bool is_quiet, struct functions_chosen *chosen)
{
	struct found_functions *found = &chosen->found;
	struct functions_plan *plan = &chosen->plan;
	int r = find(options, of, &chosen->files, found, NULL);

	if (r != CMD_DONE)
		return r;
	const char *what = found->n_probes == found->n ? "probes"
			   : found->n_probes > 0       ? "functions and probes"
						       : "functions";
	r = functions_plan(found, plan);
	size_t n_planned = plan->n + plan->n_probed;

	if (r < 0)
		return cmd_fail("the functions cannot be planned: %s", strerror(-r));
	if (n_planned == 0)
		return cmd_fail("none of the %zu %s chosen can be instrumented: %s "
				"(--functions-dry-run lists why)",
				found->n, what, function_why_text(found->items[0].code.why));
	if (!is_quiet && n_planned < found->n)
		cmd_warn("%zu of %zu %s chosen cannot be instrumented "
			 "(--functions-dry-run lists why)",
			 found->n - n_planned, found->n, what);
	return CMD_DONE;
}

int functions_choose(const struct option_set *options, const struct functions_of *of, bool is_quiet,
		     struct functions_chosen *chosen, const struct run_functions **ret_functions)
{
	char message[512];
	bool is_chosen;
	int r = functions_check(options, &is_chosen);

	*ret_functions = NULL;
	if (r != CMD_DONE || !is_chosen)
		return r;
	if (is_by_uprobes(options) && samples_check_uprobes(message, sizeof(message)) < 0)
		return cmd_fail("%s", message);
	r = plan_chosen(options, of, is_quiet || option_flag(options, OPTION_QUIET), chosen);
	if (r != CMD_DONE)
		return r;
	chosen->functions = (struct run_functions){
		.plan_fd = chosen->plan.fd,
		.plan_bytes = chosen->plan.n_bytes,
		.names = chosen->plan.names,
		.n = chosen->plan.n,
		.trips_only = option_flag(options, OPTION_TRIPS_ONLY),
		.are_steered =
			option_choice(options, OPTION_FUNCTION_MODE) == CHOICE_FUNCTION_MODE_REGION,
		.uprobes = chosen->plan.uprobes,
		.n_uprobes = chosen->plan.n_uprobes,
		.probed = chosen->plan.probed,
		.n_probed = chosen->plan.n_probed,
	};
	*ret_functions = &chosen->functions;
	return CMD_DONE;
}
