#include "cli/copy-run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "copy/copy-note.h"
#include "copy/elf-copy.h"
#include "schemas/copy.h"

static const char *copy_of(const struct option_set *options)
{
	return options->command == COMMAND_RECORD ? option_text(options, OPTION_COPY) : NULL;
}

static int complain(struct option_set *options, const char *path, const char *why)
{
	snprintf(options->message, OPTION_MESSAGE_BYTES, "--copy: %.100s: %.100s", path, why);
	return -EINVAL;
}

int copy_options_take(struct option_set *options)
{
	const char *path = copy_of(options);
	char *words[OPTION_MAX_WORDS];
	struct copy_note note;
	void *bytes = NULL;

	if (!path)
		return 0;
	int r = copy_note_read(path, &bytes, &note);
	if (r == -ENOENT || r == -EBADMSG)
		return complain(options, path,
				access(path, F_OK) != 0 ? strerror(errno)
				: r == -ENOENT ? "is no copy that `memsight instrument' has made"
					       : "was made by another version of memsight, or is "
						 "damaged");
	if (r < 0)
		return r == -ENOMEM ? r : complain(options, path, strerror(-r));
	r = option_keep(options, bytes);
	if (r == 0 && note.n_words > OPTION_MAX_WORDS)
		return complain(options, path, "has too many options");
	const char *word = note.words;
	for (uint32_t i = 0; r == 0 && i < note.n_words; i++, word = copy_note_next(word))
		words[i] = (char *)(uintptr_t)word;
	r = r ?: option_take_words(options, words, note.n_words, OPTION_FROM_COPY);
	return r == 0 ? option_take_preset(options) : r;
}

int copy_run_unrecorded(const struct option_set *options, int status)
{
	const char *name = copy_of(options) ? option_text(options, OPTION_ARGV0) : NULL;
	char **command = options->operands;

	if (!copy_of(options) || options->n_operands == 0)
		return status;
	cmd_warn("%s runs unrecorded", command[0]);
	const char *program = command[0];
	if (name)
		command[0] = (char *)(uintptr_t)name;
	setenv(COPY_ENV, COPY_STARTED, 1);
	execvp(program, command);
	return cmd_fail("cannot start %s: %s", program, strerror(errno));
}
