#include "analyze/functions/rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/parse.h"

#define PLACES "arg1 to arg12, int1 to int12"

enum takes {
	TAKES_ARGUMENT, /* argN, intN */
	TAKES_POOL, /* also @NAME */
	TAKES_SIZE, /* also a number, or argN*argM */
	TAKES_RESULT, /* ret, or *argN */
	TAKES_BLOCK, /* also argN[OFFSET] */
	TAKES_END, /* argN[OFFSET] */
	TAKES_LEFT, /* ret */
	TAKES_WORD,
};

/* Where a key's value goes; in the order that messages name them. */
static const struct key {
	const char *name;
	enum takes takes;
	size_t offset; /* in struct plan_rule */
} keys[] = {
	{ "size", TAKES_SIZE, offsetof(struct plan_rule, size) },
	{ "count", TAKES_ARGUMENT, offsetof(struct plan_rule, count) },
	{ "ptr", TAKES_BLOCK, offsetof(struct plan_rule, pointer) },
	{ "end", TAKES_END, 0 },
	{ "old", TAKES_ARGUMENT, offsetof(struct plan_rule, old) },
	{ "free", TAKES_ARGUMENT, offsetof(struct plan_rule, free) },
	{ "next", TAKES_ARGUMENT, offsetof(struct plan_rule, next) },
	{ "ref", TAKES_ARGUMENT, offsetof(struct plan_rule, ref) },
	{ "unref", TAKES_ARGUMENT, offsetof(struct plan_rule, unref) },
	{ "left", TAKES_LEFT, 0 },
	{ "pool", TAKES_POOL, offsetof(struct plan_rule, pool) },
	{ "create", TAKES_RESULT, offsetof(struct plan_rule, create) },
	{ "reset", TAKES_ARGUMENT, offsetof(struct plan_rule, reset) },
	{ "destroy", TAKES_ARGUMENT, offsetof(struct plan_rule, reset) },
	{ "name", TAKES_WORD, 0 },
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))
#define ALL_KEYS                                                                                   \
	"size, count, ptr, end, old, free, next, ref, unref, left, pool, create, reset, destroy, " \
	"name"

/* What is being read, and where a mistake is told. */
struct reader {
	const char *text;
	struct function_rule *rule;
	char *message;
};

static int refuse(const struct reader *reader, const char *at, const char *what)
{
	snprintf(reader->message, FUNCTION_MESSAGE_BYTES, "'%.90s': %s (at character %zu)",
		 reader->text, what, (size_t)(at - reader->text) + 1);
	return -EINVAL;
}

/* argN or intN; 0: it is none. */
static uint8_t read_argument(const char *text, size_t n)
{
	char number[4] = "";
	uint64_t value;

	if (n < 4 || n > 5 || (strncmp(text, "arg", 3) != 0 && strncmp(text, "int", 3) != 0))
		return 0;
	memcpy(number, text + 3, n - 3);
	if (parse_number(number, &value) < 0 || value < 1 || value > PLAN_MAX_ARGUMENTS)
		return 0;
	return (uint8_t)(value | (*text == 'i' ? PLAN_PLACE_INT : 0));
}

static int read_size(const struct reader *reader, const char *at, size_t n)
{
	struct plan_rule *plan = &reader->rule->plan;
	const char *times = memchr(at, '*', n);
	char number[16] = "";
	uint64_t bytes;

	if (isdigit((unsigned char)*at) && n < sizeof(number)) {
		memcpy(number, at, n);
		if (parse_number(number, &bytes) < 0 || bytes == 0 || bytes > UINT32_MAX)
			return refuse(reader, at, "no number of bytes");
		plan->bytes = (uint32_t)bytes;
		return 0;
	}
	plan->size = read_argument(at, times ? (size_t)(times - at) : n);
	if (times)
		plan->count = read_argument(times + 1, n - (size_t)(times + 1 - at));
	return plan->size && (!times || plan->count)
		       ? 0
		       : refuse(reader, at,
				"a size is argN, intN, argN*argM, or a number of bytes");
}

/* argN[OFFSET]; 0: it is none. */
static uint8_t read_member(const char *at, size_t n, uint16_t *ret_offset)
{
	const char *open = memchr(at, '[', n);
	char number[8] = "";
	uint64_t offset;

	if (!open || at[n - 1] != ']')
		return 0;
	size_t n_number = n - (size_t)(open + 1 - at) - 1;
	if (n_number == 0 || n_number >= sizeof(number))
		return 0;
	memcpy(number, open + 1, n_number);
	if (parse_number(number, &offset) < 0 || offset > UINT16_MAX)
		return 0;
	*ret_offset = (uint16_t)offset;
	return read_argument(at, (size_t)(open - at));
}

