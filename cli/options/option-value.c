#include "cli/options/option-value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/parse.h"

#define MAX_FREQUENCY_HZ 100000 /* a thread's CPU clock fires at most every 10 us */

struct parsing {
	enum option_id id;
	const char *text;
	const char *shown;
	char *message;
};

static int refuse(const struct parsing *parsing, const char *why)
{
	snprintf(parsing->message, OPTION_MESSAGE_BYTES, "%s: '%s' %s", parsing->shown,
		 parsing->text, why);
	return -EINVAL;
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
	if (parsing->text[0] == '\0')
		return refuse(parsing, "is empty");
	return 0;
}

static int parse_bytes(const struct parsing *parsing, struct option_value *value)
{
	int r = parse_size(parsing->text, &value->number);

	if (r == -ERANGE)
		return refuse(parsing, "is too big");
	return r < 0 ? refuse(parsing, "is not a size (such as 64M or 2G)") : 0;
}

static int parse_count(const struct parsing *parsing, struct option_value *value)
{
	int r = parse_number(parsing->text, &value->number);

	if (r == -ERANGE)
		return refuse(parsing, "is too big");
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
	char choices[128];
	char why[160];

	for (int i = 0; i < CHOICE_COUNT; i++) {
		const struct choice_row *row = option_choice_row((enum option_choice)i);

		if (row->option != parsing->id || strcmp(row->name, parsing->text) != 0)
			continue;
		if (row->refusal) {
			snprintf(parsing->message, OPTION_MESSAGE_BYTES, "%s: %s", parsing->shown,
				 row->refusal);
			return -EINVAL;
		}
		value->number = (uint64_t)i;
		return 0;
	}
	option_argument(parsing->id, choices, sizeof(choices));
	snprintf(why, sizeof(why), "is not one of %s", choices);
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

	for (int i = 0; i < CHOICE_COUNT && n < OPTION_MESSAGE_BYTES; i++) {
		const struct choice_row *row = option_choice_row((enum option_choice)i);

		if (row->option != parsing->id)
			continue;
		n += (size_t)snprintf(parsing->message + n, OPTION_MESSAGE_BYTES - n, "%s%s",
				      separator, row->name);
		separator = ", ";
	}
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
static int parse_list(const struct parsing *parsing, struct option_value *value)
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
	[OPTION_CHOICE] = parse_choice, [OPTION_WORDS] = parse_list,
	[OPTION_TEXTS] = parse_text,	[OPTION_RATES] = parse_rates,
};

/* What an option without an argument means; NULL: it needs one. */
static const char *bare_text(const struct option_row *row)
{
	if (row->type == OPTION_FLAG || row->type == OPTION_ACTION)
		return "yes";
	return row->argument && row->argument[0] == '[' ? "-" : NULL;
}

int option_value_parse(enum option_id id, const char *text, const char *shown,
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
