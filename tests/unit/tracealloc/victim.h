#pragma once
/* What the victims share. Nothing in here allocates. */
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program {
	const char *name;
	int (*run)(void);
};

/* Write "name=0x..." to stdout, past stdio, which allocates. */
static inline void say(const char *name, uint64_t value)
{
	char line[600];
	int n = snprintf(line, sizeof(line), "%s=0x%llx\n", name, (unsigned long long)value);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		abort();
}

/* A frame of its own in call stacks. */
static __attribute__((noinline, unused)) int run_program(const struct program *programs, int argc,
							 char **argv)
{
	for (; argc > 1 && programs->name; programs++)
		if (strcmp(programs->name, argv[1]) == 0)
			return programs->run();
	return 99;
}

/* Resident bytes of this process. */
static inline uint64_t resident_bytes(void)
{
	char text[128] = { 0 };
	int fd = open("/proc/self/statm", O_RDONLY);
	char *second;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) * 4096 : 0;
}

/* Resident bytes of this process that are in no file, but may be shared: /proc/self/status. */
static inline uint64_t memory_bytes(void)
{
	static const char *const names[] = { "RssAnon:", "RssShmem:" };
	char text[4096] = { 0 };
	int fd = open("/proc/self/status", O_RDONLY);
	uint64_t bytes = 0;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	for (int i = 0; i < 2; i++) {
		const char *line = strstr(text, names[i]);

		bytes += line ? strtoull(line + strlen(names[i]), NULL, 10) * 1024 : 0;
	}
	return bytes;
}
