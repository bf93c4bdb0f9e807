/*
 * Runs at build time: prints the completion of a shell (bash, zsh or fish), made from schemas/commands.def and
 * schemas/options.def.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/generate/completion.h"

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

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = {
		{ "bash", completion_bash },
		{ "zsh", completion_zsh },
		{ "fish", completion_fish },
	};

	for (size_t i = 0; argc == 2 && i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(argv[1], shells[i].name) == 0) {
			shells[i].print();
			return EXIT_SUCCESS;
		}
	}
	fputs("usage: make-completion bash|zsh|fish\n", stderr);
	return EXIT_FAILURE;
}
