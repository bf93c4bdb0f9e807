/*
 * make-trace [--seed N] [--events N] [--samples N] [--accesses] [--processes N] [--threads N]
 * [--live N]
 * 	[--stacks N] [--kind heap|mmap|realloc|mixed] -o FILE.mst [--truth FILE.json]
 */
#include <err.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/parse.h"
#include "tests/support/make-trace/make-trace.h"

struct arguments {
	struct make_trace_options options;
	const char *arg_output;
	const char *arg_truth;
};

static const struct option options[] = {
	{ "seed", required_argument, NULL, 's' },      { "events", required_argument, NULL, 'e' },
	{ "samples", required_argument, NULL, 'f' },   { "accesses", no_argument, NULL, 'a' },
	{ "processes", required_argument, NULL, 'p' }, { "threads", required_argument, NULL, 't' },
	{ "live", required_argument, NULL, 'l' },      { "stacks", required_argument, NULL, 'c' },
	{ "kind", required_argument, NULL, 'k' },      { "output", required_argument, NULL, 'o' },
	{ "truth", required_argument, NULL, 'j' },     { 0 },
};

static const char *const kinds[MAKE_TRACE_KIND_COUNT] = { "heap", "mmap", "realloc", "mixed" };

static uint64_t number(const char *name, uint64_t most)
{
	uint64_t value;

	if (parse_number(optarg, &value) < 0 || value > most)
		errx(2, "--%s %s: not a number from 0 to %llu", name, optarg,
		     (unsigned long long)most);
	return value;
}

static enum make_trace_kind kind(void)
{
	for (unsigned i = 0; i < MAKE_TRACE_KIND_COUNT; i++) {
		if (strcmp(kinds[i], optarg) == 0)
			return (enum make_trace_kind)i;
	}
	errx(2, "--kind %s: not heap, mmap, realloc or mixed", optarg);
}

static void take(struct arguments *arguments, int option)
{
	struct make_trace_options *to = &arguments->options;

	switch (option) {
	case 's':
		to->seed = number("seed", UINT64_MAX);
		break;
	case 'e':
		to->n_events = number("events", UINT64_C(1) << 40);
		break;
	case 'f':
		to->n_samples = number("samples", UINT64_C(1) << 40);
		break;
	case 'a':
		to->are_accesses = true;
		break;
	case 'p':
		to->n_processes = (uint32_t)number("processes", UINT32_MAX);
		break;
	case 't':
		to->n_threads = (uint32_t)number("threads", UINT32_MAX);
		break;
	case 'l':
		to->n_live = (uint32_t)number("live", UINT32_MAX);
		break;
	case 'c':
		to->n_stacks = (uint32_t)number("stacks", UINT32_MAX);
		break;
	case 'k':
		to->kind = kind();
		break;
	case 'o':
		arguments->arg_output = optarg;
		break;
	case 'j':
		arguments->arg_truth = optarg;
		break;
	default:
		errx(2, "usage: make-trace [--seed N] [--events N] [--samples N] [--accesses] "
			"[--processes N] "
			"[--threads N] [--live N] [--stacks N] [--kind heap|mmap|realloc|mixed] "
			"-o FILE.mst [--truth FILE.json]");
	}
}

static void write_truth(const struct make_trace_truth *truth, const char *path)
{
	auto_fclose FILE *file = fopen(path, "we");

	if (!file)
		err(1, "%s", path);
	if (make_trace_truth_write(truth, file) < 0)
		err(1, "%s", path);
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .options = MAKE_TRACE_DEFAULTS };
	struct make_trace_truth *truth = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1)
		take(&arguments, option);
	if (optind < argc || !arguments.arg_output)
		take(&arguments, '?');

	int fd = open(arguments.arg_output, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		err(1, "%s", arguments.arg_output);
	int r = make_trace(fd, &arguments.options, &truth);
	if (r < 0)
		errx(1, "%s: %s", arguments.arg_output, strerror(-r));
	if (arguments.arg_truth)
		write_truth(truth, arguments.arg_truth);
	make_trace_truth_free(truth);
	return 0;
}
