/*
 * Runs fuzz-trace.c without a fuzzer: the files named, or else whole small traces of make-trace
 * with some bytes changed, always the same ones. With --corpus FOLDER the whole traces are written
 * there.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/unit/common/trace-random.h"
#include "tests/robust/fuzz/fuzz.h"
#include "tests/support/make-trace/make-trace.h"
#include "trace/columns.h"

#define N_TRACES	  8u
#define N_INPUTS	  (N_TRACES + 8u) /* and bodies of events alone */
#define N_CHANGED_OF_EACH 400u

/* A trace of a few KiB, with a byte before it that fuzz-trace.c takes as its mode. */
static uint8_t *make_input(unsigned i, size_t *ret_bytes)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	auto_close int fd = memfd_create("trace", MFD_CLOEXEC);
	char path[64];
	char *bytes;
	size_t n_bytes;

	options.seed = i;
	options.kind = (enum make_trace_kind)(i % MAKE_TRACE_KIND_COUNT);
	options.n_events = i < 4 ? 30 : 600;
	options.n_samples = 5;
	options.n_live = 20;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int r = make_trace(dup(fd), &options, NULL);
	if (r < 0 || io_read_file(path, 1u << 20, &bytes, &n_bytes) < 0)
		errx(1, "make_trace: %s", strerror(-r));

	uint8_t *input = malloc(n_bytes + 1);
	if (!input)
		err(1, "malloc");
	input[0] = 1;
	memcpy(input + 1, bytes, n_bytes);
	free(bytes);
	*ret_bytes = n_bytes + 1;
	return input;
}

/* The body of an EVENTS frame, uncompressed, as an input of mode 2. */
static uint8_t *make_body_input(unsigned i, size_t *ret_bytes)
{
	struct trace_columns columns = { 0 };
	struct iovec parts[TRACE_COLUMNS_PARTS];
	struct trace_random random = { i };
	uint32_t n_events = 1 + i * 5;

	if (trace_columns_reserve(&columns, n_events) < 0)
		err(1, "malloc");
	for (unsigned j = 0; j < n_events; j++) {
		struct trace_event event = trace_random_event(&random);
		trace_columns_append(&columns, &event);
	}
	size_t n_bytes = 6;
	uint8_t *input = malloc(n_bytes + trace_columns_parts(&columns, parts));
	if (!input)
		err(1, "malloc");
	input[0] = 2;
	input[1] = TRACE_FRAME_EVENTS;
	memcpy(input + 2, &n_events, sizeof(n_events));
	for (unsigned j = 0; j < TRACE_COLUMNS_PARTS; j++) {
		if (parts[j].iov_len > 0)
			memcpy(input + n_bytes, parts[j].iov_base, parts[j].iov_len);
		n_bytes += parts[j].iov_len;
	}
	trace_columns_finish(&columns);
	*ret_bytes = n_bytes;
	return input;
}

static uint8_t *make_whole_input(unsigned i, size_t *ret_bytes)
{
	return i < N_TRACES ? make_input(i, ret_bytes) : make_body_input(i - N_TRACES, ret_bytes);
}

/* Change up to 8 bytes, mostly of lengths and counts: near the start of some 8 bytes. */
static void change(uint8_t *input, size_t n_bytes, struct trace_random *random)
{
	unsigned n = 1 + trace_random_below(random, 8);

	for (unsigned i = 0; i < n; i++) {
		size_t at = trace_random_below(random, (uint32_t)n_bytes);
		input[at] = trace_random_below(random, 4) == 0 ? 0xff
							       : (uint8_t)trace_random_bits(random);
	}
}

static void run_changed(unsigned i)
{
	struct trace_random random = { i };
	size_t n_bytes;
	auto_free uint8_t *whole = make_whole_input(i, &n_bytes);
	auto_free uint8_t *changed = malloc(n_bytes);

	if (!changed)
		err(1, "malloc");
	LLVMFuzzerTestOneInput(whole, n_bytes);
	for (unsigned j = 0; j < N_CHANGED_OF_EACH; j++) {
		memcpy(changed, whole, n_bytes);
		change(changed, n_bytes, &random);
		/* Now and then cut as well. */
		size_t n_kept = j % 4 ? n_bytes : trace_random_below(&random, (uint32_t)n_bytes);
		LLVMFuzzerTestOneInput(changed, n_kept);
	}
}

static void write_corpus(const char *folder)
{
	for (unsigned i = 0; i < N_INPUTS; i++) {
		char path[4096];
		size_t n_bytes;
		auto_free uint8_t *input = make_whole_input(i, &n_bytes);

		snprintf(path, sizeof(path), "%s/trace-%u", folder, i);
		auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0 || io_write_all(fd, input, n_bytes) < 0)
			err(1, "%s", path);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--corpus") == 0) {
		write_corpus(argv[2]);
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		char *bytes;
		size_t n_bytes;
		if (io_read_file(argv[i], 1u << 30, &bytes, &n_bytes) < 0)
			err(1, "%s", argv[i]);
		LLVMFuzzerTestOneInput((const uint8_t *)bytes, n_bytes);
		free(bytes);
	}
	for (unsigned i = 0; argc == 1 && i < N_INPUTS; i++)
		run_changed(i);
	return 0;
}
