#include "analyze/input/heimdallr/input-internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "schemas/ring.h"

/* Whether a word names the program of a run: runs.sh keeps letters, digits, "_" and "." of it. */
static bool is_program(const char *word, size_t n_bytes, const char *name)
{
	const char *end = word + n_bytes;
	const char *base = memrchr(word, '/', n_bytes);

	for (base = base ? base + 1 : word; base < end && *name; base++) {
		if (!isalnum((unsigned char)*base) && *base != '_' && *base != '.')
			continue;
		if (*base != *name++)
			return false;
	}
	return base == end && n_bytes > 0;
}

/* It stands behind what runs.sh puts before it: the last words with a "=" or of perf's. */
char *heimdallr_program(const char *command, const char *name)
{
	while (*command) {
		size_t n = strcspn(command, " ");
		if (is_program(command, n, name))
			return strndup(command, n);
		command += n + strspn(command + n, " ");
	}
	return strdup("");
}

static int add_run(struct heimdallr *heimdallr)
{
	const struct heimdallr_folder *folder = &heimdallr->folder;
	const struct import_name *name = &heimdallr->name.run;
	const char *program = name->program ? name->program : text_base_name(folder->path);
	auto_free char *arguments = strdup(folder->command);
	if (!arguments)
		return -ENOMEM;

	struct trace_run run = {
		.head.type = TRACE_RECORD_RUN,
		.start_unix_ns = (uint64_t)folder->command_unix_ns,
		.repetition = name->program ? name->repetition : 1,
	};
	for (char *at = arguments; (at = strchr(at, ' ')); at++)
		*at = '\0';
	return record_list_add(&heimdallr->records, &run, trace_text(program),
			       trace_text(name->program ? name->mode : "default"),
			       trace_bytes(arguments, strlen(folder->command)), trace_text(""));
}

static int add_fact(struct heimdallr *heimdallr, const char *key, const char *value)
{
	struct trace_fact fact = {
		.head.type = TRACE_RECORD_FACT,
		.ticks = heimdallr->start_ns,
	};

	return record_list_add(&heimdallr->records, &fact, trace_text(key), trace_text(value));
}

static int add_number_fact(struct heimdallr *heimdallr, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return add_fact(heimdallr, key, text);
}

static int add_clock(struct heimdallr *heimdallr, uint64_t time_ns)
{
	struct trace_clock clock = {
		.head.type = TRACE_RECORD_CLOCK,
		.ticks = time_ns,
		.raw_ns = time_ns,
	};

	return record_list_add(&heimdallr->records, &clock);
}

/*
 * When the image of a log began: what ran before its exec under the same pid (env, nice) was
 * another.
 */
static uint64_t birth_of(const struct heimdallr *heimdallr, size_t i)
{
	uint64_t allocated_ns =
		heimdallr->access ? heimdallr_access_birth(heimdallr->access, i) : 0;
	const struct heimdallr_thread *thread = &heimdallr->threads[i];
	bool is_before = thread->n == 0 || allocated_ns <= thread->events[0].ticks;

	return allocated_ns && is_before ? allocated_ns : heimdallr->start_ns;
}

/* The process of logs from first on. Its first thread is its main one, and has its pid. */
static int add_process(struct heimdallr *heimdallr, size_t first)
{
	const struct heimdallr_folder *folder = &heimdallr->folder;
	uint32_t pid = folder->n_logs ? folder->logs[first].tid : 0;
	struct trace_process process = {
		.head.type = TRACE_RECORD_PROCESS,
		.process_id = folder->n_logs ? folder->processes[first] : 1,
		.pid = pid,
		.ns_pid = pid,
		.birth = RING_BIRTH_EXEC,
		.why_not = folder->n_logs ? TRACE_TRACED : TRACE_NOT_FOLLOWED,
		.start_ticks = folder->n_logs ? birth_of(heimdallr, first) : heimdallr->start_ns,
	};

	return record_list_add(&heimdallr->records, &process, trace_text(heimdallr->program),
			       trace_text(""));
}

