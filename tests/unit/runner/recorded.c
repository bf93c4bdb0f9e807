#include "tests/unit/runner/recorded.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "trace/reader.h"

int recorded_n_users(void)
{
	return geteuid() == 0 ? 2 : 1;
}

uid_t recorded_user(int i)
{
	return i == 0 ? 0 : RECORDED_NOBODY;
}

const char *recorded_victim(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", getenv("MEMSIGHT_TEST_VICTIMS"), name);
	return path;
}

void recorded_init(struct recorded *recorded, uid_t uid)
{
	ck_assert_msg(getenv("MEMSIGHT_TEST_BINARY") != NULL, "run me by meson test");
	*recorded = (struct recorded){ .uid = uid, .exit_status = -99 };
	snprintf(recorded->folder, sizeof(recorded->folder), "/tmp/test-record-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(recorded->folder));
	if (uid)
		ck_assert_int_eq(chown(recorded->folder, uid, uid), 0);
}

void recorded_finish(struct recorded *recorded)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", recorded->folder);
	ck_assert_int_eq(system(command), 0);
}

static void become(uid_t uid)
{
	if (!uid)
		return;
	if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
		_exit(99);
}

static void redirect(int to, const char *name, int flags)
{
	int fd = open(name, flags, 0600);

	if (fd < 0 || dup2(fd, to) < 0)
		_exit(98);
	close(fd);
}

/* Who runs the tests in the background, or under nohup, ignores some of them. */
static void take_signals(void)
{
	static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], SIG_DFL);
}

static pid_t start(struct recorded *recorded, const char *const *argv)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid > 0)
		return pid;
	become(recorded->uid);
	take_signals();
	if (chdir(recorded->folder) < 0)
		_exit(97);
	redirect(0, access("in", R_OK) == 0 ? "in" : "/dev/null", O_RDONLY);
	redirect(1, "out", O_WRONLY | O_CREAT | O_TRUNC);
	redirect(2, "err", O_WRONLY | O_CREAT | O_TRUNC);
	setenv("MEMSIGHT", getenv("MEMSIGHT_TEST_BINARY"), 1);
	setenv("VICTIMS", getenv("MEMSIGHT_TEST_VICTIMS"), 1);
	execv(argv[0], (char **)argv);
	_exit(96);
}

pid_t recorded_start(struct recorded *recorded, const char *const *words)
{
	const char *argv[64] = { getenv("MEMSIGHT_TEST_BINARY") };

	for (int i = 0; words[i] && i < 62; i++)
		argv[i + 1] = words[i];
	return start(recorded, argv);
}

pid_t recorded_start_shell(struct recorded *recorded, const char *script)
{
	return start(recorded, WORDS("/bin/sh", "-c", script));
}

void recorded_run_shell(struct recorded *recorded, const char *script)
{
	recorded_wait(recorded, recorded_start_shell(recorded, script));
}

