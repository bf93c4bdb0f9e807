#pragma once
/*
 * The config files: ./memsight.ini, and memsight.ini in $XDG_CONFIG_HOME or ~/.config. INI, with a
 * section for each command and the long names of its options as keys: docs/settings.md.
 *
 * A folder may come from anybody. So its file may set nothing that names a file to be written,
 * overwrites one, starts a program or lets out more of the user, and none is read that another user
 * owns or that all may write.
 */
#include "cli/options/option.h"

#define CONFIG_PATH_BYTES 1024

struct config_file {
	char path[CONFIG_PATH_BYTES]; /* as shown; "": there is no place for it */
	bool is_read;
	char why_not[96]; /* of one that is there and was not read; "" otherwise */
};

enum config_place {
	CONFIG_OF_FOLDER,
	CONFIG_OF_USER,
	CONFIG_COUNT,
};

/*
 * Take the options of options->command from both files, unless --no-config is set; call it behind
 * option_parse(). ret_files says what became of each. Returns 0, -EINVAL with one line
 * "FILE:LINE: what is wrong" in options->message, -ENOMEM. Sets globals of libinih, reads environ:
 * one thread at a time.
 */
int config_files_take(struct option_set *options, struct config_file ret_files[CONFIG_COUNT]);
