#pragma once
#include "cli/options/option.h"

/*
 * Turn the text of an option into its value, by the type of its row. text NULL: the option stands
 * without an argument ("--force", "--report"). shown is what the user wrote, for the message
 * ("--freq", "MEMSIGHT_FREQ"). Returns 0, or -EINVAL with one line in message.
 */
int option_value_parse(enum option_id id, const char *text, const char *shown,
		       struct option_value *ret_value, char message[OPTION_MESSAGE_BYTES]);
