/* What a run says, and its file: its name, the trace that begins in it, and the disk below it. */
#include "runner/run-internal.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/cleanup.h"
#include "runner/run-command.h"

/* Put the one line for a person together; returns err. */
__attribute__((format(printf, 3, 4))) int run_fail(struct run *run, int err, const char *format,
						   ...)
{
	va_list arguments;

	va_start(arguments, format);
	int n = vsnprintf(run->summary->problem, sizeof(run->summary->problem), format, arguments);
	va_end(arguments);
	if (n >= 0 && (size_t)n < sizeof(run->summary->problem) && err < 0)
		snprintf(run->summary->problem + n, sizeof(run->summary->problem) - (size_t)n,
			 ": %s", strerror(-err));
	return err;
}

int run_fail_command(struct run *run, int err)
{
	const char *name = run->options->command[0];
	char why[320];

	run_command_explain(name, err, why, sizeof(why));
	run_fail(run, 0, "cannot run '%s': %s", name, why);
	return err;
}

void run_say(const struct run *run, const char *line)
{
	if (run->observer && run->observer->warn)
		run->observer->warn(run->observer->user, line);
}

static int explain_output(struct run *run, int err)
{
	const char *path = run->output.path;

	switch (-err) {
	case EEXIST:
		return run_fail(run, err,
				"%s is there already; --force overwrites it, -o names another",
				path);
	case EINVAL:
		return run_fail(run, 0,
				"the output '%s' has a %% that is none of %%e %%p %%r %%n %%%%",
				run->options->output),
		       err;
	case ENOTSUP:
		return run_fail(run, 0, "%s is no regular file; -o names another", path), err;
	default:
		return run_fail(run, err,
				"cannot write %s (-o FILE or --dir DIR names another place)",
				path[0] ? path : "the output");
	}
}

int run_output_open(struct run *run)
{
	struct trace_file_header header = {
		.machine = EM_X86_64,
		.clock = (uint16_t)run->pool.control->clock,
		.ticks_per_second = run->ticks_per_second,
		.start_ticks = run->first_pair.ticks,
	};
	struct output_names names = {
		.pattern = run->options->output,
		.dir = run->options->dir,
		.program = run->options->command[0],
		.pid = run->launch.pid,
		.beside = run->options->beside,
		.force = run->options->force,
	};
	int err = output_open(&names, &run->output);

	if (err < 0)
		return explain_output(run, err);
	if (getrandom(header.recording_id, sizeof(header.recording_id), 0) < 0)
		return run_fail(run, -errno, "cannot make a random number");
	err = trace_writer_open(steal_fd(&run->output.fd), &header, &run->writer);
	return err < 0 ? explain_output(run, err) : 0;
}

int run_output_check(struct run *run)
{
	uint64_t free_bytes, total_bytes;

	if (output_disk(&run->output, &free_bytes, &total_bytes) < 0 ||
	    free_bytes >= total_bytes / 20)
		return 0;
	run_fail(run, 0, "less than 5 %% of the disk of %s are free; --dir names another",
		 run->output.path);
	return -ENOSPC;
}

void run_output_name(struct run *run)
{
	run->writer = trace_writer_close(run->writer);
	int err = output_rename(&run->output);
	run->summary->has_trace = true;
	snprintf(run->summary->output, sizeof(run->summary->output), "%s",
		 err < 0 ? run->output.partial : run->output.path);
	if (err < 0)
		run_fail(run, err, "cannot name the trace %s", run->output.path);
	run->keeps_partial = err < 0;
}
