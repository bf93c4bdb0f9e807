#include "cli/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

#define SUFFIX ".html"

struct browser {
	char *path; /* of the file that leads to the address */
};

struct browser *browser_forget(struct browser *browser)
{
	if (!browser)
		return NULL;
	if (browser->path)
		unlink(browser->path);
	free(browser->path);
	free(browser);
	return NULL;
}

static const char *folder(void)
{
	static const char *const variables[] = { "XDG_RUNTIME_DIR", "TMPDIR" };

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *path = getenv(variables[i]);
		if (path && path[0] == '/' && access(path, W_OK) == 0)
			return path;
	}
	return "/tmp";
}

/* The address is of our own making: digits, letters and none of HTML's. */
static int write_file(struct browser *browser, const char *address)
{
	auto_fclose FILE *file = NULL;
	char *path = NULL;

	if (asprintf(&path, "%s/memsight-view-XXXXXX" SUFFIX, folder()) < 0)
		return -ENOMEM;
	int fd = mkostemps(path, (int)strlen(SUFFIX), O_CLOEXEC);
	if (fd < 0) {
		free(path);
		return -errno;
	}
	browser->path = path;
	file = fdopen(fd, "w");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	fprintf(file,
		"<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" "
		"content=\"no-referrer\">"
		"<meta http-equiv=\"refresh\" content=\"0; url=%s\"><title>memsight</title>"
		"<a href=\"%s\">memsight view</a>\n",
		address, address);
	return fflush(file) == 0 ? 0 : -errno;
}

static int start(const char *path)
{
	char *const words[] = { "xdg-open", (char *)path, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	pid_t pid = -1;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
						      POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&actions);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	int r = posix_spawnp(&pid, words[0], &actions, &attributes, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

int browser_open(const char *address, struct browser **ret_browser)
{
	auto_browser struct browser *browser = calloc(1, sizeof(*browser));
	int r = browser ? write_file(browser, address) : -ENOMEM;

	if (r == 0)
		r = start(browser->path);
	if (r < 0)
		return r;
	*ret_browser = steal_ptr(&browser);
	return 0;
}
