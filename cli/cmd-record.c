/* memsight record, memsight attach, memsight detach */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/archive/archive.h"
#include "analyze/symbols/search-paths.h"
#include "cli/cmd-archive.h"
#include "cli/cmd.h"
#include "cli/copy-run.h"
#include "cli/database.h"
#include "cli/follow.h"
#include "cli/functions-table.h"
#include "cli/heimdallr-variables.h"
#include "cli/options/record-options.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/parse.h"
#include "report/report.h"
#include "runner/attach/attach.h"
#include "runner/run.h"
#include "schemas/trace-format.h"
#include "trace/names.h"

/*
 * The files that recorded processes have loaded, kept open while they are recorded: a container's
 * are gone with it, and a program may be replaced while it runs. One thread at a time.
 */

#define SPARE_FILES 128u /* that the recorder itself may need */

struct live_file {
	char *path;
	char *build_id; /* hex; "": not known */
	int fd;
};

struct live_files {
	struct live_file *items;
	size_t n;
	size_t max;
};

static struct live_files *live_files_create(void)
{
	struct live_files *files = calloc(1, sizeof(*files));
	struct rlimit limit = { .rlim_cur = 1024 };

	if (!files)
		return NULL;
	getrlimit(RLIMIT_NOFILE, &limit);
	files->max = limit.rlim_cur > 2 * SPARE_FILES ? (size_t)limit.rlim_cur - SPARE_FILES
						      : (size_t)limit.rlim_cur / 2;
	return files;
}

static struct live_files *live_files_destroy(struct live_files *files)
{
	if (!files)
		return NULL;
	array_free(files->items, files->n, it, free(it->path), free(it->build_id),
		   cleanup_close(&it->fd));
	free(files);
	return NULL;
}

static void live_files_cleanup(struct live_files **files)
{
	*files = live_files_destroy(*files);
}
#define auto_live_files __attribute__((cleanup(live_files_cleanup)))

/* By path alone where the build-id is not known: maps tell none. */
static struct live_file *find(const struct live_files *files, const char *path,
			      const char *build_id)
{
	return array_find(files->items, files->n, it,
			  strcmp(it->path, path) == 0 &&
				  (!build_id || strcmp(it->build_id, build_id) == 0));
}

