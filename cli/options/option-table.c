#include "cli/options/option.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"

#define IN(command)	       (1u << COMMAND_##command)
#define VARIABLE_FLAG(id)      "MEMSIGHT_" #id
#define VARIABLE_ACTION(id)    NULL
#define VARIABLE_TEXT(id)      "MEMSIGHT_" #id
#define VARIABLE_SIZE(id)      "MEMSIGHT_" #id
#define VARIABLE_NUMBER(id)    "MEMSIGHT_" #id
#define VARIABLE_FREQUENCY(id) "MEMSIGHT_" #id
#define VARIABLE_CHOICE(id)    "MEMSIGHT_" #id
#define VARIABLE_WORDS(id)     "MEMSIGHT_" #id
#define VARIABLE_RATES(id)     "MEMSIGHT_" #id
#define VARIABLE_TEXTS(id)     "MEMSIGHT_" #id

static const struct option_row option_rows[OPTION_COUNT] = {
#define OPTION(id, commands, name, letter, argument, type, preset, group, help, manual)            \
	[OPTION_##id] = { OPTION_##id, commands, name, letter, argument,	   OPTION_##type,  \
			  preset,      group,	 help, manual, VARIABLE_##type(id) },
#define CHOICE(...)
#include "schemas/options.def"
#undef OPTION
#undef CHOICE
};

static const struct choice_row choice_rows[CHOICE_COUNT] = {
#define OPTION(...)
#define CHOICE(option, id, name, help, refusal)                                                    \
	[CHOICE_##option##_##id] = { OPTION_##option, name, help, refusal },
#include "schemas/options.def"
#undef OPTION
#undef CHOICE
};

static const struct {
	enum option_choice preset;
	unsigned commands;
	const char *words;
} preset_rows[] = {
#define PRESET(id, commands, words) { CHOICE_PRESET_##id, commands, words },
#include "schemas/presets.def"
#undef PRESET
};

static const struct {
	enum command_id command;
	const char *word, *hint;
} foreign_rows[] = {
#define FOREIGN(command, word, hint) { COMMAND_##command, word, hint },
#include "schemas/foreign-words.def"
#undef FOREIGN
};

#define ANY_NUMBER INT_MAX

static const struct command_row command_rows[COMMAND_COUNT] = {
	[COMMAND_GLOBAL] = { NULL, 0, ANY_NUMBER, "COMMAND ...", NULL, NULL, NULL },
#define COMMAND(id, name, min, max, operands, summary, manual, exit_status)                        \
	[COMMAND_##id] = { #name, min, max, operands, summary, manual, exit_status },
#include "schemas/commands.def"
#undef COMMAND
};

const struct option_row *option_row(enum option_id id)
{
	return &option_rows[id];
}

const struct choice_row *option_choice_row(enum option_choice choice)
{
	return &choice_rows[choice];
}

const struct command_row *option_command(enum command_id command)
{
	return &command_rows[command];
}

const char *option_preset_words(enum option_choice preset, enum command_id command)
{
	if (command == COMMAND_INSTRUMENT)
		command = COMMAND_RECORD;
	for (size_t i = 0; i < sizeof(preset_rows) / sizeof(preset_rows[0]); i++) {
		if (preset_rows[i].preset == preset && preset_rows[i].commands >> command & 1)
			return preset_rows[i].words;
	}
	return NULL;
}

const char *option_foreign_hint(enum command_id command, const char *word)
{
	if (command == COMMAND_ATTACH || command == COMMAND_INSTRUMENT)
		command = COMMAND_RECORD;
	for (size_t i = 0; i < sizeof(foreign_rows) / sizeof(foreign_rows[0]); i++) {
		if (foreign_rows[i].command == command && strcmp(foreign_rows[i].word, word) == 0)
			return foreign_rows[i].hint;
	}
	return NULL;
}

/* Options of record that a copy cannot hold: of one process, or with a meaning of its own. */
static bool is_of_one_recording(enum option_id id)
{
	static const enum option_id ids[] = {
		OPTION_OUTPUT,
		OPTION_ATTACH_PID,
		OPTION_RANK,
		OPTION_CHILDREN,
		OPTION_DURATION,
		OPTION_ATTACH_TIMEOUT,
		OPTION_COPY,
		OPTION_ARGV0,
		OPTION_FUNCTIONS_DRY_RUN,
		OPTION_FUNCTIONS_FORMAT,
	};

	return array_find(ids, COUNT_OF(ids), it, *it == id);
}

bool option_is_of(enum option_id id, enum command_id command)
{
	unsigned commands = option_rows[id].commands;

	if (command == COMMAND_INSTRUMENT && commands >> COMMAND_RECORD & 1)
		return !is_of_one_recording(id);
	return (commands >> command & 1) != 0;
}

static void append(char *text, size_t n_bytes, const char *more)
{
	size_t used = strlen(text);

	snprintf(text + used, n_bytes - used, "%s", more);
}

void option_argument(enum option_id id, char *text, size_t n_bytes)
{
	const char *argument = option_rows[id].argument ?: "";
	bool is_choice = option_rows[id].type == OPTION_CHOICE, is_first = true;

	snprintf(text, n_bytes, "%s", is_choice ? *argument ? "[" : "" : argument);
	for (int i = 0; is_choice && i < CHOICE_COUNT; i++) {
		if (choice_rows[i].option != id)
			continue;
		append(text, n_bytes, is_first ? "" : "|");
		append(text, n_bytes, choice_rows[i].name);
		is_first = false;
	}
	append(text, n_bytes, is_choice && *argument ? "]" : "");
}

const char *option_choice_name(enum option_choice choice)
{
	return choice_rows[choice].name;
}
