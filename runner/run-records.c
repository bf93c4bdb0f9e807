#include "runner/run-records.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/collect-words.h"
#include "runner/host/host-facts.h"
#include "runner/trace-records-write.h"

/* What changes how memory is used; nothing that could hold a secret. */
static const char *const variables[] = {
	"GLIBC_TUNABLES",
	"HEIMDALLR_PMEMDIR",
	"HEIMDALLR_PMEMSIZE",
	"GOMP_CPU_AFFINITY",
	"LD_BIND_NOW",
	"KMP_AFFINITY",
	"LANG",
	"LC_ALL",
	"LD_LIBRARY_PATH",
	"LD_PRELOAD",
	"MEMKIND_ARENA_NUM_PER_KIND",
	"MEMKIND_DAX_KMEM_NODES",
	"MEMKIND_HBW_NODES",
	"TRAC_PMEMDIR",
	"TRAC_PMEMSIZE",
	"TRAC_STACKLEVELS",
	"TRAC_THRESHOLD",
	"MALLOC_ARENA_MAX",
	"MALLOC_MMAP_THRESHOLD_",
	"MALLOC_TRIM_THRESHOLD_",
	"MEMSIGHT_OPTIONS",
	"OMP_NUM_THREADS",
	"OMP_PLACES",
	"OMP_PROC_BIND",
	"PYTHONHASHSEED",
	"PYTHONMALLOC",
	"SLURM_JOB_ID",
	"SLURM_NTASKS",
	"SLURM_PROCID",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"PMI_RANK",
	"PATH",
};

static size_t command_bytes(char *const *command)
{
	size_t n = 0;

	for (; *command; command++)
		n += strlen(*command) + 1;
	return n;
}

/* Arguments separated by NUL. NULL: no memory. */
static char *join_command(char *const *command, size_t *ret_bytes)
{
	char *joined = malloc(command_bytes(command) + 1);
	size_t n = 0;

	for (; joined && *command; command++) {
		memcpy(joined + n, *command, strlen(*command) + 1);
		n += strlen(*command) + 1;
	}
	*ret_bytes = n > 0 ? n - 1 : 0;
	return joined;
}

static int store_run(struct trace_writer *writer, const struct run_options *options)
{
	const char *slash = strrchr(options->command[0], '/');
	const char *file = slash ? slash + 1 : options->command[0];
	const char *program = options->program ? options->program : file;
	const char *mode = options->mode ? options->mode : "default";
	char directory[PATH_MAX] = "";
	size_t n_bytes = 0;
	auto_free char *command = join_command(options->command, &n_bytes);
	struct timespec now;

	if (!command)
		return -ENOMEM;
	if (!getcwd(directory, sizeof(directory)))
		directory[0] = '\0';
	clock_gettime(CLOCK_REALTIME, &now);
	struct trace_run record = {
		.head.type = TRACE_RECORD_RUN,
		.start_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
		.repetition = options->repetition ? options->repetition : 1,
	};
	return trace_writer_add(writer, &record, trace_text(program), trace_text(mode),
				trace_bytes(command, n_bytes), trace_text(directory));
}

struct fact_writer {
	struct trace_writer *writer;
	uint64_t ticks;
};

static int write_fact(void *context, const char *key, const char *value)
{
	struct fact_writer *to = context;

	return store_fact(to->writer, key, value, to->ticks, false);
}

static int store_environment(struct fact_writer *to)
{
	char key[64];
	int err = 0;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && err == 0; i++) {
		const char *value = getenv(variables[i]);

		snprintf(key, sizeof(key), "env.%s", variables[i]);
		if (value)
			err = write_fact(to, key, value);
	}
	return err;
}

static int store_number(struct fact_writer *to, const char *key, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, value);
	return write_fact(to, key, digits);
}

/* What is recorded of allocations, and what becomes of it. */
static int store_allocations(struct fact_writer *to, const struct run_options *options)
{
	char events[COLLECT_TEXT_BYTES];
	int err;

	collect_format(options->events ? options->events : RING_EVENTS_ALL, events);
	err = write_fact(to, "memsight.events", events);

	if (err == 0)
		err = store_number(to, "memsight.min_bytes", options->min_bytes);
	if (err == 0)
		err = store_number(to, "memsight.sample_bytes", options->sample_bytes);
	if (err == 0)
		err = write_fact(to, "memsight.sink", options->null_sink ? "null" : "trace");
	if (err == 0)
		err = write_fact(to, "memsight.api", options->api_marks ? "marks" : "obey");
	return err;
}

static int store_options(struct fact_writer *to, const struct run_options *options)
{
	static const char *const stacks[] = {
		[RING_STACKS_NONE] = "none", [RING_STACKS_FP] = "fp", [RING_STACKS_DWARF] = "dwarf"
	};
	int err = write_fact(to, "memsight.version", MEMSIGHT_VERSION);

	if (err == 0)
		err = write_fact(to, "memsight.stacks", stacks[options->stacks]);
	if (err == 0)
		err = write_fact(to, "memsight.alloc", options->no_alloc ? "no" : "yes");
	if (err == 0)
		err = write_fact(to, "memsight.follow", options->no_follow ? "no" : "yes");
	if (err == 0)
		err = write_fact(to, "memsight.private", options->private_samples ? "yes" : "no");
	if (err == 0)
		err = write_fact(to, "memsight.natural", options->is_natural ? "yes" : "no");
	if (err == 0)
		err = store_allocations(to, options);
	if (err == 0)
		err = store_number(to, "memsight.buffer_bytes", options->buffer_bytes);
	if (err == 0)
		err = store_number(to, "memsight.stack_depth",
				   options->max_frames ? options->max_frames : RING_MAX_FRAMES);
	return err;
}

int run_records_begin(struct trace_writer *writer, const struct run_options *options,
		      const struct clock_pair *first_pair)
{
	struct fact_writer facts = { writer, first_pair->ticks };
	int err = store_run(writer, options);

	if (err == 0)
		err = store_clock(writer, first_pair);
	if (err == 0)
		err = run_facts(write_fact, &facts);
	if (err == 0)
		err = store_options(&facts, options);
	if (err == 0)
		err = store_environment(&facts);
	for (size_t i = 0; i < options->n_facts && err == 0; i++)
		err = write_fact(&facts, options->facts[i].key, options->facts[i].value);
	return err;
}
