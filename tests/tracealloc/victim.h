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

/* Resident bytes of this process that are in no file: /proc/self/status. */
static inline uint64_t anonymous_bytes(void)
{
	char text[4096] = { 0 };
	int fd = open("/proc/self/status", O_RDONLY);
	const char *line;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	line = strstr(text, "RssAnon:");
	return line ? strtoull(line + 8, NULL, 10) * 1024 : 0;
}
