/*
 * Runs at build time: prints the manual page of one command (or of memsight itself, without an
 * argument) in roff, made from schemas/commands.def and schemas/options.def.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/option.h"

/* Print text so that roff takes none of it for its own. */
static void print_text(const char *text, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++) {
		switch (text[i]) {
		case '\\':
			fputs("\\e", stdout);
			break;
		case '-':
			fputs("\\-", stdout);
			break;
		case '\'':
			fputs("\\(aq", stdout);
			break;
		case '`':
			fputs("\\(ga", stdout);
			break;
		default:
			putchar(text[i]);
		}
	}
}

/* As a line of its own; \& keeps a leading dot from being a request. */
static void print_line(const char *text, size_t n_bytes)
{
	if (n_bytes > 0 && text[0] == '.')
		fputs("\\&", stdout);
	print_text(text, n_bytes);
	putchar('\n');
}

static void print_string(const char *text)
{
	print_line(text, strlen(text));
}

/* Lines that start with a tab are shown as they stand. */
static void print_example(const char *text, size_t n_bytes)
{
	const char *end = text + n_bytes;

	fputs(".PP\n.RS 4\n.EX\n", stdout);
	while (text < end) {
		size_t n = strcspn(text, "\n");

		print_line(text + 1, n - 1);
		text += n + (text + n < end);
	}
	fputs(".EE\n.RE\n", stdout);
}

/* Paragraphs are parted by an empty line. */
static void print_paragraphs(const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t n = end ? (size_t)(end - text) : strlen(text);

		if (*text == '\t') {
			print_example(text, n);
		} else {
			fputs(".PP\n", stdout);
			print_line(text, n);
		}
		text += n + (end ? 2 : 0);
	}
}

static void print_title(const char *name, const char *summary)
{
	printf(".TH \"%s\" 1 \"\" \"memsight %s\" \"memsight manual\"\n.nh\n.ad l\n.SH NAME\n",
	       name, MEMSIGHT_VERSION);
	print_text(name, strlen(name));
	fputs(" \\- ", stdout);
	print_string(summary);
}

static void print_option_head(const struct option_row *row)
{
	char argument[128];

	option_argument(row->id, argument, sizeof(argument));
	fputs(".TP\n", stdout);
	if (row->letter)
		printf("\\fB\\-%c\\fR, ", row->letter);
	fputs("\\fB\\-\\-", stdout);
	print_text(row->name, strlen(row->name));
	fputs("\\fR", stdout);
	if (argument[0] == '[')
		printf("[=\\fI%s", argument + 1);
	else if (argument[0])
		printf("=\\fI%s\\fR", argument);
	puts(argument[0] == '[' ? "\\fR" : "");
}

static void print_choice(enum option_choice id, enum command_id command)
{
	const struct choice_row *choice = option_choice_row(id);
	const char *preset =
		choice->option == OPTION_PRESET ? option_preset_words(id, command) : NULL;

	printf(".IP \"%s\" 10\n", choice->name);
	print_text(choice->help, strlen(choice->help));
	if (choice->refusal) {
		fputs(" (not in this version: ", stdout);
		print_text(choice->refusal, strlen(choice->refusal));
		putchar(')');
	}
	if (preset) {
		fputs(": ", stdout);
		print_text(preset, strlen(preset));
	}
	puts(".");
}

/* A preset that this command has not is left out. */
static bool is_choice(enum option_choice id, const struct option_row *row, enum command_id command)
{
	return option_choice_row(id)->option == row->id &&
	       (row->id != OPTION_PRESET || id == CHOICE_PRESET_NONE ||
		option_preset_words(id, command));
}

static void print_option(const struct option_row *row, enum command_id command)
{
	print_option_head(row);
	print_text(row->help, strlen(row->help));
	if (row->preset) {
		fputs(" (default: ", stdout);
		print_text(row->preset, strlen(row->preset));
		putchar(')');
	}
	puts(".");
	if (row->manual)
		print_string(row->manual);
	if (row->type != OPTION_CHOICE && row->type != OPTION_WORDS && row->type != OPTION_RATES)
		return;
	puts(".RS");
	for (int i = 0; i < CHOICE_COUNT; i++) {
		if (is_choice((enum option_choice)i, row, command))
			print_choice((enum option_choice)i, command);
	}
	puts(".RE");
}

