#include "cli/options/option.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/parse.h"
#include "common/text.h"

#define MAX_FREQUENCY_HZ 100000 /* a thread's CPU clock fires at most every 10 us */

struct parsing {
	enum option_id id;
	const char *text;
	const char *shown;
	char *message;
};

#define NAME_BYTES 64

static int refuse(const struct parsing *parsing, const char *why)
{
	return text_refuse(-EINVAL, parsing->message, OPTION_MESSAGE_BYTES, "%s: '%s' %s",
			   parsing->shown, parsing->text, why);
}

static int parse_flag(const struct parsing *parsing, struct option_value *value)
{
	static const char *const names[] = { "no", "yes", "0", "1", "false", "true", "off", "on" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(parsing->text, names[i]) != 0)
			continue;
		value->number = i % 2;
		value->text = names[i % 2];
		return 0;
	}
	return refuse(parsing, "is neither yes nor no");
}

static int parse_text(const struct parsing *parsing, struct option_value *value)
{
	(void)value;
	return parsing->text[0] == '\0' ? refuse(parsing, "is empty") : 0;
}

static int parse_bytes(const struct parsing *parsing, struct option_value *value)
{
	int r = parse_size(parsing->text, &value->number);

	if (r == -ERANGE)
		return refuse(parsing, "is too big");
	return r < 0 ? refuse(parsing, "is not a size (such as 64M or 2G)") : 0;
}

/* Of numbers that have one. */
static const struct {
	enum option_id id;
	uint64_t most;
	const char *why;
} bounds[] = { { OPTION_RECORDER_THREADS, 16, "is more than 16" } };

static int parse_count(const struct parsing *parsing, struct option_value *value)
{
	int r = parse_number(parsing->text, &value->number);

	if (r == -ERANGE)
		return refuse(parsing, "is too big");
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
		if (r == 0 && bounds[i].id == parsing->id && value->number > bounds[i].most)
			return refuse(parsing, bounds[i].why);
	return r < 0 ? refuse(parsing, "is not a number") : 0;
}

static int parse_hertz(const struct parsing *parsing, struct option_value *value)
{
	int r = parse_number(parsing->text, &value->number);

	if (r == -EINVAL)
		return refuse(parsing, "is not a frequency (in Hz, such as 997)");
	if (r < 0 || value->number < 1 || value->number > MAX_FREQUENCY_HZ)
		return refuse(parsing, "is not between 1 and 100000 Hz");
	return 0;
}

static int parse_choice(const struct parsing *parsing, struct option_value *value)
{
	struct parse_nearest nearest = { .word = parsing->text };
	char choices[128];
	char why[200];

	for (int i = 0; i < CHOICE_COUNT; i++) {
		const struct choice_row *row = option_choice_row((enum option_choice)i);

		if (row->option != parsing->id)
			continue;
		parse_nearest_offer(&nearest, row->name);
		if (strcmp(row->name, parsing->text) != 0)
			continue;
		if (row->refusal)
			return text_refuse(-EINVAL, parsing->message, OPTION_MESSAGE_BYTES,
					   "%s: %s", parsing->shown, row->refusal);
		value->number = (uint64_t)i;
		return 0;
	}
	option_argument(parsing->id, choices, sizeof(choices));
	snprintf(why, sizeof(why), "is not one of %s%s%s%s", choices,
		 nearest.name ? "; did you mean " : "", nearest.name ? nearest.name : "",
		 nearest.name ? "?" : "");
	return refuse(parsing, why);
}

/* Bit i for the i-th choice of the option whose name is n_bytes of word; 0: there is none. */
static uint64_t find_word(enum option_id id, const char *word, size_t n_bytes)
{
	uint64_t bit = 1;

	for (int i = 0; i < CHOICE_COUNT; i++) {
		const struct choice_row *row = option_choice_row((enum option_choice)i);

		if (row->option != id)
			continue;
		if (strncmp(row->name, word, n_bytes) == 0 && row->name[n_bytes] == '\0')
			return bit;
		bit <<= 1;
	}
	return 0;
}

