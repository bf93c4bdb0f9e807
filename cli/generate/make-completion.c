/*
 * Runs at build time: prints the completion of a shell, made from schemas/commands.def and
 * schemas/options.def. What does not depend on these stands in completion.bash and completion.zsh,
 * whose path is the second argument.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/option.h"

/* ---- What is told from the tables ---- */

/* What a shell offers for the value of an option. */
enum kind {
	KIND_NOTHING, /* the option takes no value */
	KIND_TEXT, /* a value that nobody can guess */
	KIND_FILE,
	KIND_FOLDER,
	KIND_CHOICE, /* one of its choices */
	KIND_WORDS, /* several of them, with commas */
};

/* Whether the value may be left out: it then needs a `='. */
static bool is_optional(const struct option_row *row)
{
	return row->argument && row->argument[0] == '[';
}

static enum kind kind_of(const struct option_row *row)
{
	static const struct {
		const char *argument;
		enum kind kind;
	} arguments[] = {
		{ "FILE", KIND_FILE },	    { "[FILE]", KIND_FILE },   { "FILE.mst", KIND_FILE },
		{ "PERF.DATA", KIND_FILE }, { "DATABASE", KIND_FILE }, { "DIR", KIND_FOLDER },
	};

	if (row->type == OPTION_FLAG || row->type == OPTION_ACTION)
		return KIND_NOTHING;
	if (row->type == OPTION_CHOICE)
		return KIND_CHOICE;
	if (row->type == OPTION_WORDS || row->type == OPTION_RATES)
		return KIND_WORDS;
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
		if (strcmp(row->argument, arguments[i].argument) == 0)
			return arguments[i].kind;
	return KIND_TEXT;
}

/* What the operands of a command are: KIND_NOTHING, _FILE, or _TEXT for a program. */
static enum kind operands_of(enum command_id command)
{
	if (command == COMMAND_RECORD)
		return KIND_TEXT;
	return option_command(command)->max_operands ? KIND_FILE : KIND_NOTHING;
}

static const char *name_of(enum command_id command)
{
	return command == COMMAND_GLOBAL ? "" : option_command(command)->name;
}

/* Commands from the first one on: COMMAND_GLOBAL, or the one behind it. */
static void each_command(enum command_id first, void (*print)(enum command_id command))
{
	for (int i = (int)first; i < COMMAND_COUNT; i++)
		print((enum command_id)i);
}

static void each_option(enum command_id command,
			void (*print)(enum command_id command, const struct option_row *row))
{
	for (int id = 0; id < OPTION_COUNT; id++)
		if (option_is_of((enum option_id)id, command))
			print(command, option_row((enum option_id)id));
}

static void print_name(enum command_id command)
{
	printf(" %s", name_of(command));
}

/* Those that this version takes. */
static void print_choices(const struct option_row *row)
{
	for (int i = 0; i < CHOICE_COUNT; i++) {
		const struct choice_row *choice = option_choice_row((enum option_choice)i);

		if (choice->option == row->id && !choice->refusal)
			printf(" %s", choice->name);
	}
}

#define FIRST_COMMAND ((enum command_id)(COMMAND_GLOBAL + 1))

/* ---- bash: functions that say what there is, used by completion.bash ---- */

static void bash_option_name(enum command_id command, const struct option_row *row)
{
	(void)command;
	printf(" --%s", row->name);
}

static void bash_options(enum command_id command)
{
	printf("\t'%s') echo", name_of(command));
	each_option(command, bash_option_name);
	puts(" ;;");
}

static void bash_operands(enum command_id command)
{
	if (operands_of(command) == KIND_FILE)
		printf("\t%s) echo file ;;\n", name_of(command));
}

static void bash_value(enum command_id command, const struct option_row *row)
{
	static const char *const kinds[] = {
		[KIND_TEXT] = "text",  [KIND_FILE] = "file",   [KIND_FOLDER] = "folder",
		[KIND_CHOICE] = "one", [KIND_WORDS] = "words",
	};
	enum kind kind = kind_of(row);

	if (kind == KIND_NOTHING)
		return;
	printf("\t%s:--%s", name_of(command), row->name);
	if (row->letter)
		printf(" | %s:-%c", name_of(command), row->letter);
	printf(") echo %s%s", is_optional(row) ? "optional " : "", kinds[kind]);
	print_choices(row);
	puts(" ;;");
}

static void bash_values(enum command_id command)
{
	each_option(command, bash_value);
}

static void print_bash(void)
{
	fputs("# Completion of memsight for bash, made from the tables of its commands and"
	      " options.\n\n_memsight_commands()\n{\n\techo help",
	      stdout);
	each_command(FIRST_COMMAND, print_name);
	puts("\n}\n\n_memsight_options()\n{\n\tcase $1 in");
	each_command(COMMAND_GLOBAL, bash_options);
	puts("\tesac\n}\n\n_memsight_operands()\n{\n\tcase $1 in");
	each_command(FIRST_COMMAND, bash_operands);
	puts("\tesac\n}\n\n_memsight_takes()\n{\n\tcase $1:$2 in");
	each_command(FIRST_COMMAND, bash_values);
	puts("\tesac\n}\n");
}

/* ---- zsh: a function for each command; completion.zsh has the end ---- */

