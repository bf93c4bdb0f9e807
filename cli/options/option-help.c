#include "cli/options/option-help.h"

#include <string.h>

#define HELP_COLUMN 28
#define MIN_COLUMNS 50

/* Where on the line we are. */
struct layout {
	FILE *file;
	unsigned n_columns;
	unsigned indent; /* of the lines that follow */
	unsigned at;
};

static void break_line(struct layout *layout)
{
	fprintf(layout->file, "\n%*s", (int)layout->indent, "");
	layout->at = layout->indent;
}

/* Print words with line breaks between them; `text` continues on the current line. */
static void print_words(struct layout *layout, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, " ");

		if (layout->at > layout->indent && layout->at + 1 + n > layout->n_columns)
			break_line(layout);
		else if (layout->at > layout->indent)
			layout->at += (unsigned)fprintf(layout->file, " ");
		layout->at += (unsigned)fprintf(layout->file, "%.*s", (int)n, text);
		text += n + (text[n] == ' ');
	}
}

/* An argument of many words, "a|b|c", goes on below its first one. */
static void print_argument(struct layout *layout, const char *argument)
{
	layout->indent = layout->at;
	while (*argument) {
		size_t n = strcspn(argument, "|");

		n += argument[n] == '|';
		if (layout->at > layout->indent && layout->at + n > layout->n_columns)
			break_line(layout);
		layout->at += (unsigned)fprintf(layout->file, "%.*s", (int)n, argument);
		argument += n;
	}
}

static void print_head(struct layout *layout, const struct option_row *row)
{
	char argument[128];
	char letter[8] = "    ";

	option_argument(row->id, argument, sizeof(argument));
	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	bool is_optional = argument[0] == '[';
	layout->at = (unsigned)fprintf(layout->file, "  %s--%s%s", letter, row->name,
				       is_optional   ? "[="
				       : argument[0] ? "="
						     : "");
	print_argument(layout, argument + is_optional);
	layout->indent = HELP_COLUMN;
	if (layout->at + 2 > HELP_COLUMN)
		break_line(layout);
	else
		layout->at +=
			(unsigned)fprintf(layout->file, "%*s", HELP_COLUMN - (int)layout->at, "");
}

static void print_option(struct layout *layout, const struct option_row *row)
{
	char preset[64];

	print_head(layout, row);
	print_words(layout, row->help);
	if (row->preset) {
		snprintf(preset, sizeof(preset), "(default: %s)", row->preset);
		print_words(layout, preset);
	}
	fputc('\n', layout->file);
}

/*
 * Whether the command's option is the first of its group, wherever in the table the others stand.
 */
static bool is_first_of_group(const struct option_row *row, enum command_id command)
{
	for (int id = 0; id < (int)row->id; id++) {
		const struct option_row *other = option_row((enum option_id)id);

		if (option_is_of(other->id, command) && strcmp(other->group, row->group) == 0)
			return false;
	}
	return true;
}

static void print_group(struct layout *layout, enum command_id command, const char *group)
{
	fprintf(layout->file, "\n%s:\n", group);
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);

		if (option_is_of(row->id, command) && strcmp(row->group, group) == 0)
			print_option(layout, row);
	}
}

static void print_options(struct layout *layout, enum command_id command)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);

		if (option_is_of(row->id, command) && is_first_of_group(row, command))
			print_group(layout, command, row->group);
	}
}

/* What each preset stands for, for this command. */
static void print_presets(struct layout *layout, enum command_id command)
{
	bool is_first = true;

	for (int i = 0; i < CHOICE_COUNT; i++) {
		const struct choice_row *choice = option_choice_row((enum option_choice)i);
		const char *words = choice->option == OPTION_PRESET
					    ? option_preset_words((enum option_choice)i, command)
					    : NULL;
		if (!words)
			continue;
		fprintf(layout->file, "%s  %-10s", is_first ? "\nPresets:\n" : "", choice->name);
		layout->indent = layout->at = 12;
		print_words(layout, words);
		fputc('\n', layout->file);
		is_first = false;
	}
}

static void print_commands(struct layout *layout)
{
	fprintf(layout->file, "Usage: memsight COMMAND [OPTION...] ...\n"
			      "       memsight help COMMAND\n\nCommands:\n");
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		const struct command_row *command = option_command((enum command_id)i);

		fprintf(layout->file, "  %-12s", command->name);
		layout->indent = layout->at = 14;
		print_words(layout, command->summary);
		fputc('\n', layout->file);
	}
}

static void print_usage(struct layout *layout, const struct command_row *command)
{
	fprintf(layout->file, "Usage: memsight %s [OPTION...] %s\n", command->name,
		command->operands);
	layout->indent = layout->at = 0;
	print_words(layout, command->summary);
	fputc('\n', layout->file);
}

void option_print_help(enum command_id command, unsigned n_columns, FILE *file)
{
	struct layout layout = { .file = file, .n_columns = n_columns };

	if (layout.n_columns < MIN_COLUMNS)
		layout.n_columns = MIN_COLUMNS;
	if (command == COMMAND_GLOBAL)
		print_commands(&layout);
	else
		print_usage(&layout, option_command(command));
	print_options(&layout, command);
	print_presets(&layout, command);
	if (command == COMMAND_GLOBAL)
		fprintf(file, "\nEach option is also a variable (--freq: MEMSIGHT_FREQ); "
			      "MEMSIGHT_OPTIONS holds several.\n"
			      "./memsight.ini and ~/.config/memsight.ini hold them, too.\n");
	else
		fprintf(file, "\nManual: man memsight-%s\n", option_command(command)->name);
}
