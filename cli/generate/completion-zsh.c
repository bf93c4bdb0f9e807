#include "cli/generate/completion.h"

#include <stdio.h>

/* A help line within the brackets of _arguments, or behind the colon of _describe. */
static void print_help(const char *text)
{
	char quoted[2] = "";

	for (; *text; text++) {
		if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
			putchar('\\');
		quoted[0] = *text;
		completion_quote(quoted);
	}
}

static void print_choices(const struct option_row *row)
{
	for (int i = 0; i < CHOICE_COUNT; i++)
		if (completion_has_choice(row, (enum option_choice)i))
			printf(" %s", option_choice_name((enum option_choice)i));
}

/* ":what:action" of a value. */
static void print_value(const struct option_row *row)
{
	enum completion_kind kind = completion_of(row);

	if (kind == COMPLETION_NOTHING)
		return;
	fputs(completion_is_optional(row) ? "::" : ":", stdout);
	print_help(row->argument ? row->argument : row->name);
	switch (kind) {
	case COMPLETION_FILE:
		fputs(":_files", stdout);
		break;
	case COMPLETION_FOLDER:
		fputs(":_files -/", stdout);
		break;
	case COMPLETION_CHOICE:
		fputs(":(", stdout);
		print_choices(row);
		fputs(" )", stdout);
		break;
	case COMPLETION_WORDS:
		fputs(":_sequence compadd -", stdout);
		print_choices(row);
		break;
	default:
		fputs(": ", stdout);
	}
}

static void print_option(const struct option_row *row)
{
	const char *equals = completion_of(row) == COMPLETION_NOTHING ? ""
			     : completion_is_optional(row)	      ? "=-"
								      : "=";

	fputs(" \\\n\t\t", stdout);
	if (row->type == OPTION_TEXTS)
		printf("'*--%s%s", row->name, equals);
	else if (row->letter)
		printf("'(-%c --%s)'{-%c%s,--%s%s}'", row->letter, row->name, row->letter,
		       *equals ? "+" : "", row->name, equals);
	else
		printf("'--%s%s", row->name, equals);
	putchar('[');
	print_help(row->help);
	putchar(']');
	print_value(row);
	putchar('\'');
}

static void print_options(enum command_id command)
{
	for (int id = 0; id < OPTION_COUNT; id++)
		if (option_is_of((enum option_id)id, command))
			print_option(option_row((enum option_id)id));
}

static void print_command(enum command_id command)
{
	printf("_memsight_%s()\n{\n\t_arguments -s%s", option_command(command)->name,
	       command == COMMAND_RECORD ? " -S" : "");
	print_options(command);
	switch (completion_operands(command)) {
	case COMPLETION_TEXT:
		fputs(" \\\n\t\t'(-)1:program:{ _command_names -e; _files }' \\\n"
		      "\t\t'*::argument:_normal'",
		      stdout);
		break;
	case COMPLETION_FILE:
		fputs(" \\\n\t\t'*:file:_files'", stdout);
		break;
	default:
		break;
	}
	fputs("\n}\n\n", stdout);
}

static void print_main(void)
{
	fputs("_memsight()\n{\n\tlocal curcontext=\"$curcontext\" state line\n\tlocal -a commands\n"
	      "\tcommands=(\n",
	      stdout);
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		printf("\t\t'%s:", option_command((enum command_id)i)->name);
		print_help(option_command((enum command_id)i)->summary);
		fputs("'\n", stdout);
	}
	fputs("\t\t'help:show the help of a command'\n\t)\n\t_arguments -C", stdout);
	print_options(COMMAND_GLOBAL);
	fputs(" \\\n\t\t'1: :->command' \\\n\t\t'*:: :->rest' && return\n"
	      "\tcase $state in\n\tcommand) _describe -t commands command commands ;;\n"
	      "\trest)\n\t\tcurcontext=\"${curcontext%:*:*}:memsight-$words[1]:\"\n"
	      "\t\tif [[ $words[1] == help ]]; then\n"
	      "\t\t\t_describe -t commands command commands\n"
	      "\t\telif (( $+functions[_memsight_$words[1]] )); then\n"
	      "\t\t\t_memsight_$words[1]\n\t\tfi ;;\n\tesac\n}\n\n_memsight \"$@\"\n",
	      stdout);
}

void completion_zsh(void)
{
	fputs("#compdef memsight\n"
	      "# Completion of memsight for zsh, made from the "
	      "tables of its commands and options.\n\n",
	      stdout);
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++)
		print_command((enum command_id)i);
	print_main();
}