static char *hex_of(const struct run_file *file)
{
	char *text = calloc(2 * file->build_id_bytes + 1, 1);

	for (size_t i = 0; text && i < file->build_id_bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", file->build_id[i]);
	return text;
}

/* As the process sees it; a relative path starts at its working folder. */
static int open_of_process(const struct run_file *file, const char *path)
{
	auto_free char *place = NULL;
	struct stat st;

	if (asprintf(&place, "/proc/%d/%s%s", (int)file->pid, path[0] == '/' ? "root" : "cwd/",
		     path) < 0)
		return -1;
	auto_close int fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? steal_fd(&fd) : -1;
}

/* For run_observer.loaded; user is the struct live_files. */
static void live_files_add(void *user, const struct run_file *file)
{
	struct live_files *files = user;
	struct live_file item = { .fd = -1 };

	item.path = strndup(file->path, file->path_bytes);
	item.build_id = hex_of(file);
	bool is_new = item.path && item.build_id && files->n < files->max && item.path[0] != '[' &&
		      !find(files, item.path, item.build_id);
	if (is_new)
		item.fd = open_of_process(file, item.path);
	if (item.fd >= 0 && grow_array_of(&files->items, files->n, 1, sizeof(*files->items)) == 0) {
		files->items[files->n++] = item;
		return;
	}
	cleanup_close(&item.fd);
	free_all(item.path, item.build_id);
}

/* For symbol_places.open_loaded. */
static int live_files_open(void *user, const char *path, const char *build_id)
{
	const struct live_file *file = find(user, path, build_id);
	char place[64];

	if (!file)
		return -1;
	/* Not dup(): its position would be shared. */
	snprintf(place, sizeof(place), "/proc/self/fd/%d", file->fd);
	return open(place, O_RDONLY | O_CLOEXEC);
}

/* What the observer's functions need. */
struct saying {
	const struct option_set *options;
	const struct heimdallr *heimdallr;
	bool has_started;
};

/* Options that nobody gave who typed the command. A folder's file cannot keep itself secret. */
static void say_files(const struct option_set *options)
{
	static const enum option_origin files[] = { OPTION_FROM_FOLDER_FILE,
						    OPTION_FROM_USER_FILE };
	bool is_quiet = option_flag(options, OPTION_QUIET);
	bool is_said = is_quiet && option_origin(options, OPTION_QUIET) == OPTION_FROM_FOLDER_FILE;
	char text[512];

	for (size_t i = 0; (!is_quiet || is_said) && i < sizeof(files) / sizeof(*files); i++) {
		option_words_from(options, files[i], text, sizeof(text));
		if (*text)
			cmd_warn("options of %s:%s", option_origin_name(files[i]), text);
	}
}

static void say_start(void *user, const struct run_start *start)
{
	struct saying *saying = user;
	const char *heap = option_text(saying->options, OPTION_HEAP);
	const char *obeyed = saying->heimdallr->obeyed;
	char more[48] = "";

	saying->has_started = true;
	say_files(saying->options);
	if (option_flag(saying->options, OPTION_QUIET))
		return;
	if (start->n_more)
		snprintf(more, sizeof(more), " and %zu more", start->n_more);
	cmd_warn("recording %s (pid %d%s) to %s: %s%s%s%s%s", start->program, (int)start->pid, more,
		 start->output, start->sources, heap ? "; heap " : "", heap ? heap : "",
		 *obeyed ? "; set by " : "", obeyed);
}

static void say_line(void *user, const char *line)
{
	(void)user;
	cmd_warn("%s", line);
}

#define FULL_SOON_S   86400.0 /* what is further away is no news */
#define LEAST_ROOM_NS UINT64_C(5000000) /* of --last: less is no part that anybody wants */

/* What comes of it at the rate of the last lines: "", or a clause. */
static void outlook_text(const struct run_progress *progress, char *text, size_t n_bytes)
{
	double left_s = progress->end_ns > progress->wall_ns
				? (double)(progress->end_ns - progress->wall_ns) / 1e9
				: 0;
	double rate = (double)progress->n_new_bytes * 1e9 / (double)progress->new_ns;
	double full_s = rate > 0 && progress->room_bytes != UINT64_MAX
				? (double)progress->room_bytes / rate
				: FULL_SOON_S;

	text[0] = '\0';
	if (full_s < FULL_SOON_S && (left_s == 0 || full_s < left_s))
		snprintf(text, n_bytes, "; at this rate it stops in %s: %s",
			 format_duration((int64_t)(full_s * 1e9)).text, progress->room_reason);
	else if (left_s > 0)
		snprintf(text, n_bytes, "; at this rate %s at the end, in %s",
			 format_bytes((int64_t)((double)progress->file_bytes + rate * left_s)).text,
			 format_duration((int64_t)(left_s * 1e9)).text);
}

static void say_progress(void *user, const struct run_progress *progress)
{
	double rate = (double)progress->n_new_bytes * 1e9 / (double)progress->new_ns;
	char outlook[200];

	(void)user;
	outlook_text(progress, outlook, sizeof(outlook));
	cmd_warn("%s: %s events, %s samples and faults, %s of trace, %s a second%s",
		 format_duration((int64_t)progress->wall_ns).text,
		 format_count((int64_t)progress->n_events).text,
		 format_count((int64_t)progress->n_samples).text,
		 format_bytes((int64_t)progress->file_bytes).text, format_bytes((int64_t)rate).text,
		 outlook);
}

/* A count with commas: 4,210,233. */
static const char *grouped(uint64_t number, char text[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, number);
	char *to = text;

	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return text;
}

static const char *size_text(uint64_t bytes, char text[32])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit < sizeof(units) / sizeof(units[0]) - 1) {
		value /= 1024;
		unit++;
	}
	snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