static int add_thread(struct heimdallr *heimdallr, size_t i)
{
	const struct heimdallr_log *log = &heimdallr->folder.logs[i];
	const struct heimdallr_thread *thread = &heimdallr->threads[i];
	struct trace_thread record = {
		.head.type = TRACE_RECORD_THREAD,
		.thread_id = (uint32_t)i + 1,
		.process_id = heimdallr->folder.processes[i],
		.tid = log->tid,
		.ns_tid = log->tid,
		.start_ticks = thread->n ? thread->events[0].ticks : heimdallr->start_ns,
		.is_main = log->id == 0,
	};

	return record_list_add(&heimdallr->records, &record, trace_text(""));
}

static int add_module(struct heimdallr *heimdallr, size_t i, uint32_t process)
{
	const struct heimdallr_library *library = &heimdallr->folder.libraries[i];
	const char *path = heimdallr_segments_path(heimdallr->segments, i);
	uint64_t base = heimdallr_library_base(library->number);
	struct trace_module module = {
		.head.type = TRACE_RECORD_MODULE,
		.ticks = heimdallr->start_ns,
		.bias = base,
		.start = base,
		.end = base + HEIMDALLR_LIBRARY_BYTES,
		.process_id = process,
	};

	return record_list_add(&heimdallr->records, &module, trace_text(""), trace_text(path));
}

/*
 * runs.sh starts a dry run by itself; its command says of others that log nothing how they were
 * started.
 */
static int add_modes(struct heimdallr *heimdallr)
{
	const struct heimdallr_folder *folder = &heimdallr->folder;
	bool is_traced = folder->n_logs > 0 || strstr(folder->command, "LD_PRELOAD=");
	bool is_sampled = folder->has_accesses || strstr(folder->command, "perf record");
	int r = add_fact(heimdallr, "memsight.alloc", is_traced ? "yes" : "no");

	return r < 0 ? r
		     : add_fact(heimdallr, "memsight.natural",
				is_traced || is_sampled ? "no" : "yes");
}

int heimdallr_begin_records(struct heimdallr *heimdallr)
{
	const struct heimdallr_folder *folder = &heimdallr->folder;
	int r = add_run(heimdallr) ?: add_clock(heimdallr, heimdallr->start_ns);

	if (r == 0 && heimdallr->access)
		r = heimdallr_access_clock(heimdallr->access, &heimdallr->records);
	r = r ?: add_fact(heimdallr, "imported_from", "Heimdallr") ?: add_modes(heimdallr);
	if (r == 0 && folder->min_bytes > 0)
		r = add_number_fact(heimdallr, "memsight.min_bytes", folder->min_bytes);
	for (size_t i = 0; i < folder->n_logs && r == 0; i++) {
		if (i == 0 || folder->processes[i] != folder->processes[i - 1])
			r = add_process(heimdallr, i);
	}
	if (r == 0 && folder->n_logs == 0 && !heimdallr->access)
		r = add_process(heimdallr, 0);
	for (size_t i = 0; i < folder->n_logs && r == 0; i++)
		r = add_thread(heimdallr, i);
	for (uint32_t process = 1; process <= folder->n_processes; process++) {
		for (size_t i = 0; i < folder->n_libraries && r == 0; i++)
			r = add_module(heimdallr, i, process);
	}
	return r;
}

/* ---- The end ---- */

static int add_log_losses(struct heimdallr *heimdallr, const struct heimdallr_log *log)
{
	char text[160];

	snprintf(
		text, sizeof(text),
		"lines of alloc_%u_%u.log that are none of Heimdallr's, the first is line %" PRIu64,
		log->id, log->tid, log->first_bad);
	int r = record_list_loss(&heimdallr->records, "heimdallr", text, log->n_bad);
	snprintf(text, sizeof(text),
		 "times of alloc_%u_%u.log that ran backwards (the "
		 "order of lines was kept), the first in "
		 "line %" PRIu64,
		 log->id, log->tid, log->first_backwards);
	return r < 0 ? r
		     : record_list_loss(&heimdallr->records, "heimdallr", text, log->n_backwards);
}

