/* What the command gets preloaded and in its environment, and what of it cannot be recorded. */
#include "runner/run-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elf-check.h"
#include "runner/launch/library.h"
#include "runner/processes/image-proc.h"
#include "schemas/agent.h"
#include "schemas/recording.h"

/* Append the library at path to what is preloaded. */
static int preload(struct run *run, const char *path)
{
	size_t n = strlen(run->library);

	if (n > 0)
		run->library[n++] = ':';
	int err = library_preload_name(path, run->recording.folder, run->library + n,
				       sizeof(run->library) - n);
	return err < 0 ? run_fail(run, err, "cannot name %s for the loader", path) : 0;
}

int run_libraries_find(struct run *run)
{
	char path[PATH_MAX];

	if (run->options->no_alloc)
		return 0;
	int err = library_find(run->options->library, path, sizeof(path));
	if (err < 0)
		return run_fail(run, err, "%s is neither beside memsight nor installed",
				RECORDING_LIBRARY);
	err = preload(run, path);
	if (err < 0 || !run->placement.kind[0])
		return err;
	err = library_find_beside(RECORDING_HEAP_LIBRARY, path, sizeof(path));
	if (err < 0)
		return run_fail(run, err,
				"--heap: %s is neither beside memsight nor installed (it is built "
				"where libmemkind and libnuma are)",
				RECORDING_HEAP_LIBRARY);
	return preload(run, path);
}

void run_agent_find(struct run *run)
{
	const struct run_options *options = run->options;

	if (options->no_alloc || !options->find_entries ||
	    library_find_beside(AGENT_LIBRARY, run->agent, sizeof(run->agent)) < 0)
		return;
	run->agent_order = (struct inject_order){ run->agent, run->recording.socket_path,
						  options->find_entries, options->forget_entries };
}

void run_agent_start(struct run *run)
{
	if (!run->agent[0])
		return;
	if (!run->options->no_follow &&
	    helper_start(&run->agent_order, run->recording.static_fds, &run->helper) == 0)
		run->pool.control->flags |= RING_FLAG_STATIC;
	/* Its alone: if it is killed nobody waits for an answer. */
	for (size_t i = 0; i < 2; i++)
		cleanup_close(&run->recording.static_fds[i]);
}

/* What a command is whose allocations cannot be recorded. */
static const char *const untraced_kinds[TRACE_NOT_COUNT] = {
	[TRACE_NOT_STATIC] = "is linked statically",
	[TRACE_NOT_SETUID] = "runs with more rights than we have (setuid)",
	[TRACE_NOT_32BIT] = "is a 32-bit program",
	[TRACE_NOT_SANITIZER] = "is built with a sanitizer, which has its own malloc",
};

/* The heap's library needs glibc; no name of the list has a colon inside. */
static void leave_heap_out(struct run *run)
{
	char line[PATH_MAX + 128];

	*strchrnul(run->library, ':') = '\0';
	snprintf(line, sizeof(line),
		 "--heap: %s is a program of musl: its blocks stay in its own heap",
		 run->options->command[0]);
	run_say(run, line);
}

void run_say_without_code(const struct run *run)
{
	if (run->options->dump_signal)
		run_say(run, "--dump-signal: there is no handler in such a program: the signal "
			     "does what it does without memsight, and mostly ends it");
	if (samples_signal_period(&run->collector.samples))
		run_say(run, "--source signal: such a program is not sampled by it; see --source "
			     "clock");
}

/* What was asked for and the agent does not have (docs/events.md). */
static void tell_static(struct run *run)
{
	if (run->placement.kind[0])
		run_say(run,
			"--heap: blocks of a program that is linked statically stay in its own "
			"heap: its libraries cannot be loaded; link it dynamically, or see "
			"--membind");
	if (run->options->load)
		run_say(run,
			"--load: a program that is linked statically loads no plug-ins; what it "
			"starts may");
}

/*
 * What to preload. NULL: nothing, since ld.so would complain on the program's standard error, or a
 * sanitizer would not run.
 */
static const char *choose_preload(struct run *run)
{
	int why_not = image_command_why_not(run->program);
	char line[PATH_MAX + 128];

	if (program_list_has_sanitizer(getenv(RECORDING_ENV_PRELOAD)))
		why_not = TRACE_NOT_SANITIZER;
	run->is_static = why_not == TRACE_NOT_STATIC && run->agent[0];
	if (run->is_static) {
		tell_static(run);
		return run->library; /* for what it starts */
	}
	if (untraced_kinds[why_not]) {
		snprintf(line, sizeof(line), "%s %s: its allocations%s are not recorded",
			 run->options->command[0], untraced_kinds[why_not],
			 run->options->functions ? " and functions" : "");
		run_say(run, line);
		run_say_without_code(run);
	} else if (image_file_has_malloc(run->program) && !image_command_is_musl(run->program)) {
		snprintf(line, sizeof(line),
			 "%s has a malloc of its own: blocks that it does not take from the C "
			 "library are not recorded",
			 run->options->command[0]);
		run_say(run, line);
	}
	if (run->placement.kind[0] && image_command_is_musl(run->program))
		leave_heap_out(run);
	return why_not == TRACE_NOT_32BIT || why_not == TRACE_NOT_SANITIZER ? NULL : run->library;
}

int run_environment_make(struct run *run)
{
	auto_free char *placement = NULL;

	if (run->options->no_alloc)
		return environment_copy(environ, &run->envp);
	if (run->placement.kind[0]) {
		placement = placement_variable(&run->placement, run->options);
		if (!placement)
			return -ENOMEM;
	}
	return environment_make(environ, choose_preload(run), run->recording.socket_path, placement,
				&run->envp);
}
