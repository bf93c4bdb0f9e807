#include "cli/cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/text.h"

int cmd_say(int status, const char *format, ...)
{
	/* One write per line: other programs write to the same terminal. */
	char line[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	text_hide_controls(line); /* one line, and names of files tell the terminal nothing */
	fflush(stdout);
	fprintf(stderr, "memsight: %s\n", line);
	return status;
}

int cmd_check_new(const char *path, const struct option_set *options)
{
	struct stat status;

	if (strcmp(path, "-") == 0 || option_flag(options, OPTION_FORCE) ||
	    lstat(path, &status) < 0)
		return CMD_DONE;
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
		return CMD_DONE;
	return cmd_fail("%s is there already: --force overwrites it", path);
}
