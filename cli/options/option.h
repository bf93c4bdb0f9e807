#pragma once
/*
 * The options of every command: schemas/options.def as a table, its parser, and typed results.
 *
 * A value comes from, in order of precedence: the command line, the variable MEMSIGHT_<ID>, the
 * words of MEMSIGHT_OPTIONS, an instrumented copy, a series file, ./memsight.ini,
 * ~/.config/memsight.ini, the default of the table. Each value knows which. The options of a preset
 * (schemas/presets.def) come from where the preset does, behind what is given there itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* COMMAND_GLOBAL stands for `memsight` itself, before the name of a command. */
enum command_id {
	COMMAND_GLOBAL,
#define COMMAND(id, ...) COMMAND_##id,
#include "schemas/commands.def"
#undef COMMAND
	COMMAND_COUNT,
};

enum option_id {
#define OPTION(id, ...) OPTION_##id,
#define CHOICE(...)
#include "schemas/options.def"
#undef OPTION
#undef CHOICE
	OPTION_COUNT,
};

/* Values of CHOICE, WORDS and RATES options: CHOICE_SOURCE_CLOCK ... unique over all options. */
enum option_choice {
#define OPTION(...)
#define CHOICE(option, id, ...) CHOICE_##option##_##id,
#include "schemas/options.def"
#undef OPTION
#undef CHOICE
	CHOICE_COUNT,
};

enum option_type {
	OPTION_FLAG,
	OPTION_ACTION,
	OPTION_TEXT,
	OPTION_SIZE,
	OPTION_NUMBER,
	OPTION_FREQUENCY,
	OPTION_CHOICE,
	OPTION_WORDS,
	OPTION_RATES,
	OPTION_TEXTS,
};

/* Where a value comes from; a higher one wins. OPTION_UNSET: the table has no default either. */
enum option_origin {
	OPTION_UNSET,
	OPTION_FROM_DEFAULT,
	OPTION_FROM_HEIMDALLR, /* a variable of Heimdallr's, see heimdallr.h */
	OPTION_FROM_USER_FILE, /* ~/.config/memsight.ini, see config-file.h */
	OPTION_FROM_FOLDER_FILE, /* ./memsight.ini */
	OPTION_FROM_FILE, /* of a series */
	OPTION_FROM_COPY, /* what a copy holds, see cli/copy-run.h */
	OPTION_FROM_WORDS, /* MEMSIGHT_OPTIONS */
	OPTION_FROM_VARIABLE,
	OPTION_FROM_LINE,
};

struct option_row {
	enum option_id id;
	unsigned commands; /* bit i: command i has it */
	const char *name;
	char letter; /* 0: none */
	const char *argument;
	enum option_type type;
	const char *preset; /* the default, as text */
	const char *group;
	const char *help;
	const char *manual;
	const char *variable; /* NULL: none */
};

struct choice_row {
	enum option_id option;
	const char *name;
	const char *help;
	const char *refusal; /* NULL: accepted */
};

struct command_row {
	const char *name; /* NULL: COMMAND_GLOBAL */
	int min_operands;
	int max_operands;
	const char *operands;
	const char *summary;
	const char *manual;
	const char *exit_status;
};

/* The tables; every value of the enum is valid, all strings are static. */
const struct option_row *option_row(enum option_id id);
const struct choice_row *option_choice_row(enum option_choice choice);
const struct command_row *option_command(enum command_id command);

/* The options that a preset stands for, blanks between; NULL: the command has no such preset. */
const char *option_preset_words(enum option_choice preset, enum command_id command);

/*
 * What a word of another tool is called here, as the end of a message; NULL: it is none. An option
 * has its dashes; COMMAND_GLOBAL: a command.
 */
const char *option_foreign_hint(enum command_id command, const char *word);

/* Whether the command has the option. */
bool option_is_of(enum option_id id, enum command_id command);

/* Write the argument as people read it ("FILE", "a|b", "[a|b]"; "" without one), cut to n_bytes. */
void option_argument(enum option_id id, char *text, size_t n_bytes);