/* ", 2 not traced: ping (setuid), busybox (static)"; "" when all are. */
static void untraced_text(const struct run_summary *summary, char *text, size_t n_bytes)
{
	const char *before = ": ";
	size_t n = 0;

	text[0] = '\0';
	if (summary->n_processes > summary->n_traced)
		n = (size_t)snprintf(text, n_bytes, ", %u not traced",
				     summary->n_processes - summary->n_traced);
	for (unsigned why = 1; why < TRACE_NOT_COUNT && n < n_bytes; why++) {
		if (!summary->n_why_not[why])
			continue;
		n += (size_t)snprintf(text + n, n_bytes - n, "%s%s (%s)", before,
				      summary->why_not_example[why], trace_why_not_name(why));
		before = ", ";
	}
}

/* SIGKILL has two senders, of whom one says so elsewhere. */
static void say_signal(int number)
{
	const char *name = sigabbrev_np(number);

	cmd_warn("the program was ended by a signal: %s%s (exit status %d)%s", name ? "SIG" : "",
		 name ? name : strsignal(number), 128 + number,
		 number == SIGKILL ? "; dmesg says whether the kernel did it for want of memory"
				   : "");
}

/* The report or the limit that answers what was asked for, by functions or a preset. */
static void say_next(const char *trace, const struct option_set *options)
{
	enum option_choice preset = option_choice(options, OPTION_PRESET);
	const char *check = option_preset_words(preset, COMMAND_CHECK);
	const char *report = functions_report(options);

	if (!report)
		report = option_preset_words(preset, COMMAND_REPORT);
	if (report || !check)
		cmd_warn("next: memsight report %s%s%s", trace, report ? " " : "",
			 report ? report : "");
	else
		cmd_warn("next: memsight check %s %s", trace, check);
}

static void say_summary(const struct run_summary *summary, const struct run_options *run,
			const struct option_set *options)
{
	char events[32], samples[32], faults[32], losses[32], size[32], untraced[512],
		recorded[600];
	const char *before_faults = summary->has_faults ? ", " : "";

	untraced_text(summary, untraced, sizeof(untraced));
	snprintf(recorded, sizeof(recorded), "%s, %s %s", untraced,
		 grouped(summary->n_events, events),
		 run->functions ? "events of blocks and calls" : "allocation events");
	cmd_warn("%.1f s, %u process%s%s, %s samples%s%s%s, %s "
		 "lost; %s of trace",
		 (double)summary->wall_ns / 1e9, summary->n_processes,
		 summary->n_processes == 1 ? "" : "es",
		 run->no_alloc ? ", no allocations (--no-alloc)" : recorded,
		 grouped(summary->n_samples, samples), before_faults,
		 summary->has_faults ? grouped(summary->n_faults, faults) : "",
		 summary->has_faults ? " page faults" : "", grouped(summary->n_losses, losses),
		 size_text(summary->file_bytes, size));
	if (summary->wait_ns > 1000000)
		cmd_warn("the program waited %.1f ms for the recorder "
			 "(a larger --buffer-size helps)",
			 (double)summary->wait_ns / 1e6);
	if (summary->n_cut_off)
		cmd_warn("--last %s: %s earlier events are not in the trace; what lived then is",
			 run->last, grouped(summary->n_cut_off, events));
	if (summary->last_room_ns >= LEAST_ROOM_NS)
		cmd_warn("--last %s: there was room for the last %.2f s of it", run->last,
			 (double)summary->last_room_ns / 1e9);
	else if (summary->last_room_ns)
		cmd_warn("--last %s: the disk had no room for all of its end: the report says "
			 "what is left out",
			 run->last);
	if (summary->n_below_min)
		cmd_warn("%s blocks below --min-size were counted, not recorded",
			 grouped(summary->n_below_min, events));
	if (run->null_sink)
		cmd_warn("--sink null: hooks ran, and none of their events was stored");
	if (summary->wait_status >= 0 && WIFSIGNALED(summary->wait_status))
		say_signal(WTERMSIG(summary->wait_status));
	if (summary->n_before)
		cmd_warn("%s blocks were there before, and are among the events",
			 grouped(summary->n_before, events));
	if (summary->has_left)
		cmd_warn("the program runs on as before; the recording library stays mapped and "
			 "does nothing");
	if (summary->was_let_go)
		cmd_warn("the program runs on, unrecorded");
	say_next(summary->output, options);
}

