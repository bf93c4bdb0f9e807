#include "cli/generate/completion.h"

#include <stdio.h>
#include <string.h>

bool completion_is_optional(const struct option_row *row)
{
	return row->argument && row->argument[0] == '[';
}

enum completion_kind completion_of(const struct option_row *row)
{
	static const struct {
		const char *argument;
		enum completion_kind kind;
	} arguments[] = {
		{ "FILE", COMPLETION_FILE },	 { "[FILE]", COMPLETION_FILE },
		{ "FILE.mst", COMPLETION_FILE }, { "PERF.DATA", COMPLETION_FILE },
		{ "DATABASE", COMPLETION_FILE }, { "DIR", COMPLETION_FOLDER },
	};

	if (row->type == OPTION_FLAG || row->type == OPTION_ACTION)
		return COMPLETION_NOTHING;
	if (row->type == OPTION_CHOICE)
		return COMPLETION_CHOICE;
	if (row->type == OPTION_WORDS || row->type == OPTION_RATES)
		return COMPLETION_WORDS;
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
		if (strcmp(row->argument, arguments[i].argument) == 0)
			return arguments[i].kind;
	return COMPLETION_TEXT;
}

enum completion_kind completion_operands(enum command_id command)
{
	if (command == COMMAND_RECORD)
		return COMPLETION_TEXT;
	return option_command(command)->max_operands ? COMPLETION_FILE : COMPLETION_NOTHING;
}

bool completion_has_choice(const struct option_row *row, enum option_choice choice)
{
	const struct choice_row *of = option_choice_row(choice);

	return of->option == row->id && !of->refusal;
}

void completion_quote(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
}
