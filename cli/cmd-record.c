#include "cli/cmd.h"

int cmd_record(const struct option_set *options)
{
	return cmd_fail("%s: this build cannot do that", option_command(options->command)->name);
}