static int refuse_word(const struct parsing *parsing, const char *word, size_t n_bytes)
{
	size_t n = (size_t)snprintf(parsing->message, OPTION_MESSAGE_BYTES,
				    "%s: '%.*s' is not one of ", parsing->shown,
				    n_bytes > 40 ? 40 : (int)n_bytes, word);
	const char *separator = "";
	char shown[NAME_BYTES];
	struct parse_nearest nearest = { .word = shown };

	snprintf(shown, sizeof(shown), "%.*s", (int)n_bytes, word);
	for (int i = 0; i < CHOICE_COUNT && n < OPTION_MESSAGE_BYTES; i++) {
		const struct choice_row *row = option_choice_row((enum option_choice)i);

		if (row->option != parsing->id)
			continue;
		n += (size_t)snprintf(parsing->message + n, OPTION_MESSAGE_BYTES - n, "%s%s",
				      separator, row->name);
		separator = ", ";
		parse_nearest_offer(&nearest, row->name);
	}
	if (nearest.name && n < OPTION_MESSAGE_BYTES)
		snprintf(parsing->message + n, OPTION_MESSAGE_BYTES - n, "; did you mean %s?",
			 nearest.name);
	return -EINVAL;
}

/* Words with commas between them, each perhaps with @RATE: what that may be the runner knows. */
static int parse_rates(const struct parsing *parsing, struct option_value *value)
{
	const char *word = parsing->text;

	(void)value;
	for (;; word++) {
		size_t n_bytes = strcspn(word, ",@");

		if (!find_word(parsing->id, word, n_bytes))
			return refuse_word(parsing, word, n_bytes);
		word += strcspn(word, ",");
		if (*word == '\0')
			return 0;
	}
}

/* Words with commas between them. */
static int parse_choices(const struct parsing *parsing, struct option_value *value)
{
	const char *word = parsing->text;

	for (;; word++) {
		size_t n_bytes = strcspn(word, ",");
		uint64_t bit = find_word(parsing->id, word, n_bytes);

		if (!bit)
			return refuse_word(parsing, word, n_bytes);
		value->number |= bit;
		word += n_bytes;
		if (*word == '\0')
			return 0;
	}
}

static int (*const parsers[])(const struct parsing *, struct option_value *) = {
	[OPTION_FLAG] = parse_flag,	[OPTION_ACTION] = parse_flag,
	[OPTION_TEXT] = parse_text,	[OPTION_SIZE] = parse_bytes,
	[OPTION_NUMBER] = parse_count,	[OPTION_FREQUENCY] = parse_hertz,
	[OPTION_CHOICE] = parse_choice, [OPTION_WORDS] = parse_choices,
	[OPTION_TEXTS] = parse_text,	[OPTION_RATES] = parse_rates,
};

/* What an option without an argument means; NULL: it needs one. */
static const char *bare_text(const struct option_row *row)
{
	if (row->type == OPTION_FLAG || row->type == OPTION_ACTION)
		return "yes";
	if (!row->argument || row->argument[0] != '[')
		return NULL;
	for (int i = 0; row->type == OPTION_CHOICE && i < CHOICE_COUNT; i++)
		if (option_choice_row((enum option_choice)i)->option == row->id)
			return option_choice_row((enum option_choice)i)->name;
	return "-";
}

/*
 * Turn the text of an option into its value, by the type of its row. text NULL: the option stands
 * without an argument ("--force", "--report"). shown is what the user wrote, for the message
 * ("--freq", "MEMSIGHT_FREQ"). Returns 0, or -EINVAL with one line in message.
 */
static int option_value_parse(enum option_id id, const char *text, const char *shown,
			      struct option_value *ret_value, char message[OPTION_MESSAGE_BYTES])
{
	const struct option_row *row = option_row(id);
	struct option_value value = { 0 };

	if (!text)
		text = bare_text(row);
	if (!text) {
		char argument[128];

		option_argument(id, argument, sizeof(argument));
		snprintf(message, OPTION_MESSAGE_BYTES, "%s needs a value: %s", shown, argument);
		return -EINVAL;
	}

	value.text = text;
	int r = parsers[row->type](
		&(struct parsing){ .id = id, .text = text, .shown = shown, .message = message },
		&value);
	if (r < 0)
		return r;
	*ret_value = value;
	return 0;
}

/* A list of words under way: argv, or MEMSIGHT_OPTIONS. */
struct words {
	struct option_set *options;
	char **words;
	int n;
	int next;
	enum option_origin origin;
};