/* A file that was changed since the run may not be the one that ran. */
static uint64_t count_newer(const struct heimdallr *heimdallr)
{
	const struct heimdallr_folder *folder = &heimdallr->folder;
	int64_t start_s = folder->command_unix_ns / 1000000000;
	uint64_t n = 0;
	struct stat st;

	for (size_t i = 0; start_s && i < folder->n_libraries; i++) {
		const char *path = heimdallr_segments_path(heimdallr->segments, i);
		n += *path == '/' && stat(path, &st) == 0 && st.st_mtim.tv_sec > start_s;
	}
	return n;
}

static int add_losses(struct heimdallr *heimdallr)
{
	const struct heimdallr_folder *folder = &heimdallr->folder;
	const struct {
		const char *reason;
		uint64_t count;
	} found[] = {
		{ "time.log is not in GNU time's default format", folder->is_bad_usage },
		{ "lines of maps.log that are none of Heimdallr's", folder->n_bad_libraries },
		{ "several processes: which threads are of which, and whose libraries maps.log "
		  "names, is guessed",
		  folder->n_processes > 1 ? folder->n_processes : 0 },
		{ "libraries that are newer than the run: their names may be wrong",
		  count_newer(heimdallr) },
		{ "access.dat is no perf.data that can be read", heimdallr->is_bad_access },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]) && r == 0; i++)
		r = record_list_loss(&heimdallr->records, "heimdallr", found[i].reason,
				     found[i].count);
	for (size_t i = 0; i < folder->n_logs && r == 0; i++)
		r = add_log_losses(heimdallr, &folder->logs[i]);
	if (r == 0 && heimdallr->access)
		r = heimdallr_access_losses(heimdallr->access, &heimdallr->records);
	return r;
}

static int add_exit(struct heimdallr *heimdallr)
{
	const struct heimdallr_usage *usage = &heimdallr->folder.usage;
	struct trace_exit record = {
		.head.type = TRACE_RECORD_EXIT,
		.ticks = heimdallr->start_ns + usage->wall_ns,
		.status = usage->status,
		.user_ns = usage->user_ns,
		.system_ns = usage->system_ns,
		.max_rss_bytes = usage->max_rss_bytes,
		.minor_faults = usage->minor_faults,
		.major_faults = usage->major_faults,
	};

	if (!usage->is_known)
		return 0;
	return record_list_add(&heimdallr->records, &record);
}

static int add_process_ends(struct heimdallr *heimdallr)
{
	const struct heimdallr_usage *usage = &heimdallr->folder.usage;
	uint64_t n_exit_frees = 0;
	int r = 0;

	/* Of a run without logs access.dat tells the processes. */
	uint32_t n = heimdallr->access && heimdallr->folder.n_logs == 0
			     ? 0
			     : heimdallr->folder.n_processes;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		const struct heimdallr_exit *found = &heimdallr->exits[i];
		struct trace_process_end end = {
			.head.type = TRACE_RECORD_PROCESS_END,
			.process_id = i + 1,
			.status = usage->is_known ? usage->status : -1,
			/* Behind what it did itself. */
			.ticks = (found->time_ns ? found->time_ns : heimdallr->last_ns) + 1,
		};
		n_exit_frees += found->n_frees;
		r = record_list_add(&heimdallr->records, &end);
	}
	return r < 0 ? r : add_number_fact(heimdallr, "heimdallr.frees_at_exit", n_exit_frees);
}

int heimdallr_end_records(struct heimdallr *heimdallr)
{
	int r = add_losses(heimdallr) ?: add_process_ends(heimdallr) ?: add_exit(heimdallr);

	return r < 0 ? r : add_clock(heimdallr, heimdallr->last_ns + 1);
}
