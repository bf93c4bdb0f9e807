#include "cli/cmd.h"

int cmd_report(const struct option_set *options)
{
	return cmd_fail("%s: this build cannot do that", option_command(options->command)->name);
}