static bool is_action(enum option_id id)
{
	return option_row(id)->type == OPTION_ACTION;
}

static bool action_is_given(const struct option_set *options)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		if (is_action((enum option_id)id) && options->values[id].number)
			return true;
	}
	return false;
}

static int complain(struct option_set *options, const char *what, const char *word,
		    const char *hint)
{
	snprintf(options->message, OPTION_MESSAGE_BYTES, "%s %s%s%s", what, word, hint ? "; " : "",
		 hint ? hint : "");
	return -EINVAL;
}

static const char *command_with(const char *name, size_t n_bytes)
{
	for (int i = 0; i < COMMAND_COUNT * OPTION_COUNT; i++) {
		const struct option_row *row = option_row((enum option_id)(i % OPTION_COUNT));
		enum command_id command = (enum command_id)(i / OPTION_COUNT);

		if (option_is_of(row->id, command) && strncmp(row->name, name, n_bytes) == 0 &&
		    row->name[n_bytes] == '\0')
			return option_command(command)->name;
	}
	return NULL;
}

/*
 * The option of `command` with this name, or this unique beginning; the whole name of an option of
 * another command is no beginning.
 */
static int find_name(enum command_id command, const char *name, size_t n_bytes)
{
	int found = -ENOENT;

	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);

		if (!option_is_of(row->id, command) || strncmp(row->name, name, n_bytes) != 0)
			continue;
		if (row->name[n_bytes] == '\0')
			return id;
		found = found == -ENOENT ? id : -EINVAL;
	}
	return command_with(name, n_bytes) ? -ENOENT : found;
}

static int find_letter(enum command_id command, char letter)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		if (option_is_of((enum option_id)id, command) &&
		    option_row((enum option_id)id)->letter == letter)
			return id;
	}
	return -ENOENT;
}

static bool is_whole(int id, const char *name, size_t n_bytes)
{
	return id >= 0 && strlen(option_row((enum option_id)id)->name) == n_bytes &&
	       strncmp(option_row((enum option_id)id)->name, name, n_bytes) == 0;
}

/*
 * The same, and *ret_is_undone: its whole name with or without "no-", of a flag that has the other
 * one.
 */
static int find_option(enum command_id command, const char *name, size_t n_bytes,
		       bool *ret_is_undone)
{
	bool is_no = n_bytes > 3 && strncmp(name, "no-", 3) == 0;
	int id = find_name(command, name, n_bytes);
	char other[NAME_BYTES];

	*ret_is_undone = false;
	if (is_whole(id, name, n_bytes))
		return id;
	snprintf(other, sizeof(other), "%s%.*s", is_no ? "" : "no-",
		 (int)(is_no ? n_bytes - 3 : n_bytes), is_no ? name + 3 : name);
	int undone = find_name(command, other, strlen(other));
	*ret_is_undone = is_whole(undone, other, strlen(other)) &&
			 option_row((enum option_id)undone)->type == OPTION_FLAG;
	return *ret_is_undone ? undone : id;
}

/* What a flag is when its other form has this text, which the parser refuses if it is neither. */
static const char *opposite(const char *text)
{
	char message[OPTION_MESSAGE_BYTES];
	const struct parsing parsing = { .text = text, .shown = "", .message = message };
	struct option_value value;

	if (!text)
		return "no";
	return parse_flag(&parsing, &value) < 0 ? text : value.number ? "no" : "yes";
}

/* MEMSIGHT_OPTIONS serves all commands: an option of another one is read over, not wrong. */
static int find_elsewhere(const struct words *words, const char *name, size_t n_bytes,
			  bool *ret_is_undone)
{
	for (int i = 0; words->origin == OPTION_FROM_WORDS && i < COMMAND_COUNT; i++) {
		int id = n_bytes ? find_option((enum command_id)i, name, n_bytes, ret_is_undone)
				 : find_letter((enum command_id)i, *name);
		if (id >= 0)
			return id;
	}
	return -ENOENT;
}

