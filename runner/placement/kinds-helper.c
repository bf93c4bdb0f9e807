#include "runner/placement/kinds-helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/launch/library.h"

#define HELPER_NAME "memsight-kinds"

int kinds_helper_add(struct kinds_helper *helper, const char *name, const char *value)
{
	char *word = NULL;

	if (helper->n == KINDS_HELPER_MAX_WORDS || asprintf(&word, "%s=%s", name, value) < 0)
		return -ENOMEM;
	helper->words[helper->n++] = word;
	return 0;
}

void kinds_helper_finish(struct kinds_helper *helper)
{
	while (helper->n > 0)
		free(helper->words[--helper->n]);
}

/* Start it; its standard output is to be read from *ret_fd. */
static int start(const struct kinds_helper *helper, char *path, pid_t *ret_pid, int *ret_fd)
{
	char *argv[KINDS_HELPER_MAX_WORDS + 2] = { path };
	posix_spawn_file_actions_t actions;
	int ends[2];
	int err;

	memcpy(argv + 1, helper->words, helper->n * sizeof(argv[0]));
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	auto_close int reading = ends[0], writing = ends[1];
	err = posix_spawn_file_actions_init(&actions);
	if (err != 0)
		return -err;
	err = posix_spawn_file_actions_adddup2(&actions, writing, STDOUT_FILENO);
	if (err == 0)
		err = posix_spawn(ret_pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err == 0)
		*ret_fd = steal_fd(&reading);
	return -err;
}

static int take_lines(FILE *file, void (*take)(void *user, const char *key, const char *value),
		      void *user, char problem[KINDS_HELPER_PROBLEM_BYTES])
{
	auto_free char *line = NULL;
	size_t n_bytes = 0;

	while (getline(&line, &n_bytes, file) > 0) {
		size_t n = strcspn(line, " \n");
		char *value = line + n + (line[n] == ' ');

		value[strcspn(value, "\n")] = '\0';
		line[n] = '\0';
		if (strcmp(line, "error") == 0) {
			snprintf(problem, KINDS_HELPER_PROBLEM_BYTES, "%s", value);
			return -ENODEV;
		}
		take(user, line, value);
	}
	return 0;
}

int kinds_helper_run(const struct kinds_helper *helper,
		     void (*take)(void *user, const char *key, const char *value), void *user,
		     char problem[KINDS_HELPER_PROBLEM_BYTES])
{
	char path[PATH_MAX];
	int status = 0, fd = -1, err;
	pid_t pid;

	err = library_find_beside(HELPER_NAME, path, sizeof(path));
	if (err == 0)
		err = start(helper, path, &pid, &fd);
	if (err < 0) {
		snprintf(problem, KINDS_HELPER_PROBLEM_BYTES,
			 "%s needs %s, which cannot be run: %s (it is built where libmemkind and "
			 "libnuma are)",
			 helper->words[0], HELPER_NAME, strerror(-err));
		return err;
	}
	auto_fclose FILE *file = fdopen(fd, "r");
	if (!file)
		close(fd);
	err = file ? take_lines(file, take, user, problem) : -ENOMEM;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (err == 0 && status != 0) {
		snprintf(problem, KINDS_HELPER_PROBLEM_BYTES, "%s was ended by %s %d", HELPER_NAME,
			 WIFSIGNALED(status) ? "signal" : "itself with status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		return -EPROTO;
	}
	return err;
}
