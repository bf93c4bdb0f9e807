/* memsight attach, memsight detach */
#include <inttypes.h>
#include <stdint.h>

#include "cli/cmd-record.h"
#include "cli/cmd.h"
#include "cli/options/record-options.h"
#include "common/parse.h"
#include "runner/attach/attach.h"

/* A time that an option gives, in ns; 0 without. CMD_USAGE: it is none. */
static int read_time(const struct option_set *options, enum option_id id, uint64_t *ret_ns)
{
	const char *text = option_text(options, id);
	int64_t ns = 0;

	if (text && (parse_duration(text, &ns) < 0 || ns <= 0))
		return cmd_usage("--%s: '%s' is no time such as 30s or 500ms", option_row(id)->name,
				 text);
	*ret_ns = (uint64_t)ns;
	return CMD_DONE;
}

int cmd_attach(const struct option_set *options)
{
	const struct heimdallr none = { .n = 0 };
	struct run_options run = record_options_of(options);
	char message[ATTACH_MESSAGE_BYTES];

	/* What a process can be given only before it starts. */
	run.command = NULL;
	if (read_time(options, OPTION_ATTACH_TIMEOUT, &run.attach_timeout_ns) != CMD_DONE ||
	    read_time(options, OPTION_DURATION, &run.duration_ns) != CMD_DONE)
		return CMD_USAGE;
	if (attach_find(options->operands[0], &run.attach_pid, message) < 0)
		return cmd_fail("%s", message);
	return cmd_record_run(&run, options, &none);
}

int cmd_detach(const struct option_set *options)
{
	char message[ATTACH_MESSAGE_BYTES];
	struct attach_outcome outcome;
	uint64_t timeout_ns;
	pid_t pid;

	if (read_time(options, OPTION_ATTACH_TIMEOUT, &timeout_ns) != CMD_DONE)
		return CMD_USAGE;
	if (attach_find(options->operands[0], &pid, message) < 0 || attach_check(pid, message) < 0)
		return cmd_fail("%s", message);
	if (!attach_has_library(pid))
		return cmd_fail("memsight is not attached to process %d", (int)pid);
	if (attach_leave(pid, timeout_ns, &outcome) < 0)
		return cmd_fail("%s", outcome.message);
	if (!option_flag(options, OPTION_QUIET))
		cmd_warn("process %d is left: %u places in tables put back, its %u threads stood "
			 "for %.1f ms",
			 (int)pid, outcome.n_slots, outcome.n_threads,
			 (double)outcome.stood_ns / 1e6);
	return CMD_DONE;
}