static int complain_unknown(struct option_set *options, const char *name, size_t n_bytes)
{
	char shown[NAME_BYTES];
	char hint[NAME_BYTES + 32];

	snprintf(shown, sizeof(shown), "--%.*s", (int)n_bytes, name);
	const char *foreign = option_foreign_hint(options->command, shown);
	if (foreign)
		return complain(options, "unknown option", shown, foreign);
	struct parse_nearest nearest = { .word = shown + 2 };
	for (int id = 0; id < OPTION_COUNT; id++) {
		if (option_is_of((enum option_id)id, options->command))
			parse_nearest_offer(&nearest, option_row((enum option_id)id)->name);
	}
	const char *command = command_with(name, n_bytes);
	if (command)
		snprintf(hint, sizeof(hint), "it is one of memsight %s", command);
	else if (nearest.name)
		snprintf(hint, sizeof(hint), "did you mean --%s?", nearest.name);
	return complain(options, "unknown option", shown, command || nearest.name ? hint : NULL);
}

/* One more of a TEXTS option; those of a lower origin go. */
static int add_text(struct option_list *list, const char *text, bool is_first)
{
	size_t n = is_first ? 0 : list->n;

	if (grow_array_of(&list->texts, n, 2, sizeof(*list->texts)) < 0)
		return -ENOMEM;
	list->texts[n] = text;
	list->texts[n + 1] = NULL;
	list->n = n + 1;
	return 0;
}

/* Whether the option has a value that a new one from there does not replace. */
static bool has_stronger(const struct option_set *options, enum option_id id,
			 enum option_origin origin)
{
	const struct option_value *value = &options->values[id];

	return value->origin > origin ||
	       (value->origin == origin && options->is_preset && !value->of_preset);
}

static int assign(struct option_set *options, enum option_id id, const char *text,
		  const char *shown, enum option_origin origin)
{
	struct option_value value;

	if (!option_is_of(id, options->command) || has_stronger(options, id, origin))
		return 0;

	int r = option_value_parse(id, text, shown, &value, options->message);
	if (r < 0)
		return r;
	value.origin = origin;
	value.of_preset = options->is_preset;
	if (option_row(id)->type == OPTION_TEXTS)
		r = add_text(&options->lists[id], value.text, options->values[id].origin != origin);
	if (r < 0)
		return r;
	options->values[id] = value;
	return 0;
}

static bool takes_next_word(enum option_id id)
{
	const struct option_row *row = option_row(id);

	if (row->type == OPTION_FLAG || row->type == OPTION_ACTION)
		return false;
	return !(row->argument && row->argument[0] == '[');
}

/* The word behind an option, when that option must have one. */
static const char *take_argument(struct words *words, enum option_id id)
{
	return !takes_next_word(id) || words->next == words->n ? NULL : words->words[words->next++];
}

static int parse_long(struct words *words, const char *name)
{
	struct option_set *options = words->options;
	size_t n_bytes = strcspn(name, "=");
	char shown[NAME_BYTES];
	bool is_undone;
	int id = find_option(options->command, name, n_bytes, &is_undone);

	snprintf(shown, sizeof(shown), "--%.*s", (int)n_bytes, name);
	if (id == -ENOENT)
		id = find_elsewhere(words, name, n_bytes, &is_undone);
	if (id == -ENOENT)
		return complain_unknown(options, name, n_bytes);
	if (id < 0)
		return complain(options, "more than one option begins with", shown, NULL);

	const char *text = name[n_bytes] == '=' ? name + n_bytes + 1
						: take_argument(words, (enum option_id)id);
	return assign(options, (enum option_id)id, is_undone ? opposite(text) : text, shown,
		      words->origin);
}

/* "-qf", "-oFILE", "-o FILE": letters behind each other, the last may take a value. */
static int parse_letters(struct words *words, const char *letters)
{
	for (; *letters; letters++) {
		const char shown[] = { '-', *letters, '\0' };
		int id = find_letter(words->options->command, *letters);

		if (id < 0)
			id = find_elsewhere(words, letters, 0, NULL);
		if (id < 0)
			return complain(words->options, "unknown option", shown,
					option_foreign_hint(words->options->command, shown));

		bool has_rest = takes_next_word((enum option_id)id) && letters[1] != '\0';
		const char *text =
			has_rest ? letters + 1 : take_argument(words, (enum option_id)id);
		int r = assign(words->options, (enum option_id)id, text, shown, words->origin);
		if (r < 0 || has_rest)
			return r;
	}
	return 0;
}

