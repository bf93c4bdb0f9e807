#include "cli/cmd.h"

int cmd_query(const struct option_set *options)
{
	return cmd_fail("%s: this build cannot do that", option_command(options->command)->name);
}
