/*
 * A plug-in for `memsight record --load`: numbers of the process from /proc/self, read again each
 * time. Another one is a line in the table: a file, the word before the number, and a factor.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memsight-plugin.h"

static const struct word {
	const char *name;
	const char *unit;
	const char *about;
	enum memsight_component_kind kind;
	const char *file;
	const char *word;
	int64_t factor;
} words[] = {
	{ "rss", "bytes", "resident memory of the process", MEMSIGHT_GAUGE, "/proc/self/status",
	  "VmRSS:", 1024 },
	{ "threads", "threads", "threads of the process", MEMSIGHT_GAUGE, "/proc/self/status",
	  "Threads:", 1 },
	{ "read-bytes", "bytes", "read from files by the thread", MEMSIGHT_COUNTER,
	  "/proc/thread-self/io", "rchar:", 1 },
	{ "written-bytes", "bytes", "written to files by the thread", MEMSIGHT_COUNTER,
	  "/proc/thread-self/io", "wchar:", 1 },
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

static int read_word(void *user, int64_t *ret_value)
{
	const struct word *word = user;
	int fd = open(word->file, O_RDONLY | O_CLOEXEC);
	char text[4096];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *at = strstr(text, word->word);
	if (!at)
		return -ENOENT;
	*ret_value = strtoll(at + strlen(word->word), NULL, 10) * word->factor;
	return 0;
}

int memsight_register_proc(struct memsight_plugin *plugin);

int memsight_register_proc(struct memsight_plugin *plugin)
{
	int r = 0;

	for (unsigned i = 0; i < N_WORDS && r == 0; i++) {
		const struct memsight_component component = {
			.name = words[i].name,
			.unit = words[i].unit,
			.about = words[i].about,
			.kind = words[i].kind,
			.read = read_word,
			.user = (void *)&words[i],
			.missing = access(words[i].file, R_OK) == 0 ? NULL : "/proc cannot be read",
		};
		r = memsight_add(plugin, &component);
	}
	return r;
}
