#include "pmu/choice.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "common/parse.h"
#include "pmu/stream.h"

#define NAME_BYTES 32
#define MAX_HZ	   UINT64_C(100000) /* a thread's CPU clock fires at most every 10 us */

/* One word of a choice, taken apart. */
struct word {
	char name[NAME_BYTES];
	char rate[NAME_BYTES]; /* behind the '@'; "" without one */
	bool has_rate;
};

struct parsing {
	struct pmu_choice *choice;
	char *message;
	bool has_none;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct parsing *parsing,
							const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(parsing->message, PMU_CHOICE_MESSAGE_BYTES, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static int refuse_name(const struct parsing *parsing, const char *name)
{
	size_t n = (size_t)snprintf(parsing->message, PMU_CHOICE_MESSAGE_BYTES,
				    "'%s' is not one of auto, none", name);

	for (size_t i = 0; pmu_sources[i] && n < PMU_CHOICE_MESSAGE_BYTES; i++)
		n += (size_t)snprintf(parsing->message + n, PMU_CHOICE_MESSAGE_BYTES - n, ", %s",
				      pmu_sources[i]->name);
	return -EINVAL;
}

/* Cut the next word off *text. Returns false when it is longer than any that means something. */
static bool next_word(const char **text, struct word *ret_word)
{
	size_t n_bytes = strcspn(*text, ",");
	size_t n_name = strcspn(*text, ",@");
	struct word word = { .has_rate = n_name < n_bytes };
	size_t n_rate = word.has_rate ? n_bytes - n_name - 1 : 0;

	snprintf(word.name, sizeof(word.name), "%.*s", (int)n_name, *text);
	snprintf(word.rate, sizeof(word.rate), "%.*s", (int)n_rate, *text + n_name + 1);
	*text += n_bytes;
	*ret_word = word;
	return n_name < sizeof(word.name) && n_rate < sizeof(word.rate);
}

static bool cut_suffix(char *text, const char *suffix)
{
	size_t n = strlen(text), n_suffix = strlen(suffix);

	if (n <= n_suffix || strcmp(text + n - n_suffix, suffix) != 0)
		return false;
	text[n - n_suffix] = '\0';
	return true;
}

static int parse_rate(const struct parsing *parsing, struct word *word, struct pmu_chosen *chosen)
{
	const struct access_source *source = chosen->source;
	bool is_hz = cut_suffix(word->rate, "Hz");
	bool is_period = !is_hz && cut_suffix(word->rate, "p");
	uint64_t number;

	if (parse_number(word->rate, &number) < 0 || number == 0)
		return refuse(parsing,
			      "%s@%s: a rate is a number above 0 (%s@997: Hz for timed sources, "
			      "else one in 997; 997p, 997Hz)",
			      word->name, word->rate, word->name);
	if (source->role == ACCESS_ROLE_TASKS)
		return refuse(parsing, "%s has no rate: it gives no samples", word->name);
	if (source->role == ACCESS_ROLE_PAGES)
		return refuse(parsing, "pages has no rate: --pages says how often");
	if (is_hz && source->role == ACCESS_ROLE_FAULTS)
		return refuse(parsing, "%s has no rate in Hz: %s@N takes one in N", word->name,
			      word->name);
	if (is_period || (!is_hz && !source->is_timed)) {
		chosen->period = number;
		return 0;
	}
	chosen->freq_hz = number;
	if (number <= MAX_HZ)
		return 0;
	return refuse(parsing, "%s@%s: is not between 1 and 100000 Hz", word->name, word->rate);
}

static int add_named(const struct parsing *parsing, struct word *word)
{
	struct pmu_choice *choice = parsing->choice;
	struct pmu_chosen chosen = { .source = pmu_source_find(word->name) };

	if (!chosen.source)
		return refuse_name(parsing, word->name);
	for (size_t i = 0; i < choice->n; i++)
		if (choice->items[i].source == chosen.source)
			return refuse(parsing, "%s stands there twice", word->name);
	if (choice->n == PMU_MAX_SOURCES)
		return refuse(parsing, "more than %d sources", PMU_MAX_SOURCES);
	int r = word->has_rate ? parse_rate(parsing, word, &chosen) : 0;
	if (r == 0)
		choice->items[choice->n++] = chosen;
	return r;
}

static int add_word(struct parsing *parsing, struct word *word)
{
	bool is_auto = strcmp(word->name, "auto") == 0;
	bool is_none = strcmp(word->name, "none") == 0;

	if (!is_auto && !is_none)
		return add_named(parsing, word);
	if (word->has_rate)
		return refuse(parsing,
			      "%s has no rate of its own: --freq and --period are for what it "
			      "takes, or name the source (clock@%s)",
			      word->name, word->rate);
	parsing->choice->has_auto |= is_auto;
	parsing->has_none |= is_none;
	return 0;
}

static size_t count_timed(const struct pmu_choice *choice)
{
	size_t n = 0;

	for (size_t i = 0; i < choice->n; i++)
		n += choice->items[i].source->is_timed;
	return n;
}

static size_t count_access(const struct pmu_choice *choice)
{
	size_t n = 0;

	for (size_t i = 0; i < choice->n; i++)
		n += choice->items[i].source->role == ACCESS_ROLE_ACCESS &&
		     !choice->items[i].source->is_opt_in;
	return n;
}

static int check_combination(const struct parsing *parsing)
{
	const struct pmu_choice *choice = parsing->choice;

	if (parsing->has_none && (choice->has_auto || choice->n > 0))
		return refuse(parsing, "none goes with no other source");
	if (choice->has_auto && count_access(choice) > 0)
		return refuse(parsing, "auto takes the best source of accesses itself: name either "
				       "auto or the sources");
	if (choice->has_auto && count_timed(choice) > 0)
		return refuse(parsing,
			      "auto may take the clock, and signal samples CPU time as well: name "
			      "the sources, as signal,faults");
	if (count_timed(choice) > 1)
		return refuse(parsing,
			      "two sources that sample CPU time would count it twice: take one");
	return 0;
}

int pmu_choice_parse(const char *text, struct pmu_choice *ret_choice,
		     char message[PMU_CHOICE_MESSAGE_BYTES])
{
	struct pmu_choice choice = { .n = 0 };
	struct parsing parsing = { .choice = &choice, .message = message };
	int r;

	for (;; text++) {
		struct word word;

		if (!next_word(&text, &word))
			return refuse_name(&parsing, word.name);
		r = add_word(&parsing, &word);
		if (r < 0)
			return r;
		if (*text == '\0')
			break;
	}
	r = check_combination(&parsing);
	if (r == 0)
		*ret_choice = choice;
	return r;
}

static bool has_source(const struct pmu_choice *choice, const struct access_source *source)
{
	return array_find(choice->items, choice->n, it, it->source == source);
}

bool pmu_choice_has(const struct pmu_choice *choice, const char *name)
{
	const struct access_source *source = pmu_source_find(name);

	return source && has_source(choice, source);
}

/* An item, and the other halves of its source with the same rate. */
static void append(struct pmu_choice *choice, const struct pmu_chosen *chosen)
{
	struct pmu_chosen item = *chosen;

	for (; item.source; item.source = item.source->companion)
		if (choice->n < PMU_MAX_SOURCES && !has_source(choice, item.source))
			choice->items[choice->n++] = item;
}

static void append_alone(struct pmu_choice *choice, const struct pmu_chosen *chosen)
{
	if (choice->n < PMU_MAX_SOURCES)
		choice->items[choice->n++] = *chosen;
}

/* Where none opens the last one's refusal is told: it needs least, so its remedy helps most. */
static void add_best(struct pmu_choice *choice, const struct access_options *options)
{
	size_t n_passed = 0;
	bool is_open = false;

	for (size_t i = 0; pmu_sources[i] && !is_open; i++) {
		struct pmu_chosen chosen = { .source = pmu_sources[i] };

		if (chosen.source->role != ACCESS_ROLE_ACCESS || chosen.source->is_opt_in)
			continue;
		n_passed = choice->n;
		chosen.error = chosen.source->probe(chosen.source, options, &chosen.refusal);
		is_open = chosen.error == 0;
		if (is_open)
			append(choice, &chosen);
		else
			append_alone(choice, &chosen);
	}
	for (size_t i = 0; i < n_passed; i++)
		choice->items[i].is_passed_over = true;
}

void pmu_choice_resolve(struct pmu_choice *choice, const struct access_options *options)
{
	struct pmu_choice named = *choice;

	choice->n = 0;
	if (named.has_auto) {
		add_best(choice, options);
		if (!has_source(&named, &pmu_source_faults))
			append(choice, &(struct pmu_chosen){ .source = &pmu_source_faults });
	}
	for (size_t i = 0; i < named.n; i++)
		if (named.items[i].source != &pmu_source_tasks)
			append(choice, &named.items[i]);
	if (choice->n > 0 || named.n > 0)
		append(choice, &(struct pmu_chosen){ .source = &pmu_source_tasks });
}

struct access_options pmu_chosen_options(const struct pmu_chosen *chosen,
					 const struct access_options *options)
{
	struct access_options own = *options;

	if (chosen->freq_hz || chosen->period || chosen->source->role != ACCESS_ROLE_ACCESS) {
		own.freq_hz = chosen->freq_hz;
		own.period = chosen->period;
	}
	return own;
}
