#include "series/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/text-stream.h"

#define FOLDER	       "slurm"
#define MAX_WORDS      64
#define MAX_TEXT_BYTES (1u << 20)

/* ---- Slurm's commands ---- */

/* Arguments of a command, NULL behind the last. */
struct words {
	char *words[MAX_WORDS + 1];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format, ...)
{
	va_list arguments;

	if (words->n == MAX_WORDS)
		return;
	va_start(arguments, format);
	if (vasprintf(&words->words[words->n], format, arguments) >= 0)
		words->words[++words->n] = NULL;
	va_end(arguments);
}

static void words_finish(struct words *words)
{
	while (words->n > 0)
		free(words->words[--words->n]);
}
#define auto_words __attribute__((cleanup(words_finish)))

/* In the child: both outputs go to file. */
static _Noreturn void be_command(char *const *command, int file)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (dup2(null, 0) >= 0 && dup2(file, 1) >= 0 && dup2(file, 2) >= 0)
		execvp(command[0], command);
	_exit(errno == ENOENT ? 127 : 126);
}

/* The first line of a text, for a message. */
static void first_line(const char *text, char *line, size_t n_bytes)
{
	snprintf(line, n_bytes, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Run a command; what it prints is allocated. Returns 0, or -EIO with one line in message. */
static int ask(const struct words *words, char **ret_text, char *message)
{
	char path[64], line[300];
	auto_close int file = memfd_create("memsight-slurm", MFD_CLOEXEC);
	int status, err;

	if (file < 0)
		return -errno;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		be_command(words->words, file);
	TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	err = io_read_file(path, MAX_TEXT_BYTES, ret_text, NULL);
	if (err < 0 || status == 0)
		return err;
	first_line(*ret_text, line, sizeof(line));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && !line[0])
		snprintf(message, SERIES_MESSAGE_BYTES,
			 "there is no Slurm here: no %s in PATH (apt-get install slurm-client)",
			 words->words[0]);
	else
		snprintf(message, SERIES_MESSAGE_BYTES, "%s: %s", words->words[0], line);
	return -EIO;
}

/* ---- Files ---- */

static int write_file(const struct series_folder *folder, const char *name, const char *text,
		      mode_t mode)
{
	char path[64];
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

	snprintf(path, sizeof(path), FOLDER "/%s", name);

	auto_close int fd = openat(folder->fd, path, flags | O_TRUNC, mode);

	if (fd < 0)
		return -errno;
	fchmod(fd, mode);
	return io_write_all(fd, text, strlen(text));
}

static int read_jobs(const struct series_folder *folder, char **ret_text)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/" FOLDER "/jobs.lst", folder->path);
	return io_read_file(path, MAX_TEXT_BYTES, ret_text, NULL);
}

/* The names of what is to be done, one a line, allocated. */
static char *list_missing(const struct series_slurm *slurm, size_t *ret_n)
{
	char *text = NULL, name[SERIES_NAME_BYTES];
	size_t n_bytes = 0;
	FILE *to = text_stream_open(&text, &n_bytes);

	*ret_n = 0;
	for (size_t i = 0; to && i < slurm->plan->n_items; i++) {
		series_item_name(slurm->plan, &slurm->plan->items[i], name);

		enum series_result result = series_folder_result(slurm->folder, name);

		if (result == SERIES_OK || (result != SERIES_MISSING && !slurm->retry))
			continue;
		fprintf(to, "%s\n", name);
		++*ret_n;
	}
	if (to)
		text_stream_close(to, &text);
	return text;
}

static void put_quoted(FILE *to, const char *word)
{
	fputc('\'', to);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", to);
		else
			fputc(*word, to);
	}
	fputc('\'', to);
}