void recorded_put(const struct recorded *recorded, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", recorded->folder, name);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

const char *recorded_get(const struct recorded *recorded, const char *name)
{
	static char bytes[65536];
	char path[128];
	auto_free char *text = NULL;
	size_t length = 0;

	snprintf(path, sizeof(path), "%s/%s", recorded->folder, name);
	bytes[0] = '\0';
	if (io_read_file(path, sizeof(bytes) - 1, &text, &length) == 0)
		memcpy(bytes, text, length + 1);
	return bytes;
}

pid_t recorded_wait_for_start(struct recorded *recorded)
{
	const struct timespec moment = { .tv_nsec = 2000000 };
	const char *line = NULL;
	int pid = 0;

	for (int i = 0; i < 10000 && !line; i++) {
		line = strstr(recorded_get(recorded, "err"), "(pid ");
		nanosleep(&moment, NULL);
	}
	ck_assert_ptr_nonnull(line);
	ck_assert_int_eq(sscanf(line, "(pid %d)", &pid), 1);
	return pid;
}

static void find_trace(struct recorded *recorded)
{
	DIR *folder = opendir(recorded->folder);
	struct dirent *entry;

	recorded->n_traces = 0;
	recorded->trace[0] = '\0';
	while ((entry = readdir(folder)) != NULL) {
		if (!strstr(entry->d_name, ".mst"))
			continue;
		recorded->n_traces++;
		snprintf(recorded->trace, sizeof(recorded->trace), "%s/%s", recorded->folder,
			 entry->d_name);
	}
	closedir(folder);
}

void recorded_look(struct recorded *recorded)
{
	snprintf(recorded->out, sizeof(recorded->out), "%s", recorded_get(recorded, "out"));
	snprintf(recorded->err, sizeof(recorded->err), "%s", recorded_get(recorded, "err"));
	find_trace(recorded);
}

void recorded_wait(struct recorded *recorded, pid_t pid)
{
	ck_assert_int_eq(waitpid(pid, &recorded->status, 0), pid);
	recorded_look(recorded);
}

void recorded_run(struct recorded *recorded, const char *const *words)
{
	recorded_wait(recorded, recorded_start(recorded, words));
}

/* ---- Reading ---- */

struct reading {
	struct recorded *recorded;
	uint32_t process_of[RECORDED_MAX_THREADS]; /* by thread id */
	uint64_t committed_ticks;
	bool is_secret[16]; /* by source id: its records carry registers or stack bytes */
};

static struct recorded_process *find_id(struct recorded *recorded, uint32_t id)
{
	for (int i = 0; i < recorded->n_processes; i++) {
		if (recorded->processes[i].id == id)
			return &recorded->processes[i];
	}
	return NULL;
}

static void copy_string(const struct trace_record *record, unsigned i, char *ret_text, size_t room)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(record, i, &n_bytes);

	if (n_bytes >= room)
		n_bytes = room - 1;
	memcpy(ret_text, bytes, n_bytes);
	ret_text[n_bytes] = '\0';
}

static void take_process(struct recorded *recorded, const struct trace_process *record)
{
	struct recorded_process *process = &recorded->processes[recorded->n_processes++];

	ck_assert_int_le(recorded->n_processes, RECORDED_MAX_PROCESSES);
	*process = (struct recorded_process){
		.id = record->process_id,
		.parent_id = record->parent_id,
		.pid = record->pid,
		.exec_seq = record->exec_seq,
		.birth = record->birth,
		.why_not = record->why_not,
		.status = -99,
	};
	copy_string(&record->head, 0, process->exe, sizeof(process->exe));
}

static void take_loss(struct recorded *recorded, const struct trace_loss *record)
{
	struct recorded_loss *loss = &recorded->losses[recorded->n_losses++];

	ck_assert_int_le(recorded->n_losses, RECORDED_MAX_LOSSES);
	loss->count = record->count;
	copy_string(&record->head, 0, loss->source, sizeof(loss->source));
	copy_string(&record->head, 1, loss->reason, sizeof(loss->reason));
}

static void take_record(struct reading *reading, const struct trace_record *record)
{
	struct recorded *recorded = reading->recorded;
	const struct trace_thread *thread = (const struct trace_thread *)record;
	const struct trace_process_sample *memory = (const struct trace_process_sample *)record;
	const struct trace_source *source = (const struct trace_source *)record;
	const struct trace_process_end *end = (const struct trace_process_end *)record;

	switch (record->type) {
	case TRACE_RECORD_PROCESS:
		take_process(recorded, (const struct trace_process *)record);
		break;
	case TRACE_RECORD_PROCESS_END:
		ck_assert_ptr_nonnull(find_id(recorded, end->process_id));
		find_id(recorded, end->process_id)->status = end->status;
		break;
	case TRACE_RECORD_THREAD:
		ck_assert_uint_lt(thread->thread_id, RECORDED_MAX_THREADS);
		reading->process_of[thread->thread_id] = thread->process_id;
		break;
	case TRACE_RECORD_SOURCE:
		ck_assert_uint_lt(source->source_id, 16);
		reading->is_secret[source->source_id] =
			(source->sample_type & (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)) !=
			0;
		break;
	case TRACE_RECORD_LOSS:
		take_loss(recorded, (const struct trace_loss *)record);
		break;
	case TRACE_RECORD_CLOCK:
		recorded->n_clocks++;
		break;
	case TRACE_RECORD_MAPPING:
		recorded->n_maps++;
		break;
	case TRACE_RECORD_FACT:
		recorded->n_facts[((const struct trace_fact *)record)->at_end != 0]++;
		break;
	case TRACE_RECORD_PROCESS_SAMPLE:
		recorded->n_memory_samples++;
		if (memory->rss_bytes > recorded->max_rss_bytes)
			recorded->max_rss_bytes = memory->rss_bytes;
		break;
	case TRACE_RECORD_RUN:
		copy_string(record, 0, recorded->program, sizeof(recorded->program));
		break;
	case TRACE_RECORD_EXIT:
		recorded->exit_status = ((const struct trace_exit *)record)->status;
		break;
	default:
		break;
	}
}

