#pragma once
/*
 * What the shells complete, told from the tables of commands and options: for make-completion,
 * which runs at build time.
 */
#include "cli/options/option.h"

/* What a shell offers for the value of an option. */
enum completion_kind {
	COMPLETION_NOTHING, /* the option takes no value */
	COMPLETION_TEXT, /* a value that nobody can guess */
	COMPLETION_FILE,
	COMPLETION_FOLDER,
	COMPLETION_CHOICE, /* one of its choices */
	COMPLETION_WORDS, /* several of them, with commas */
};

enum completion_kind completion_of(const struct option_row *row);

/* Whether the value may be left out: it then needs a `='. */
bool completion_is_optional(const struct option_row *row);

/*
 * What the operands of a command are: COMPLETION_NOTHING, _FILE, or _TEXT for a program with its
 * arguments.
 */
enum completion_kind completion_operands(enum command_id command);

/* Whether the choice is one that this version takes, of the option. */
bool completion_has_choice(const struct option_row *row, enum option_choice choice);

/* Write a text so that it may stand between single quotes of a shell. */
void completion_quote(const char *text);

void completion_bash(void);
void completion_zsh(void);
void completion_fish(void);