static void print_options(enum command_id command)
{
	const char *group = "";

	puts(".SH OPTIONS");
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);

		if (!option_is_of(row->id, command))
			continue;
		if (strcmp(group, row->group) != 0)
			printf(".SS \"%s\"\n", row->group);
		group = row->group;
		print_option(row, command);
	}
}

static void print_variables(enum command_id command)
{
	puts(".SH ENVIRONMENT");
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);

		if (!row->variable || !option_is_of(row->id, command))
			continue;
		printf(".TP\n.B %s\nas ", row->variable);
		fputs("\\fB\\-\\-", stdout);
		print_text(row->name, strlen(row->name));
		puts(row->type == OPTION_FLAG ? "\\fR: yes or no." : "\\fR.");
	}
	puts(".TP\n.B MEMSIGHT_OPTIONS\n"
	     "Options of any command, parted by blanks as in a shell; those "
	     "of other commands are read over.\n.PP\nAn option on the command line beats its "
	     "variable, a variable beats\n.BR MEMSIGHT_OPTIONS ,\nand that beats the files. "
	     "\\fB\\-\\-no\\-\\fR before a flag's name undoes it, and \\fB\\-\\-plain\\fR, for "
	     "instance, undoes \\fB\\-\\-no\\-plain\\fR.");
}

static void print_see_also(enum command_id command)
{
	const char *separator = "";

	fputs(".SH SEE ALSO\nDocuments that are named docs/NAME lie in\n.I ", stdout);
	print_string(MEMSIGHT_DOCUMENTS);
	fputs(".PP\n", stdout);
	for (int i = COMMAND_GLOBAL; i < COMMAND_COUNT; i++) {
		const char *name = option_command((enum command_id)i)->name;

		if (i == (int)command)
			continue;
		printf("%s.BR memsight%s%s (1)", separator, name ? "\\-" : "", name ? name : "");
		separator = ",\n";
	}
	putchar('\n');
}

static void print_command_page(enum command_id id)
{
	const struct command_row *command = option_command(id);
	char name[64];

	snprintf(name, sizeof(name), "memsight-%s", command->name);
	print_title(name, command->summary);
	printf(".SH SYNOPSIS\n.B memsight %s\n[\\fIOPTION\\fR...] ", command->name);
	print_string(command->operands);
	puts(".SH DESCRIPTION");
	print_paragraphs(command->manual);
	print_options(id);
	print_variables(id);
	printf(".SH FILES\n.TP\n.B ./memsight.ini\n.TQ\n.B ~/.config/memsight.ini\n"
	       "Options by their long names, as NAME = VALUE, those of this command below [%s]. "
	       "The first file beats the second (of\n.B $XDG_CONFIG_HOME\nif that is set), and may "
	       "name no files to be written. docs/settings.md has the rules.\n",
	       command->name);
	puts(".SH EXIT STATUS");
	print_string(command->exit_status);
	print_see_also(id);
}

static void print_main_page(void)
{
	print_title("memsight", "which memory of a program is used, when, and from where");
	puts(".SH SYNOPSIS\n.B memsight\n\\fICOMMAND\\fR [\\fIOPTION\\fR...] ...\n.SH DESCRIPTION");
	print_paragraphs("Records every allocation of a program and a "
			 "sparse sample of its loads and stores, "
			 "joins the two, and answers from one SQLite "
			 "database which block was touched, when, "
			 "from where and by whom.\n\n"
			 "\tmemsight record -o app.mst ./app\n\tmemsight report app.mst");
	puts(".SH COMMANDS");
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		const struct command_row *command = option_command((enum command_id)i);

		printf(".TP\n.BR memsight\\-%s (1)\n", command->name);
		print_text(command->summary, strlen(command->summary));
		puts(".");
	}
	print_options(COMMAND_GLOBAL);
	puts(".SH EXIT STATUS\n"
	     "0: done, 1: failed, 2: wrong usage. memsight record ends with the status "
	     "of the program that it ran.");
	puts(".SH ENVIRONMENT\nEach option has a variable, named on the page of its command.");
	print_see_also(COMMAND_GLOBAL);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_main_page();
		return EXIT_SUCCESS;
	}
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		if (strcmp(option_command((enum command_id)i)->name, argv[1]) != 0)
			continue;
		print_command_page((enum command_id)i);
		return EXIT_SUCCESS;
	}
	fprintf(stderr, "make-manual: no command %s\n", argv[1]);
	return EXIT_FAILURE;
}
