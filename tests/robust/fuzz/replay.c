/*
 * Runs a fuzz target over a corpus without a fuzzer: each file of a folder whole, cut at every
 * byte, with every byte flipped, and with some lines twice, left out or in another order, always
 * the same way. Of a target that takes long for each, at most so many of each kind; fewer where the
 * environment says so (tests/support/fewer.h).
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/support/fewer.h"
#include "tests/unit/common/trace-random.h"
#include "tests/robust/fuzz/fuzz.h"

#define MAX_BYTES  (1u << 20)
#define N_SHUFFLES 200u

static void replay_damaged(uint8_t *bytes, size_t n_bytes, size_t n_most)
{
	size_t step = (1 + n_bytes / n_most) * (size_t)every();

	LLVMFuzzerTestOneInput(bytes, n_bytes);
	for (size_t cut = 0; cut < n_bytes; cut += step)
		LLVMFuzzerTestOneInput(bytes, cut);
	for (size_t i = 0; i < n_bytes; i += step) {
		uint8_t bit = (uint8_t)(1u << i / step % 8);
		bytes[i] ^= bit;
		LLVMFuzzerTestOneInput(bytes, n_bytes);
		bytes[i] ^= bit;
	}
}

/* As many lines as there are, each any of them. */
static void replay_shuffled(const uint8_t *bytes, size_t n_bytes, uint64_t seed)
{
	struct trace_random random = { seed };
	auto_free uint8_t *mixed = malloc(2 * n_bytes + 1);
	size_t n = 0;

	if (!mixed)
		err(EXIT_FAILURE, "malloc");
	while (n < n_bytes) {
		size_t at = trace_random_below(&random, (uint32_t)n_bytes);
		while (at > 0 && bytes[at - 1] != '\n')
			at--;
		const uint8_t *end = memchr(bytes + at, '\n', n_bytes - at);
		size_t n_line = end ? (size_t)(end - bytes) + 1 - at : n_bytes - at;
		memcpy(mixed + n, bytes + at, n_line);
		n += n_line;
	}
	LLVMFuzzerTestOneInput(mixed, n);
}

static void replay_file(const char *path, size_t n_most)
{
	char *bytes = NULL;
	size_t n_bytes = 0;
	int r = io_read_file(path, MAX_BYTES, &bytes, &n_bytes);

	if (r < 0)
		errx(EXIT_FAILURE, "%s: %s", path, strerror(-r));
	replay_damaged((uint8_t *)bytes, n_bytes, n_most);
	for (unsigned i = 0; n_bytes && i < N_SHUFFLES && i < n_most; i += (unsigned)every())
		replay_shuffled((const uint8_t *)bytes, n_bytes, i);
	free(bytes);
}

int main(int argc, char **argv)
{
	struct dirent **entries = NULL;
	int n_files = 0;

	if (argc < 2 || argc > 3)
		errx(2, "usage: fuzz-TARGET CORPUS [MOST]");
	size_t n_most = argc == 3 ? strtoul(argv[2], NULL, 10) : SIZE_MAX;
	if (n_most == 0)
		errx(2, "at most %s inputs: not a number above 0", argv[2]);
	int n = scandir(argv[1], &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		auto_free char *path = NULL;
		if (entries[i]->d_name[0] != '.' &&
		    asprintf(&path, "%s/%s", argv[1], entries[i]->d_name) > 0) {
			replay_file(path, n_most);
			n_files++;
		}
		free(entries[i]);
	}
	free(entries);
	if (n_files == 0)
		errx(EXIT_FAILURE, "no corpus could be replayed: %s", argv[1]);
	printf("replayed %d inputs\n", n_files);
	return EXIT_SUCCESS;
}
