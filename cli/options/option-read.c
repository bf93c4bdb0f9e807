#include "cli/options/option.h"

#include <assert.h>
#include <stdio.h>

static const struct option_value *value_of(const struct option_set *options, enum option_id id,
					   enum option_type type)
{
	assert(option_row(id)->type == type);
	(void)type;
	return &options->values[id];
}

bool option_flag(const struct option_set *options, enum option_id id)
{
	assert(option_row(id)->type == OPTION_FLAG || option_row(id)->type == OPTION_ACTION);
	return options->values[id].number != 0;
}

const char *option_text(const struct option_set *options, enum option_id id)
{
	assert(option_row(id)->type == OPTION_TEXT || option_row(id)->type == OPTION_RATES);
	return options->values[id].text;
}

uint64_t option_size(const struct option_set *options, enum option_id id)
{
	return value_of(options, id, OPTION_SIZE)->number;
}

uint64_t option_number(const struct option_set *options, enum option_id id)
{
	return value_of(options, id, OPTION_NUMBER)->number;
}

unsigned option_frequency(const struct option_set *options, enum option_id id)
{
	return (unsigned)value_of(options, id, OPTION_FREQUENCY)->number;
}

enum option_choice option_choice(const struct option_set *options, enum option_id id)
{
	return (enum option_choice)value_of(options, id, OPTION_CHOICE)->number;
}

const char *const *option_texts(const struct option_set *options, enum option_id id)
{
	(void)value_of(options, id, OPTION_TEXTS);
	return options->lists[id].texts;
}

uint32_t option_words(const struct option_set *options, enum option_id id)
{
	return (uint32_t)value_of(options, id, OPTION_WORDS)->number;
}

enum option_origin option_origin(const struct option_set *options, enum option_id id)
{
	return options->values[id].origin;
}

const char *option_origin_name(enum option_origin origin)
{
	static const char *const names[] = {
		[OPTION_UNSET] = "",
		[OPTION_FROM_DEFAULT] = "default",
		[OPTION_FROM_HEIMDALLR] = "Heimdallr's variable",
		[OPTION_FROM_USER_FILE] = "~/.config/memsight.ini",
		[OPTION_FROM_FOLDER_FILE] = "./memsight.ini",
		[OPTION_FROM_FILE] = "series",
		[OPTION_FROM_COPY] = "copy",
		[OPTION_FROM_WORDS] = "MEMSIGHT_OPTIONS",
		[OPTION_FROM_VARIABLE] = "variable",
		[OPTION_FROM_LINE] = "command line",
	};

	return names[origin];
}

void option_words_from(const struct option_set *options, enum option_origin origin, char *text,
		       size_t n_bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (int id = 0; id < OPTION_COUNT && n < n_bytes; id++) {
		const struct option_value *value = &options->values[id];
		const struct option_row *row = option_row((enum option_id)id);
		bool is_set = row->type == OPTION_FLAG && value->number;

		if (origin == OPTION_UNSET ? !value->of_preset
					   : value->of_preset || value->origin != origin)
			continue;
		n += (size_t)snprintf(text + n, n_bytes - n, " --%s%s%s", row->name,
				      is_set ? "" : "=", is_set ? "" : value->text);
	}
}