static void print_report(const char *trace, struct db *db, FILE *file, const char *where)
{
	struct report_request request = {
		.format = TABLE_TEXT,
		.width = database_text_width(fileno(file)),
		.name = trace,
	};
	int r = report_run_find(db_handle(db), NULL, &request.run_id);

	r = r ?: report_write(file, db_handle(db), report_find("summary"), &request);
	if (r < 0)
		cmd_fail("cannot report on %s: %s", trace,
			 r == -EPROTO ? sqlite3_errmsg(db_handle(db)) : strerror(-r));
	else if (fflush(file) != 0)
		cmd_fail("cannot write %s: %s", where, strerror(errno));
}

/* --report: where is a file, or "-" for standard error; the standard output is the program's. */
static void report(const char *trace, const struct option_set *options)
{
	const char *where = option_text(options, OPTION_REPORT);
	auto_fclose FILE *own = strcmp(where, "-") == 0 ? NULL : fopen(where, "w");
	struct db *db = NULL;

	if (!own && strcmp(where, "-") != 0)
		cmd_fail("cannot write %s: %s", where, strerror(errno));
	else if (database_open(trace, options, &db) == CMD_DONE)
		print_report(trace, db, own ? own : stderr, where);
	db_close(db);
}

/* --archive: out of files that were kept open, else as they lie there. */
static void archive(const char *trace, struct live_files *files, bool is_quiet)
{
	const struct symbol_places places = {
		.open_loaded = files ? live_files_open : NULL,
		.files = files,
	};

	cmd_archive_trace(trace, NULL, &places, is_quiet);
}

/*
 * When the trace is analysed. What runs beside the program may cost it some of its caches: who
 * wants that says so. What changes at the end cannot be read before it.
 */
static enum option_choice analyze_when(const struct option_set *options)
{
	bool is_asked = option_origin(options, OPTION_ANALYZE) > OPTION_FROM_DEFAULT;
	const char *why = option_text(options, OPTION_LAST)	 ? "--last: the trace is cut"
			  : option_flag(options, OPTION_ARCHIVE) ? "--archive: symbols are packed"
								 : NULL;

	if (!is_asked && option_text(options, OPTION_REPORT))
		return CHOICE_ANALYZE_AFTER;
	if (option_choice(options, OPTION_ANALYZE) != CHOICE_ANALYZE_BESIDE || !why)
		return option_choice(options, OPTION_ANALYZE);
	if (!option_flag(options, OPTION_QUIET))
		cmd_warn("%s at the end, so it is analysed after it", why);
	return CHOICE_ANALYZE_AFTER;
}

/* --analyze: whoever opens the trace next finds its database. */
static void make_database(const char *trace, const struct option_set *options)
{
	struct db *db = NULL;

	if (database_open(trace, options, &db) == CMD_DONE && !option_flag(options, OPTION_QUIET))
		cmd_warn("it is analysed: report, view and query answer at once");
	db_close(db);
}

