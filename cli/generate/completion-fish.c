#include "cli/generate/completion.h"

#include <stdio.h>

/* Between single quotes fish takes a backslash as an escape. */
static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('\'');
}

/*
 * Each choice on a line of its own with its help, parted by a tab; those of lists are completed
 * behind a comma.
 */
static void print_choices(const struct option_row *row)
{
	bool is_list = completion_of(row) == COMPLETION_WORDS;

	fputs(is_list ? " -a '(__fish_append ," : " -a '", stdout);
	for (int i = 0; i < CHOICE_COUNT; i++)
		if (completion_has_choice(row, (enum option_choice)i))
			printf(" %s", option_choice_name((enum option_choice)i));
	fputs(is_list ? ")'" : "'", stdout);
}

static void print_value(const struct option_row *row)
{
	switch (completion_of(row)) {
	case COMPLETION_NOTHING:
		break;
	case COMPLETION_FILE:
		fputs(completion_is_optional(row) ? " -F" : " -r -F", stdout);
		break;
	case COMPLETION_FOLDER:
		fputs(" -x -a '(__fish_complete_directories)'", stdout);
		break;
	case COMPLETION_CHOICE:
	case COMPLETION_WORDS:
		fputs(" -x", stdout);
		print_choices(row);
		break;
	default:
		fputs(" -x", stdout);
	}
}

static void print_option(enum command_id command, const struct option_row *row)
{
	fputs("complete -c memsight -n '__fish_", stdout);
	if (command == COMMAND_GLOBAL)
		fputs("use_subcommand'", stdout);
	else
		printf("seen_subcommand_from %s'", option_command(command)->name);
	printf(" -l %s", row->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	print_value(row);
	fputs(" -d ", stdout);
	print_quoted(row->help);
	putchar('\n');
}

static void print_command(enum command_id command)
{
	const struct command_row *row = option_command(command);

	if (command != COMMAND_GLOBAL) {
		printf("complete -c memsight -n __fish_use_subcommand -f -a %s -d ", row->name);
		print_quoted(row->summary);
		putchar('\n');
	}
	for (int id = 0; id < OPTION_COUNT; id++)
		if (option_is_of((enum option_id)id, command))
			print_option(command, option_row((enum option_id)id));
	if (command == COMMAND_GLOBAL || completion_operands(command) == COMPLETION_FILE)
		return;
	printf("complete -c memsight -n '__fish_seen_subcommand_from %s' -f", row->name);
	fputs(command == COMMAND_RECORD ? " -a '(__fish_complete_subcommand --fcs-skip=2)'\n"
					: "\n",
	      stdout);
}

void completion_fish(void)
{
	fputs("# Completion of memsight for fish, made from the "
	      "tables of its commands and options.\n\n",
	      stdout);
	for (int i = COMMAND_GLOBAL; i < COMMAND_COUNT; i++)
		print_command((enum command_id)i);
	fputs("complete -c memsight -n __fish_use_subcommand -f -a "
	      "help -d 'show the help of a command'\n"
	      "complete -c memsight -n '__fish_seen_subcommand_from help' -f -a '",
	      stdout);
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++)
		printf("%s%s", i > COMMAND_GLOBAL + 1 ? " " : "",
		       option_command((enum command_id)i)->name);
	puts("'");
}
