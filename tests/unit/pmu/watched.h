#pragma once
/*
 * A process to be sampled: forked and stopped, so that events can be opened on it before it does
 * anything at all.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "pmu/source.h"

#define NOBODY 65534

struct watched {
	pid_t pid;
};

/* Loop index 0 of a test runs as it is; 1 becomes uid 65534 first, when it can. */
void watched_become(int loop_index);

/*
 * Become a user whom nobody else is, when this process can: what the kernel counts for each user
 * (locked memory) is then only ours.
 */
void watched_become_alone(void);

/* Fork a child that is stopped until watched_go(), then runs body(argument) and _exit()s with 0. */
void watched_start(struct watched *watched, void (*body)(void *), void *argument);
void watched_go(struct watched *watched);

/* Wait for its end; asserts that it ended with 0. */
void watched_wait(struct watched *watched, struct rusage *ret_usage);

/* Open a source; asserts that it opens. */
struct access_stream *watched_open(const char *source, const struct access_options *options);

/* A sink that keeps a copy of all records. */
struct kept {
	uint8_t *bytes;
	size_t n_bytes;
	size_t room;
	uint64_t n_samples;
};
int kept_take(void *context, const void *records, size_t n_bytes, uint32_t n_samples);
void kept_free(struct kept *kept);

/*
 * Anonymous memory of so many pages, untouched, without huge pages, at the same place in a child.
 */
uint8_t *untouched_pages(size_t n_pages);

/* Map that parent and children share. */
void *shared_bytes(size_t n_bytes);