static bool is_option(const char *word)
{
	return word[0] == '-' && word[1] != '\0';
}

static void take_operands(struct words *words, int n)
{
	struct option_set *options = words->options;

	while (n-- > 0)
		options->operands[options->n_operands++] = words->words[words->next++];
}

static int parse_list(struct words *words)
{
	int r = 0;

	while (r == 0 && words->next < words->n && !action_is_given(words->options)) {
		const char *word = words->words[words->next];

		if (strcmp(word, "--") == 0) {
			words->next++;
			take_operands(words, words->n - words->next);
		} else if (!is_option(word)) {
			/* Options of the traced program and of other commands are none of ours. */
			bool end = words->options->command == COMMAND_RECORD ||
				   words->options->command == COMMAND_GLOBAL;
			take_operands(words, end ? words->n - words->next : 1);
		} else {
			words->next++;
			r = word[1] == '-' ? parse_long(words, word + 2)
					   : parse_letters(words, word + 1);
		}
	}
	return r;
}

static int parse_variables(struct option_set *options)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const char *name = option_row((enum option_id)id)->variable;
		const char *text = name ? getenv(name) : NULL;

		if (!text || text[0] == '\0')
			continue;
		int r = assign(options, (enum option_id)id, text, name, OPTION_FROM_VARIABLE);
		if (r < 0)
			return r;
	}
	return 0;
}

static int complain_in_words(struct option_set *options, enum option_origin origin)
{
	char message[OPTION_MESSAGE_BYTES];

	memcpy(message, options->message, sizeof(message));
	return text_refuse(-EINVAL, options->message, OPTION_MESSAGE_BYTES, "%s: %.230s",
			   option_origin_name(origin), message);
}

/* Operands make no sense here; the real ones are kept aside meanwhile. */
int option_take_words(struct option_set *options, char **list, size_t n, enum option_origin origin)
{
	char *unwanted[OPTION_MAX_WORDS + 1];
	char **operands = options->operands;
	int n_operands = options->n_operands;
	struct words words = { .options = options, .words = list, .n = (int)n, .origin = origin };

	options->operands = unwanted;
	options->n_operands = 0;
	int r = parse_list(&words);
	if (r == 0 && options->n_operands > 0)
		r = complain(options, "not an option:", unwanted[0], NULL);
	options->operands = operands;
	options->n_operands = n_operands;
	return r < 0 ? complain_in_words(options, origin) : 0;
}

static int parse_environment_words(struct option_set *options)
{
	const char *text = getenv("MEMSIGHT_OPTIONS");
	char *split[OPTION_MAX_WORDS];
	size_t n = 0;

	if (!text)
		return 0;
	char *words = strdup(text);
	int r = option_keep(options, words);
	if (r < 0)
		return r;

	r = parse_words(words, split, OPTION_MAX_WORDS, &n);
	if (r < 0)
		return complain(options, "MEMSIGHT_OPTIONS:",
				r == -E2BIG ? "too many words" : "a quote is not closed", NULL);
	return option_take_words(options, split, n, OPTION_FROM_WORDS);
}

static void set_defaults(struct option_set *options)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const char *preset = option_row((enum option_id)id)->preset;

		if (!preset)
			continue;
		/* A default that its own parser refuses is a mistake in the table. */
		int r = assign(options, (enum option_id)id, preset, "default", OPTION_FROM_DEFAULT);
		assert(r == 0);
		(void)r;
	}
}

int option_keep(struct option_set *options, char *text)
{
	if (!text ||
	    grow_array_of(&options->texts, options->n_texts, 1, sizeof(*options->texts)) < 0)
		return free(text), -ENOMEM;
	options->texts[options->n_texts++] = text;
	return 0;
}

/* "--preset: 'ci' is for record, check" */
static int refuse_preset(struct option_set *options, enum option_choice preset)
{
	size_t n = (size_t)snprintf(options->message, OPTION_MESSAGE_BYTES, "--preset: '%s' is for",
				    option_choice_name(preset));

	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT && n < OPTION_MESSAGE_BYTES; i++) {
		if (option_preset_words(preset, (enum command_id)i))
			n += (size_t)snprintf(options->message + n, OPTION_MESSAGE_BYTES - n, " %s",
					      option_command((enum command_id)i)->name);
	}
	return -EINVAL;
}