static int read_block(const struct reader *reader, const char *at, size_t n)
{
	struct plan_rule *plan = &reader->rule->plan;
	uint8_t place = read_member(at, n, &plan->pointer_at);

	if (!place || place & PLAN_PLACE_INT)
		return refuse(reader, at,
			      "what is known at the end of a call is ret, *argN, or argN[OFFSET]");
	plan->pointer = place | PLAN_PLACE_MEMBER;
	return 0;
}

static int read_end(const struct reader *reader, const char *at, size_t n)
{
	reader->rule->end = read_member(at, n, &reader->rule->plan.end_at);
	return reader->rule->end && reader->rule->plan.end_at
		       ? 0
		       : refuse(reader, at, "an end is argN[OFFSET], of the argument of ptr=");
}

static int read_result(const struct reader *reader, const char *at, size_t n, uint8_t *ret_place)
{
	uint8_t place = n > 1 && *at == '*' ? read_argument(at + 1, n - 1) : 0;

	if (n == 3 && strncmp(at, "ret", n) == 0)
		place = PLAN_PLACE_RESULT;
	if (!place || place & PLAN_PLACE_INT)
		return refuse(reader, at, "what is known at the end of a call is ret, or *argN");
	*ret_place = place;
	return 0;
}

/* A variable of the file that the function is in, or an argument. */
static int read_pool(const struct reader *reader, const char *at, size_t n)
{
	struct plan_rule *plan = &reader->rule->plan;

	free(reader->rule->variable);
	reader->rule->variable = NULL;
	plan->pool = n > 1 && *at == '@' ? PLAN_PLACE_FILE : read_argument(at, n);
	if (!plan->pool)
		return refuse(reader, at, "a pool is @VARIABLE, or one of " PLACES);
	if (plan->pool == PLAN_PLACE_FILE)
		reader->rule->variable = strndup(at + 1, n - 1);
	return plan->pool == PLAN_PLACE_FILE && !reader->rule->variable ? -ENOMEM : 0;
}

static int read_value(const struct reader *reader, const struct key *key, const char *at, size_t n)
{
	uint8_t *place = (uint8_t *)&reader->rule->plan + key->offset;

	switch (key->takes) {
	case TAKES_SIZE:
		return read_size(reader, at, n);
	case TAKES_BLOCK:
		if (memchr(at, '[', n))
			return read_block(reader, at, n);
		reader->rule->plan.pointer_at = 0;
		return read_result(reader, at, n, place);
	case TAKES_RESULT:
		return read_result(reader, at, n, place);
	case TAKES_END:
		return read_end(reader, at, n);
	case TAKES_LEFT:
		reader->rule->is_left = n == 3 && strncmp(at, "ret", n) == 0;
		return reader->rule->is_left ? 0 : refuse(reader, at, "what is left is ret");
	case TAKES_POOL:
		return read_pool(reader, at, n);
	case TAKES_WORD:
		free(reader->rule->allocator);
		reader->rule->allocator = strndup(at, n);
		return !reader->rule->allocator ? -ENOMEM
		       : n > 0			? 0
						: refuse(reader, at, "a name is empty");
	default:
		*place = read_argument(at, n);
		return *place ? 0 : refuse(reader, at, "an argument is one of " PLACES);
	}
}

/* One KEY=VALUE of n bytes. "ret=ptr" reads as "ptr=ret". */
static int read_pair(const struct reader *reader, const char *at, size_t n)
{
	const char *equal = memchr(at, '=', n);

	if (!equal)
		return refuse(reader, at, "no KEY=PLACE");
	size_t n_key = (size_t)(equal - at), n_value = n - n_key - 1;
	if (n == strlen("ret=ptr") && strncmp(at, "ret=ptr", n) == 0) {
		reader->rule->plan.pointer = PLAN_PLACE_RESULT;
		return 0;
	}
	for (size_t i = 0; i < N_KEYS; i++)
		if (strlen(keys[i].name) == n_key && strncmp(at, keys[i].name, n_key) == 0)
			return read_value(reader, &keys[i], equal + 1, n_value);
	return refuse(reader, at, "no key: " ALL_KEYS);
}