struct option_value {
	enum option_origin origin;
	bool of_preset; /* that was given there, not the option itself */
	const char *text; /* as given; "yes" or "no" for a flag */
	/*
	 * SIZE: bytes, NUMBER, FREQUENCY: Hz, CHOICE: enum option_choice, FLAG: 0 or 1,
	 * WORDS: bit i for the option's i-th choice
	 */
	uint64_t number;
};

/* The values of a TEXTS option, in order; NULL behind the last. */
struct option_list {
	const char **texts;
	size_t n;
};

#define OPTION_MESSAGE_BYTES 256

/*
 * What was asked for. Filled by option_parse(); the strings live as long as the set, argv and
 * environ do.
 */
struct option_set {
	enum command_id command;
	struct option_value values[OPTION_COUNT];
	struct option_list lists[OPTION_COUNT]; /* owned: of TEXTS */
	char **operands; /* what is not an option, NULL behind the last */
	int n_operands;
	char **texts; /* owned, as are its strings: what values point into */
	size_t n_texts;
	bool is_preset; /* while the options of a preset are taken */
	bool has_preset; /* they were */
	char message[OPTION_MESSAGE_BYTES]; /* one line without newline when parsing failed */
};

/*
 * Parse the words behind the command's name: argv[0] is the first of them, argv[n_args] is NULL.
 * Reads the variables as well. For RECORD and GLOBAL, options end at the first operand; elsewhere
 * operands and options may be mixed. Stops early at an ACTION option that is given (its flag is 1).
 * Returns 0; -EINVAL with options->message set when the usage is wrong; -ENOMEM. In each case the
 * set is to be given to option_finish(). Not thread-safe (reads environ).
 */
int option_parse(enum command_id command, int n_args, char **argv, struct option_set *options);

/*
 * Set an option by its long name, as a series file does; value NULL = none was written. A value
 * from a higher origin stays. Returns 0, -EINVAL with options->message set. text must outlive the
 * set.
 */
int option_assign(struct option_set *options, const char *name, const char *text,
		  enum option_origin origin);

#define OPTION_MAX_WORDS 256

/*
 * Take the options that stand in a list of at most OPTION_MAX_WORDS words, which must outlive the
 * set. A value from a higher origin stays. Returns 0, -EINVAL with options->message set, -ENOMEM.
 */
int option_take_words(struct option_set *options, char **list, size_t n, enum option_origin origin);

/*
 * Take the options of --preset, from wherever that came; the first call that finds one counts. For
 * who has assigned options; option_parse() does it itself. Returns 0, -EINVAL with options->message
 * set, -ENOMEM.
 */
int option_take_preset(struct option_set *options);

/* Let the set own a text from malloc(), which is freed also where this fails. 0 or -ENOMEM. */
int option_keep(struct option_set *options, char *text);

/* Free what the set owns; accepts a zeroed set. */
void option_finish(struct option_set *options);

#define auto_options __attribute__((cleanup(option_finish)))

/* Typed reading; asserts that the option is of that type. Unset: false, NULL, 0. */
bool option_flag(const struct option_set *options, enum option_id id);
const char *option_text(const struct option_set *options, enum option_id id);
uint64_t option_size(const struct option_set *options, enum option_id id); /* bytes */
uint64_t option_number(const struct option_set *options, enum option_id id);
unsigned option_frequency(const struct option_set *options, enum option_id id); /* Hz */
enum option_choice option_choice(const struct option_set *options, enum option_id id);
const char *const *option_texts(const struct option_set *options,
				enum option_id id); /* NULL behind the last; NULL: none */
uint32_t option_words(const struct option_set *options, enum option_id id); /* bit i: i-th choice */
enum option_origin option_origin(const struct option_set *options, enum option_id id);

/* As people know it: "./memsight.ini", "command line" ... */
const char *option_origin_name(enum option_origin origin);

/*
 * Write the options that a preset gave (OPTION_UNSET), or that came from an origin without one, as
 * " --freq=22 --quiet"; cut to n_bytes.
 */
void option_words_from(const struct option_set *options, enum option_origin origin, char *text,
		       size_t n_bytes);

/* Name of a CHOICE value, as on the command line. */
const char *option_choice_name(enum option_choice choice);