/* Record, say it, and do what options ask for at the end. The exit status. */
static int record_once(struct run_options *run, struct saying *saying)
{
	const struct option_set *options = saying->options;
	const char *name = option_command(options->command)->name;
	auto_live_files struct live_files *files =
		option_flag(options, OPTION_ARCHIVE) ? live_files_create() : NULL;
	struct follow follow = FOLLOW_CLOSED;
	struct run_observer observer = {
		.user = saying,
		.started = say_start,
		.warn = say_line,
		.progress = say_progress,
		.loaded = files ? live_files_add : NULL,
		.files = files,
		.follower = &follow,
	};
	struct run_summary summary;
	char message[OPTION_MESSAGE_BYTES];

	if (option_flag(options, OPTION_ARCHIVE))
		run->beside = ARCHIVE_SUFFIX;
	if (run_check(run, message, sizeof(message)) < 0)
		return cmd_usage("%s: %s", name, message);
	if (option_text(options, OPTION_REPORT) &&
	    cmd_check_new(option_text(options, OPTION_REPORT), options) != CMD_DONE)
		return CMD_FAILED;
	const enum option_choice when = analyze_when(options);
	if (when == CHOICE_ANALYZE_BESIDE)
		follow_start(options, &follow);
	run->follower = follow.process.pid > 0 ? follow.process.pid : 0;
	observer.grown = run->follower ? follow_grown : NULL;
	int r = run_record(run, &observer, &summary);
	if (summary.problem[0])
		cmd_fail("%s", summary.problem);
	if (r == 0 && !option_flag(options, OPTION_QUIET))
		say_summary(&summary, run, options);
	follow_finish(&follow);
	if (r < 0)
		return summary.exit_status;
	if (option_flag(options, OPTION_ARCHIVE))
		archive(summary.output, files, option_flag(options, OPTION_QUIET));
	if (option_text(options, OPTION_REPORT))
		report(summary.output, options);
	else if (when != CHOICE_ANALYZE_NO)
		make_database(summary.output, options);
	return summary.exit_status;
}

static int record_run(struct run_options *run, const struct option_set *options,
		      const struct heimdallr *heimdallr)
{
	struct saying saying = { .options = options, .heimdallr = heimdallr };
	int status = record_once(run, &saying);

	return saying.has_started ? status : copy_run_unrecorded(options, status);
}

/* A time that an option gives, in ns; 0 without. CMD_USAGE: it is none. */
static int read_time(const struct option_set *options, enum option_id id, uint64_t *ret_ns)
{
	const char *text = option_text(options, id);
	int64_t ns = 0;

	if (text && (parse_duration(text, &ns) < 0 || ns <= 0))
		return cmd_usage("--%s: '%s' is no time such as 30s or 500ms", option_row(id)->name,
				 text);
	*ret_ns = (uint64_t)ns;
	return CMD_DONE;
}

#define ATTACH_PROGRESS_NS UINT64_C(10000000000)

/* What a process can be given only before it starts; 0: nothing of it was asked for here. */
static int refuse_too_late(const struct option_set *options)
{
	for (enum option_id id = 0; id < OPTION_COUNT; id++)
		if (option_origin(options, id) == OPTION_FROM_LINE && id != OPTION_ATTACH_PID &&
		    option_is_of(id, COMMAND_RECORD) && !option_is_of(id, COMMAND_ATTACH))
			return cmd_usage("record: --%s is for a program that is started; leave it "
					 "or -p PID|NAME out",
					 option_row(id)->name);
	return 0;
}

/* text says which processes, command[0] what each should run (NULL: any). The exit status. */
static int attach_to(const char *text, char **command, const struct option_set *options)
{
	const struct heimdallr none = { .n = 0 };
	struct run_options run = record_options_of(options);
	struct attach_wish wish = { .text = text, .rank = -1, .command = command[0] };
	char message[ATTACH_MESSAGE_BYTES];
	auto_free pid_t *pids = NULL;
	auto_functions_chosen struct functions_chosen chosen = { 0 };

	/* What a process can be given only before it starts. */
	run.command = NULL;
	if (read_time(options, OPTION_ATTACH_TIMEOUT, &run.attach_timeout_ns) != CMD_DONE ||
	    read_time(options, OPTION_DURATION, &run.duration_ns) != CMD_DONE ||
	    read_time(options, OPTION_PROGRESS, &run.progress_ns) != CMD_DONE)
		return CMD_USAGE;
	if (run.progress_ns == 0 && isatty(STDERR_FILENO) && !option_flag(options, OPTION_QUIET))
		run.progress_ns = ATTACH_PROGRESS_NS;
	if (option_origin(options, OPTION_RANK) > OPTION_FROM_DEFAULT)
		wish.rank = (int64_t)option_number(options, OPTION_RANK);
	if (attach_find(&wish, &pids, &run.n_attach, message) < 0)
		return cmd_fail("%s", message);
	run.attach_pids = pids;
	int r = functions_choose(options, &(struct functions_of){ text, pids, run.n_attach }, false,
				 &chosen, &run.functions);
	return r != CMD_DONE ? r : record_run(&run, options, &none);
}

