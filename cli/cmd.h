#pragma once
/*
 * What the sub-commands share. Each lies in a file cmd-<name>.c; schemas/commands.def lists them.
 */
#include "cli/options/option.h"

/* Exit statuses; `record` ends with that of the program instead. */
enum cmd_status {
	CMD_DONE = 0,
	CMD_FAILED = 1,
	CMD_USAGE = 2,
};

/*
 * Run a sub-command: its options are parsed, the number of operands is as commands.def says.
 * Returns the exit status. Only these functions and main write to standard output and error.
 */
#define COMMAND(id, name, ...) int cmd_##name(const struct option_set *options);
#include "schemas/commands.def"
#undef COMMAND

/*
 * Whether a file that is to be made may be: it is not there, or no regular file (a device, a pipe),
 * or --force is given. Else says so and returns CMD_FAILED. "-" is standard output.
 */
int cmd_check_new(const char *path, const struct option_set *options);

/*
 * Print one line "memsight: ..." on standard error; a newline is added. Say what is wrong and what
 * to do. Returns the status, to be returned on.
 */
int cmd_say(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define cmd_fail(...)  cmd_say(CMD_FAILED, __VA_ARGS__)
#define cmd_usage(...) cmd_say(CMD_USAGE, __VA_ARGS__)
#define cmd_warn(...)  cmd_say(CMD_DONE, __VA_ARGS__)
