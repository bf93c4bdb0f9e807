#pragma once
/*
 * What libFuzzer runs (scripts/fuzz), and replay.c without it: one input. Crashes on a bug, returns
 * 0.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

#define FUZZ_REQUIRE(condition)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

#define FUZZ_PATH_BYTES 64

/* A file without a name that holds the bytes; its path is good while the descriptor is open. */
static inline int fuzz_file_open(const uint8_t *bytes, size_t n_bytes, char *ret_path)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	FUZZ_REQUIRE(fd >= 0 && io_write_all(fd, bytes, n_bytes) == 0);
	snprintf(ret_path, FUZZ_PATH_BYTES, "/proc/self/fd/%d", fd);
	return fd;
}

/* The next bytes of an input as a number; zeros behind its end. */
static inline uint64_t fuzz_take(const uint8_t **bytes, size_t *n_bytes, unsigned n)
{
	uint64_t value = 0;

	for (unsigned i = 0; i<n && * n_bytes> 0; i++) {
		value |= (uint64_t) * *bytes << 8 * i;
		*bytes += 1;
		*n_bytes -= 1;
	}
	return value;
}