/* Between single quotes, within the brackets of _arguments or behind the colon of _describe. */
static void zsh_help(const char *text)
{
	for (; *text; text++) {
		if (strchr("[]:\\", *text))
			putchar('\\');
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
}

/* ":what:action" of a value. */
static void zsh_value(const struct option_row *row)
{
	enum kind kind = kind_of(row);

	if (kind == KIND_NOTHING)
		return;
	fputs(is_optional(row) ? "::" : ":", stdout);
	zsh_help(row->argument ? row->argument : row->name);
	fputs(kind == KIND_FILE	    ? ":_files"
	      : kind == KIND_FOLDER ? ":_files -/"
	      : kind == KIND_CHOICE ? ":("
	      : kind == KIND_WORDS  ? ":_sequence compadd -"
				    : ": ",
	      stdout);
	print_choices(row);
	if (kind == KIND_CHOICE)
		fputs(" )", stdout);
}

static void zsh_option(enum command_id command, const struct option_row *row)
{
	const char *equals = kind_of(row) == KIND_NOTHING ? "" : is_optional(row) ? "=-" : "=";

	(void)command;
	fputs(" \\\n\t\t", stdout);
	if (row->type == OPTION_TEXTS)
		printf("'*--%s%s", row->name, equals);
	else if (row->letter)
		printf("'(-%c --%s)'{-%c%s,--%s%s}'", row->letter, row->name, row->letter,
		       *equals ? "+" : "", row->name, equals);
	else
		printf("'--%s%s", row->name, equals);
	putchar('[');
	zsh_help(row->help);
	putchar(']');
	zsh_value(row);
	putchar('\'');
}

static void zsh_command(enum command_id command)
{
	enum kind operands = operands_of(command);

	printf("_memsight_%s()\n{\n\t_arguments -s%s", name_of(command),
	       command == COMMAND_RECORD ? " -S" : "");
	each_option(command, zsh_option);
	if (operands == KIND_TEXT)
		fputs(" \\\n\t\t'(-)1:program:{ _command_names -e; _files }' \\\n"
		      "\t\t'*::argument:_normal'",
		      stdout);
	else if (operands == KIND_FILE)
		fputs(" \\\n\t\t'*:file:_files'", stdout);
	puts("\n}\n");
}

static void zsh_summary(enum command_id command)
{
	printf("\t\t'%s:", name_of(command));
	zsh_help(option_command(command)->summary);
	puts("'");
}

static void print_zsh(void)
{
	puts("#compdef memsight\n# Completion of memsight for zsh, made from the tables of its"
	     " commands and options.\n");
	each_command(FIRST_COMMAND, zsh_command);
	puts("_memsight()\n{\n\tlocal curcontext=\"$curcontext\" state line\n\tlocal -a commands\n"
	     "\tcommands=(");
	each_command(FIRST_COMMAND, zsh_summary);
	fputs("\t\t'help:show the help of a command'\n\t)\n\t_arguments -C", stdout);
	each_option(COMMAND_GLOBAL, zsh_option);
	puts(" \\");
}

/* ---- fish: a line for each option ---- */

/* Between single quotes fish takes a backslash as an escape. */
static void fish_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	puts("'");
}

/* Choices of lists are completed behind a comma. */
static void fish_value(const struct option_row *row)
{
	static const char *const begins[] = {
		[KIND_NOTHING] = "",
		[KIND_TEXT] = " -x",
		[KIND_FOLDER] = " -x -a '(__fish_complete_directories)'",
		[KIND_CHOICE] = " -x -a '",
		[KIND_WORDS] = " -x -a '(__fish_append ,",
	};
	enum kind kind = kind_of(row);

	if (kind == KIND_FILE)
		fputs(is_optional(row) ? " -F" : " -r -F", stdout);
	else
		fputs(begins[kind], stdout);
	print_choices(row);
	fputs(kind == KIND_CHOICE ? "'" : kind == KIND_WORDS ? ")'" : "", stdout);
}

static void fish_option(enum command_id command, const struct option_row *row)
{
	if (command == COMMAND_GLOBAL)
		fputs("complete -c memsight -n '__fish_use_subcommand'", stdout);
	else
		printf("complete -c memsight -n '__fish_seen_subcommand_from %s'",
		       name_of(command));
	printf(" -l %s", row->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	fish_value(row);
	fputs(" -d ", stdout);
	fish_quoted(row->help);
}

static void fish_command(enum command_id command)
{
	if (command != COMMAND_GLOBAL) {
		printf("complete -c memsight -n __fish_use_subcommand -f -a %s -d ",
		       name_of(command));
		fish_quoted(option_command(command)->summary);
	}
	each_option(command, fish_option);
	if (command == COMMAND_GLOBAL || operands_of(command) == KIND_FILE)
		return;
	printf("complete -c memsight -n '__fish_seen_subcommand_from %s' -f%s\n", name_of(command),
	       command == COMMAND_RECORD ? " -a '(__fish_complete_subcommand --fcs-skip=2)'" : "");
}

static void print_fish(void)
{
	puts("# Completion of memsight for fish, made from the tables of its commands and"
	     " options.\n");
	each_command(COMMAND_GLOBAL, fish_command);
	fputs("complete -c memsight -n __fish_use_subcommand -f -a help -d 'show the help of a"
	      " command'\ncomplete -c memsight -n '__fish_seen_subcommand_from help' -f -a '",
	      stdout);
	each_command(FIRST_COMMAND, print_name);
	puts("'");
}

static int print_file(const char *path)
{
	FILE *file = fopen(path, "re");
	int byte;

	while (file && (byte = getc(file)) != EOF)
		putchar(byte);
	return file && fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };

	for (size_t i = 0; argc >= 2 && i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(argv[1], shells[i].name) == 0) {
			shells[i].print();
			return argc > 2 ? print_file(argv[2]) : EXIT_SUCCESS;
		}
	}
	fputs("usage: make-completion bash|zsh|fish [REST]\n", stderr);
	return EXIT_FAILURE;
}