/* Does what was read make sense together? */
static int check(const struct reader *reader, const char *at)
{
	struct plan_rule *plan = &reader->rule->plan;
	bool has_end = plan->end_at, has_size = plan->size || plan->bytes;

	if (has_size && !plan->pointer)
		plan->pointer = PLAN_PLACE_RESULT;
	if (has_end && (has_size || plan->pointer != (reader->rule->end | PLAN_PLACE_MEMBER)))
		return refuse(reader, at,
			      "end= goes with ptr= of the same argument, and without size=");
	if (plan->pointer && !has_size && !has_end)
		return refuse(reader, at, "a block needs its size=, or end=");
	if (plan->pointer && plan->create)
		return refuse(reader, at, "a call makes a block, or a pool: ptr= or create=");
	if (plan->count && !plan->size)
		return refuse(reader, at, "count= goes with size=");
	if (plan->old && !plan->pointer)
		return refuse(reader, at, "old= goes with size=: what it becomes");
	if (plan->next && !plan->free)
		return refuse(reader, at, "next= goes with free=: where blocks have the next one");
	if (reader->rule->is_left && !plan->unref)
		return refuse(reader, at,
			      "left= goes with unref=: 0 says that the block has ended");
	if (plan->unref && (plan->ref || plan->pointer || plan->create || plan->free))
		return refuse(reader, at, "unref= goes with left= and name= alone");
	if (!plan->pointer && !plan->free && !plan->create && !plan->reset && !plan->ref &&
	    !plan->unref)
		return refuse(reader, at,
			      "one of size, free, ref, unref, create, reset, destroy is needed");
	if (reader->rule->is_left)
		plan->unref |= PLAN_PLACE_RESULT;
	plan->is_rule = true;
	return 0;
}

/* The expression is one of whole names. */
static int compile(const struct reader *reader, const char *from, size_t n)
{
	auto_free char *pattern = NULL;
	char why[80];

	if (n == 0)
		return refuse(reader, from, "the expression for names is empty");
	if (strncmp(from, "0x", 2) == 0 && !reader->rule->module)
		return refuse(reader, from, "an address needs its file: MODULE!0x1234");
	if (asprintf(&pattern, "^(%.*s)$", (int)n, from) < 0)
		return -ENOMEM;
	int r = regcomp(&reader->rule->regex, pattern, REG_EXTENDED | REG_NOSUB);
	if (r == REG_ESPACE)
		return -ENOMEM;
	if (r != 0) {
		regerror(r, &reader->rule->regex, why, sizeof(why));
		return refuse(reader, from, why);
	}
	reader->rule->pattern = strndup(from, n);
	if (!reader->rule->allocator)
		reader->rule->allocator = strndup(from, n);
	if (reader->rule->pattern && reader->rule->allocator)
		return 0;
	regfree(&reader->rule->regex);
	return -ENOMEM;
}

static int read_pairs(const struct reader *reader, const char *at)
{
	int r = 0;

	while (r == 0) {
		size_t n = strcspn(at, ",");
		r = read_pair(reader, at, n);
		if (r < 0 || !at[n])
			break;
		at += n + 1;
	}
	return r;
}

static int read_all(const struct reader *reader)
{
	const char *text = reader->text, *colon = strrchr(text, ':');
	const char *mark = strchr(text, '!');
	bool has_module = mark && mark != text && !strstr(text, "operator!");
	const char *from = has_module ? mark + 1 : text;

	if (!colon || colon < from)
		return refuse(reader, text + strlen(text),
			      "no ':' with what the arguments are: :size=arg1");
	if (has_module) {
		reader->rule->module = strndup(text, (size_t)(mark - text));
		if (!reader->rule->module)
			return -ENOMEM;
	}
	int r = read_pairs(reader, colon + 1) ?: check(reader, colon + 1);
	return r < 0 ? r : compile(reader, from, (size_t)(colon - from));
}

int function_rule_parse(const char *text, const char *allocator, struct function_rule *ret_rule,
			char ret_message[static FUNCTION_MESSAGE_BYTES])
{
	struct function_rule rule = {
		.text = text,
		.allocator = allocator ? strdup(allocator) : NULL,
		.set = allocator,
	};
	const struct reader reader = { text, &rule, ret_message };
	int r = allocator && !rule.allocator ? -ENOMEM : read_all(&reader);

	if (r < 0)
		return free_all(rule.module, rule.pattern, rule.allocator, rule.variable), r;
	*ret_rule = rule;
	return 0;
}

void function_rule_finish(struct function_rule *rule)
{
	regfree(&rule->regex);
	free_all(rule->module, rule->pattern, rule->allocator, rule->variable);
}
