#include "runner/control/plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/parse.h"
#include "common/text.h"

#define LONGEST_NS   (UINT64_C(1) << 60)
#define MAX_REPEAT   UINT64_C(1000000000)
#define MAX_COMPARED 100000u /* windows of two specs, to find out whether they overlap */
#define FORM	     "[CLOCK:]DELAY[:DURATION[:REPEAT]], such as 1h:10s:3 or cpu:5s:1s"
#define CLOCKS                                                                                     \
	"a clock is real, cpu (of all processes), process (the program itself) or thread (its "    \
	"main thread), and stands first"

static const char *const clock_names[WINDOW_CLOCKS] = {
	[WINDOW_REAL] = "real",
	[WINDOW_CPU] = "cpu",
	[WINDOW_PROCESS] = "process",
	[WINDOW_THREAD] = "thread",
};

static int refuse(char *message, size_t n_bytes, const char *text, const char *why)
{
	return text_refuse(-EINVAL, message, n_bytes, "--windows: '%.80s' %s", text, why);
}

static int read_time(const char *text, uint64_t *ret_ns)
{
	int64_t ns;
	int r = parse_duration(text, &ns);

	if (r < 0 || ns < 0 || (uint64_t)ns > LONGEST_NS)
		return -EINVAL;
	*ret_ns = (uint64_t)ns;
	return 0;
}

/* One window; the copy of its text is cut up. */
static int read_spec(char *copy, const char *text, struct window_spec *ret_spec, char *message,
		     size_t n_bytes)
{
	struct window_spec spec = { .length_ns = WINDOW_ENDLESS, .repeat = 1 };
	char *rest = copy;
	char *word = strsep(&rest, ":");
	unsigned clock = 0;

	while (clock < WINDOW_CLOCKS && strcmp(word, clock_names[clock]) != 0)
		clock++;
	if (clock < WINDOW_CLOCKS) {
		spec.clock = clock;
		word = strsep(&rest, ":");
	} else if (isalpha((unsigned char)word[0])) {
		return refuse(message, n_bytes, text, "has no clock that is known: " CLOCKS);
	}
	if (!word || read_time(word, &spec.delay_ns) < 0)
		return refuse(message, n_bytes, text, "is not " FORM);
	word = strsep(&rest, ":");
	if (word && read_time(word, &spec.length_ns) < 0)
		return refuse(message, n_bytes, text, "is not " FORM);
	if (spec.length_ns == 0)
		return refuse(message, n_bytes, text, "is a window of no time");
	word = strsep(&rest, ":");
	if (rest && isalpha((unsigned char)rest[0]))
		return refuse(message, n_bytes, text, "ends with a clock: " CLOCKS);
	if (rest || (word && (parse_number(word, &spec.repeat) < 0 || spec.repeat > MAX_REPEAT)))
		return refuse(message, n_bytes, text, "is not " FORM);
	if (spec.repeat != 1 && spec.delay_ns == 0)
		return refuse(message, n_bytes, text,
			      "repeats without a DELAY between: that is one window");
	snprintf(spec.text, sizeof(spec.text), "%s", text);
	*ret_spec = spec;
	return 0;
}

/* The begin of window number k (from 0). */
static uint64_t begin_of(const struct window_spec *spec, uint64_t k)
{
	return k * (spec->delay_ns + spec->length_ns) + spec->delay_ns;
}

static bool has_window(const struct window_spec *spec, uint64_t k)
{
	return spec->repeat == 0 || k < spec->repeat;
}

/* They count by different clocks: nobody knows, and what either is on for is recorded. */
static bool overlap(const struct window_spec *a, const struct window_spec *b)
{
	uint64_t i = 0, k = 0;

	if (a->clock != b->clock)
		return false;
	while (has_window(a, i) && has_window(b, k) && i + k < MAX_COMPARED) {
		uint64_t at = begin_of(a, i), bt = begin_of(b, k);

		if (at < bt + b->length_ns && bt < at + a->length_ns)
			return true;
		if (at < bt)
			i++;
		else
			k++;
	}
	return false;
}

static int check_overlap(const struct window_plan *plan, char *message, size_t n_bytes)
{
	const struct window_spec *last = &plan->specs[plan->n - 1];

	for (size_t i = 0; i + 1 < plan->n; i++) {
		if (!overlap(&plan->specs[i], last))
			continue;
		snprintf(message, n_bytes, "--windows: %s and %s overlap", plan->specs[i].text,
			 last->text);
		return -EINVAL;
	}
	return 0;
}

static int add(struct window_plan *plan, const char *text, char *message, size_t n_bytes)
{
	char copy[sizeof(plan->specs[0].text)];

	if (plan->n == WINDOW_PLAN_MAX)
		return text_refuse(-EINVAL, message, n_bytes, "--windows: more than %d of them",
				   WINDOW_PLAN_MAX);
	if (strlen(text) >= sizeof(copy))
		return refuse(message, n_bytes, text, "is not " FORM);
	strcpy(copy, text);
	int r = read_spec(copy, text, &plan->specs[plan->n], message, n_bytes);
	if (r < 0)
		return r;
	plan->has_clock[plan->specs[plan->n++].clock] = true;
	return check_overlap(plan, message, n_bytes);
}

int window_plan_read(const char *const *texts, struct window_plan *ret_plan, char *message,
		     size_t n_bytes)
{
	*ret_plan = (struct window_plan){ 0 };
	for (; texts && *texts; texts++) {
		const char *at = *texts;

		for (;;) {
			char one[256];
			size_t n = strcspn(at, ",");

			snprintf(one, sizeof(one), "%.*s", (int)n, at);
			int r = add(ret_plan, one, message, n_bytes);
			if (r < 0)
				return r;
			if (at[n] == '\0')
				break;
			at += n + 1;
		}
	}
	return 0;
}

/* Whether a spec is on at its time; *ret_left_ns: until it changes, UINT64_MAX: never. */
static bool is_on(const struct window_spec *spec, uint64_t at_ns, uint64_t *ret_left_ns)
{
	uint64_t cycle_ns = spec->delay_ns + spec->length_ns;
	uint64_t phase_ns = at_ns % cycle_ns;

	*ret_left_ns = UINT64_MAX;
	if (!has_window(spec, at_ns / cycle_ns))
		return false;
	*ret_left_ns = phase_ns < spec->delay_ns ? spec->delay_ns - phase_ns : cycle_ns - phase_ns;
	return phase_ns >= spec->delay_ns;
}

struct window_moment window_plan_at(const struct window_plan *plan, const struct window_times *at)
{
	struct window_moment moment = { 0 };

	for (size_t i = 0; i < WINDOW_CLOCKS; i++)
		moment.left.ns[i] = UINT64_MAX;
	for (size_t i = 0; i < plan->n; i++) {
		const struct window_spec *spec = &plan->specs[i];
		uint64_t *least = &moment.left.ns[spec->clock];
		uint64_t left_ns;

		if (is_on(spec, at->ns[spec->clock], &left_ns) && !moment.spec)
			moment.spec = spec;
		if (left_ns < *least)
			*least = left_ns;
	}
	return moment;
}

uint64_t window_plan_begun(const struct window_plan *plan, const struct window_times *at)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < plan->n; i++) {
		const struct window_spec *spec = &plan->specs[i];
		uint64_t at_ns = at->ns[spec->clock];
		uint64_t cycle_ns = spec->delay_ns + spec->length_ns;
		uint64_t n = at_ns / cycle_ns + (at_ns % cycle_ns >= spec->delay_ns);

		sum += has_window(spec, n) || n == 0 ? n : spec->repeat;
	}
	return sum;
}