/* What an element executes: its share of the list, run by run, whatever becomes of each. */
static char *job_script(const struct series_slurm *slurm, size_t n_elements)
{
	char *text = NULL;
	size_t n_bytes = 0;
	FILE *to = text_stream_open(&text, &n_bytes);

	if (!to)
		return NULL;
	fputs("#!/bin/sh\n# An element of the job array of a memsight series.\n", to);
	fprintf(to, "awk -v i=\"$SLURM_ARRAY_TASK_ID\" '(NR - 1) %% %zu == i' ", n_elements);
	put_quoted(to, slurm->folder->path);
	fputs("/" FOLDER "/runs.lst | while read -r run; do\n\t", to);
	for (char *const *word = slurm->command; *word; word++) {
		put_quoted(to, *word);
		fputc(' ', to);
	}
	fputs("--only \"$run\"", to);
	fputs(" </dev/null\ndone\n", to);
	text_stream_close(to, &text);
	return text;
}

/* ---- Submitting ---- */

/* Arguments of the user's for sbatch stand behind ours, so that they win. */
static int add_arguments(struct words *words, const char *arguments, char *message)
{
	auto_free char **split = NULL;
	int err = arguments && *arguments ? series_split(arguments, &split) : 0;

	if (err == -EINVAL)
		snprintf(message, SERIES_MESSAGE_BYTES, "--sbatch-args: a quote is not closed");
	for (size_t i = 0; split && split[i]; i++)
		add(words, "%s", split[i]);
	return err;
}

/* "123" or "123;cluster" of sbatch --parsable, which may say other things before. */
static int take_id(const char *text, char id[32], char *message)
{
	const char *line = text;

	for (const char *next = text; (next = strchr(next, '\n')) && next[1]; next++)
		line = next + 1;
	snprintf(id, 32, "%.*s", (int)strspn(line, "0123456789"), line);
	if (id[0])
		return 0;
	snprintf(message, SERIES_MESSAGE_BYTES, "sbatch gave no job id but '%.200s'", text);
	return -EIO;
}

static int submit_array(const struct series_slurm *slurm, struct series_submission *submission,
			char *message)
{
	auto_words struct words words = { .n = 0 };
	auto_free char *text = NULL;
	char limit[32] = "";

	if (slurm->n_parallel)
		snprintf(limit, sizeof(limit), "%%%" PRIu64, slurm->n_parallel);
	add(&words, "sbatch");
	add(&words, "--parsable");
	add(&words, "--job-name=memsight-%.80s", slurm->plan->series->name);
	add(&words, "--array=0-%zu%s", submission->n_elements - 1, limit);
	add(&words, "--exclusive");
	add(&words, "--output=%s/" FOLDER "/%%A_%%a.log", slurm->folder->path);
	int err = add_arguments(&words, slurm->arguments, message);
	add(&words, "%s/" FOLDER "/job.sh", slurm->folder->path);
	err = err ?: ask(&words, &text, message);
	return err < 0 ? err : take_id(text, submission->array_id, message);
}

/* The database, when all elements have ended, however. */
static int submit_analyze(const struct series_slurm *slurm, struct series_submission *submission,
			  char *message)
{
	auto_words struct words words = { .n = 0 };
	auto_free char *text = NULL;
	auto_free char *command = NULL;
	size_t n_bytes = 0;
	FILE *to = text_stream_open(&command, &n_bytes);

	if (!to)
		return -ENOMEM;
	put_quoted(to, slurm->memsight);
	fputs(" analyze ", to);
	put_quoted(to, slurm->folder->path);
	if (text_stream_close(to, &command) < 0)
		return -ENOMEM;
	add(&words, "sbatch");
	add(&words, "--parsable");
	add(&words, "--job-name=memsight-%.80s-analyze", slurm->plan->series->name);
	add(&words, "--dependency=afterany:%s", submission->array_id);
	add(&words, "--output=%s/" FOLDER "/analyze.log", slurm->folder->path);
	int err = add_arguments(&words, slurm->arguments, message);
	add(&words, "--wrap=%s", command);
	err = err ?: ask(&words, &text, message);
	return err < 0 ? err : take_id(text, submission->analyze_id, message);
}