int option_take_preset(struct option_set *options)
{
	const struct option_value *given = &options->values[OPTION_PRESET];
	char *split[OPTION_MAX_WORDS];
	size_t n = 0;

	if (options->has_preset || given->origin <= OPTION_FROM_DEFAULT ||
	    given->number == CHOICE_PRESET_NONE)
		return 0;
	enum option_choice preset = (enum option_choice)given->number;
	const char *text = option_preset_words(preset, options->command);
	/* A variable serves all commands. */
	if (!text && (given->origin == OPTION_FROM_VARIABLE || given->origin == OPTION_FROM_WORDS))
		return 0;
	if (!text)
		return refuse_preset(options, preset);
	char *words = strdup(text);
	int r = option_keep(options, words) ?: parse_words(words, split, OPTION_MAX_WORDS, &n);
	struct words list = {
		.options = options, .words = split, .n = (int)n, .origin = given->origin
	};
	options->is_preset = true;
	r = r ?: parse_list(&list);
	options->is_preset = false;
	options->has_preset = r == 0;
	return r;
}

/*
 * One that is called as an option may be meant as it: `report sites app.mst`. Or it is the value of
 * an option that stands without one: `report --cold 60s`.
 */
static int complain_too_many(struct option_set *options, const char *last)
{
	char hint[NAME_BYTES + 32];

	for (int i = 0; i < options->n_operands; i++) {
		const char *operand = options->operands[i];
		int id = find_name(options->command, operand, strlen(operand));
		if (id < 0 || strcmp(option_row((enum option_id)id)->name, operand) != 0)
			continue;
		snprintf(hint, sizeof(hint), "did you mean --%s?", operand);
		return complain(options, "one argument too many:", operand, hint);
	}
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);
		const struct option_value *value = &options->values[id];
		if (!row->argument || row->argument[0] != '[' ||
		    value->origin != OPTION_FROM_LINE || strcmp(value->text, "-") != 0)
			continue;
		snprintf(hint, sizeof(hint), "did you mean --%s=%.*s?", row->name,
			 (int)strcspn(row->argument + 1, "]"), row->argument + 1);
		return complain(options, "one argument too many:", last, hint);
	}
	return complain(options, "one argument too many:", last, NULL);
}

static int check_operands(struct option_set *options)
{
	const struct command_row *command = option_command(options->command);

	/* A process stands for a command. */
	if (options->n_operands < command->min_operands &&
	    !(options->command == COMMAND_RECORD && option_text(options, OPTION_ATTACH_PID)))
		return complain(options, "something is missing after", command->name,
				command->operands);
	if (options->n_operands > command->max_operands)
		return complain_too_many(options, options->operands[command->max_operands]);
	return 0;
}

int option_parse(enum command_id command, int n_args, char **argv, struct option_set *options)
{
	*options = (struct option_set){ .command = command };
	options->operands = calloc((size_t)n_args + 1, sizeof(*options->operands));
	if (!options->operands)
		return -ENOMEM;

	set_defaults(options);
	struct words line = {
		.options = options, .words = argv, .n = n_args, .origin = OPTION_FROM_LINE
	};
	int r = parse_list(&line);
	/* Help is given even if a variable is wrong. */
	if (r < 0 || action_is_given(options) || command == COMMAND_GLOBAL)
		return r;

	r = parse_variables(options) ?: parse_environment_words(options);
	r = r ?: option_take_preset(options);
	return r < 0 ? r : check_operands(options);
}

int option_assign(struct option_set *options, const char *name, const char *text,
		  enum option_origin origin)
{
	bool is_undone;
	int id = find_option(options->command, name, strlen(name), &is_undone);

	/* No abbreviations: what a file says must mean the same in the next version. */
	if ((!is_undone && !is_whole(id, name, strlen(name))) || is_action((enum option_id)id))
		return complain_unknown(options, name, strlen(name));
	return assign(options, (enum option_id)id, is_undone ? opposite(text) : text, name, origin);
}

void option_finish(struct option_set *options)
{
	free(options->operands);
	array_free(options->texts, options->n_texts, it, free(*it));
	for (int id = 0; id < OPTION_COUNT; id++)
		free(options->lists[id].texts);
	*options = (struct option_set){ 0 };
}