static void take_events(struct reading *reading, const struct trace_item *item)
{
	struct recorded *recorded = reading->recorded;
	struct recorded_process *process;

	ck_assert_uint_lt(item->stream_id, RECORDED_MAX_THREADS);
	process = find_id(recorded, reading->process_of[item->stream_id]);
	ck_assert_msg(process != NULL, "events of a thread that was not announced");
	for (size_t i = 0; i < item->n; i++) {
		const struct trace_event *event = &item->events[i];

		process->n_allocs += event->op == TRACE_OP_ALLOC;
		process->n_frees += event->op == TRACE_OP_FREE;
		process->n_allocs_of_64 += event->op == TRACE_OP_ALLOC && event->size == 64;
		recorded->n_misordered += event->ticks < reading->committed_ticks;
	}
	recorded->n_events += item->n;
}

static void take_item(struct reading *reading, const struct trace_item *item)
{
	const struct trace_record *record = NULL;

	switch (item->type) {
	case TRACE_FRAME_RECORDS:
		while ((record = trace_record_next(item, record)) != NULL)
			take_record(reading, record);
		break;
	case TRACE_FRAME_EVENTS:
		take_events(reading, item);
		break;
	case TRACE_FRAME_PERF:
		reading->recorded->n_perf_bytes += item->n;
		ck_assert_uint_lt(item->stream_id, 16);
		if (reading->is_secret[item->stream_id])
			reading->recorded->n_secret_bytes += item->n;
		break;
	case TRACE_FRAME_CODE:
		reading->recorded->n_code_bytes += item->n;
		break;
	case TRACE_FRAME_ACCESSES:
		reading->recorded->n_accesses += item->n;
		break;
	case TRACE_FRAME_COMMIT:
		ck_assert_uint_ge(item->commit->ticks, reading->committed_ticks);
		reading->committed_ticks = item->commit->ticks;
		break;
	default:
		break;
	}
}

void recorded_read(struct recorded *recorded)
{
	struct reading reading = { .recorded = recorded };
	struct trace_reader *reader;
	struct trace_item item;
	int r;

	ck_assert_msg(recorded->n_traces == 1, "%d traces; it said: %s", recorded->n_traces,
		      recorded->err);
	ck_assert_int_eq(trace_reader_open(recorded->trace, &reader), 0);
	while ((r = trace_reader_next(reader, &item)) > 0)
		take_item(&reading, &item);
	recorded->can_be_read = r == 0;
	recorded->is_whole = trace_reader_damage(reader)->ended &&
			     trace_reader_damage(reader)->n_damaged_frames == 0 &&
			     trace_reader_damage(reader)->n_skipped_bytes == 0;
	trace_reader_close(reader);
}

struct recorded_process *recorded_process(struct recorded *recorded, const char *name)
{
	struct recorded_process *found = NULL;

	for (int i = 0; i < recorded->n_processes; i++) {
		const char *exe = recorded->processes[i].exe;

		if (strlen(exe) >= strlen(name) &&
		    strcmp(exe + strlen(exe) - strlen(name), name) == 0)
			found = &recorded->processes[i];
	}
	return found;
}

uint64_t recorded_loss(const struct recorded *recorded, const char *reason)
{
	uint64_t count = 0;

	for (int i = 0; i < recorded->n_losses; i++) {
		if (strcmp(recorded->losses[i].reason, reason) == 0)
			count += recorded->losses[i].count;
	}
	return count;
}