int cmd_record(const struct option_set *given)
{
	auto_heimdallr struct heimdallr heimdallr = { .n = 0 };
	struct option_set all = *given;
	int r = heimdallr_read(&all, &heimdallr);
	auto_functions_chosen struct functions_chosen chosen = { 0 };

	if (r < 0)
		return cmd_usage("record: %s", r == -EINVAL ? all.message : strerror(-r));
	if (option_flag(&all, OPTION_FUNCTIONS_DRY_RUN))
		return functions_dry_run(&all);
	if (option_text(&all, OPTION_ATTACH_PID) && (r = refuse_too_late(&all)) != 0)
		return r;
	if (option_text(&all, OPTION_ATTACH_PID))
		return attach_to(option_text(&all, OPTION_ATTACH_PID), all.operands, &all);
	if (option_text(&all, OPTION_DURATION) || option_flag(&all, OPTION_CHILDREN) ||
	    option_origin(&all, OPTION_RANK) > OPTION_FROM_DEFAULT)
		return cmd_usage("record: --duration, --rank and --children go with -p PID|NAME");
	struct run_options run = record_options_of(&all);
	if (read_time(&all, OPTION_PROGRESS, &run.progress_ns) != CMD_DONE)
		return CMD_USAGE;
	r = functions_choose(&all, &(struct functions_of){ .name = all.operands[0] }, false,
			     &chosen, &run.functions);
	return r != CMD_DONE ? copy_run_unrecorded(&all, r) : record_run(&run, &all, &heimdallr);
}

int cmd_attach(const struct option_set *options)
{
	return attach_to(options->operands[0], options->operands + 1, options);
}

static int detach(pid_t pid, uint64_t timeout_ns, const struct option_set *options)
{
	const struct attach_order order = { .pid = pid, .timeout_ns = timeout_ns };
	char message[ATTACH_MESSAGE_BYTES];
	struct attach_outcome outcome;
	size_t n_kept = 0, n_left = 0;

	if (attach_check(pid, message) < 0)
		return cmd_fail("%s", message);
	if (!attach_has_library(pid))
		return cmd_fail("memsight is not attached to process %d", (int)pid);
	if (attach_leave(&order, &outcome) < 0)
		return cmd_fail("%s", outcome.message);
	if (outcome.family.root == pid)
		n_kept = attach_leave_family(&outcome.family, timeout_ns, &n_left);
	if (n_kept > 0)
		return cmd_fail("process %d is left, but %zu that it was forked into are not: "
				"`memsight detach' of them tries again",
				(int)pid, n_kept);
	if (n_left > 0 && !option_flag(options, OPTION_QUIET))
		cmd_warn("%zu processes that were forked from process %d are left", n_left,
			 (int)pid);
	if (!option_flag(options, OPTION_QUIET))
		cmd_warn("process %d is left: %u places in tables put back, its %u threads stood "
			 "for %.1f ms",
			 (int)pid, outcome.n_slots, outcome.n_threads,
			 (double)outcome.stood_ns / 1e6);
	return CMD_DONE;
}

int cmd_detach(const struct option_set *options)
{
	const struct attach_wish wish = { .text = options->operands[0], .rank = -1 };
	char message[ATTACH_MESSAGE_BYTES];
	auto_free pid_t *pids = NULL;
	int status = CMD_DONE;
	uint64_t timeout_ns;
	size_t n;

	if (read_time(options, OPTION_ATTACH_TIMEOUT, &timeout_ns) != CMD_DONE)
		return CMD_USAGE;
	if (attach_find(&wish, &pids, &n, message) < 0)
		return cmd_fail("%s", message);
	for (size_t i = 0; i < n; i++) {
		int own = detach(pids[i], timeout_ns, options);

		status = own == CMD_DONE ? status : own;
	}
	return status;
}