static int note_jobs(const struct series_slurm *slurm, const struct series_submission *submission)
{
	char text[128];

	snprintf(text, sizeof(text), "array %s\nanalyze %s\n", submission->array_id,
		 submission->analyze_id);
	return write_file(slurm->folder, "jobs.lst", text, 0666);
}

/* Two arrays at the same runs would be in each other's way. */
static int refuse_second(const struct series_slurm *slurm, char *message)
{
	struct series_slurm_state state;
	int err = series_slurm_state(slurm->folder, &state, message);

	if (err < 0 || state.n_waiting + state.n_running == 0)
		return err;
	snprintf(message, SERIES_MESSAGE_BYTES,
		 "jobs of this series are still there: %zu run, %zu wait (scancel %s ends them)",
		 state.n_running, state.n_waiting, state.array_id);
	return -EALREADY;
}

int series_slurm_submit(const struct series_slurm *slurm, struct series_submission *ret_submission,
			char *message)
{
	struct series_submission submission = { 0 };
	auto_free char *list = list_missing(slurm, &submission.n_runs);
	auto_free char *script = NULL;

	message[0] = '\0';
	if (!list)
		return -ENOMEM;
	*ret_submission = submission;
	if (submission.n_runs == 0)
		return 0;
	int err = refuse_second(slurm, message);
	if (err < 0)
		return err;
	submission.n_elements = submission.n_runs < SERIES_SLURM_ELEMENTS ? submission.n_runs
									  : SERIES_SLURM_ELEMENTS;
	script = job_script(slurm, submission.n_elements);
	if (!script)
		return -ENOMEM;
	if (mkdirat(slurm->folder->fd, FOLDER, 0777) < 0 && errno != EEXIST)
		return -errno;
	err = write_file(slurm->folder, "runs.lst", list, 0666);
	err = err ?: write_file(slurm->folder, "job.sh", script, 0777);
	err = err ?: submit_array(slurm, &submission, message);
	/* At once: should the next step fail, the array is there nevertheless. */
	err = err ?: note_jobs(slurm, &submission);
	err = err ?: submit_analyze(slurm, &submission, message);
	err = err ?: note_jobs(slurm, &submission);
	if (err == 0)
		*ret_submission = submission;
	return err;
}

/* ---- Asking ---- */

/* Lines "STATE REASON" of squeue, an element each. */
static void count_states(const char *text, struct series_slurm_state *state)
{
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		bool is_waiting = strncmp(text, "PENDING", 7) == 0;

		if (strncmp(text, "RUNNING", 7) == 0 || strncmp(text, "COMPLETING", 10) == 0)
			state->n_running++;
		else if (*text != '\n')
			state->n_waiting++;
		if (is_waiting && !state->why[0] && text[7] == ' ')
			snprintf(state->why, sizeof(state->why), "%.*s",
				 (int)strcspn(text + 8, "\n"), text + 8);
	}
}

int series_slurm_state(const struct series_folder *folder, struct series_slurm_state *ret_state,
		       char *message)
{
	auto_words struct words words = { .n = 0 };
	auto_free char *jobs = NULL;
	auto_free char *text = NULL;
	char analyze[32] = "";

	message[0] = '\0';
	*ret_state = (struct series_slurm_state){ 0 };
	if (read_jobs(folder, &jobs) < 0 ||
	    sscanf(jobs, "array %31[0-9] analyze %31[0-9]", ret_state->array_id, analyze) < 1)
		return 0;
	add(&words, "squeue");
	add(&words, "--noheader");
	add(&words, "--array");
	add(&words, "--format=%%T %%r");
	add(&words, "--jobs=%s%s%s", ret_state->array_id, analyze[0] ? "," : "", analyze);
	int err = ask(&words, &text, message);
	/* Jobs that have ended long ago are unknown to it: that is no failure. */
	if (err == -EIO && strstr(message, "Invalid job id")) {
		message[0] = '\0';
		return 0;
	}
	if (err == 0)
		count_states(text, ret_state);
	return err;
}
