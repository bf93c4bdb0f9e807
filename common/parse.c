#include "common/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Read the leading digits; *ret_end points behind them. */
static int parse_digits(const char *text, uint64_t *ret_number, const char **ret_end)
{
	uint64_t number = 0;

	if (!is_digit(*text))
		return -EINVAL;
	for (; is_digit(*text); text++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
			return -ERANGE;
	}
	*ret_number = number;
	*ret_end = text;
	return 0;
}

int parse_number(const char *text, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *end = NULL;
	int r = parse_digits(text, &number, &end);

	if (r < 0)
		return r;
	if (*end != '\0')
		return -EINVAL;

	*ret_number = number;
	return 0;
}

static const struct {
	const char *name;
	uint64_t bytes;
} size_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "TiB", UINT64_C(1) << 40 },
	{ "KB", UINT64_C(1000) },
	{ "MB", UINT64_C(1000000) },
	{ "GB", UINT64_C(1000000000) },
	{ "TB", UINT64_C(1000000000000) },
};

int parse_size(const char *text, uint64_t *ret_bytes)
{
	uint64_t number = 0;
	const char *unit = NULL;
	int r = parse_digits(text, &number, &unit);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(size_units) / sizeof(size_units[0]); i++) {
		if (strcasecmp(unit, size_units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(number, size_units[i].bytes, &number))
			return -ERANGE;
		*ret_bytes = number;
		return 0;
	}
	return -EINVAL;
}

static const struct {
	const char *name;
	int64_t ns;
} time_units[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "min", INT64_C(60000000000) },
	{ "h", INT64_C(3600000000000) },
};

/* The digits behind a point, as ns of a unit; what is below a ns is cut off. */
static int64_t parse_fraction(const char **at, int64_t unit_ns)
{
	int64_t ns = 0;

	if (**at != '.')
		return 0;
	for ((*at)++; is_digit(**at); (*at)++) {
		unit_ns /= 10;
		ns += (**at - '0') * unit_ns;
	}
	return ns;
}

int parse_duration(const char *text, int64_t *ret_ns)
{
	uint64_t number = 0;
	const char *behind = NULL;
	int r = parse_digits(text, &number, &behind);

	if (r < 0)
		return r;
	if (number == 0 && *behind == '\0') {
		*ret_ns = 0;
		return 0;
	}
	for (size_t i = 0; i < sizeof(time_units) / sizeof(time_units[0]); i++) {
		const char *unit = behind;
		int64_t ns = parse_fraction(&unit, time_units[i].ns);
		if (strcmp(unit, time_units[i].name) != 0)
			continue;
		int64_t whole = 0;
		if (__builtin_mul_overflow(number, time_units[i].ns, &whole) ||
		    __builtin_add_overflow(whole, ns, &ns))
			return -ERANGE;
		*ret_ns = ns;
		return 0;
	}
	return -EINVAL;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static bool is_escaped(char quote, const char *at)
{
	if (at[0] != '\\' || at[1] == '\0' || quote == '\'')
		return false;
	return quote == '\0' || strchr("\\\"$`", at[1]) != NULL;
}

/* Copy one word from *at to *to, without its quotes; both move on. */
static int take_word(char **at, char **to)
{
	char quote = '\0';

	for (; **at != '\0' && (quote != '\0' || !is_blank(**at)); (*at)++) {
		if (is_escaped(quote, *at))
			*(*to)++ = *++*at;
		else if (quote == '\0' && (**at == '\'' || **at == '"'))
			quote = **at;
		else if (quote != '\0' && **at == quote)
			quote = '\0';
		else
			*(*to)++ = **at;
	}
	return quote == '\0' ? 0 : -EINVAL;
}

int parse_words(char *buffer, char **words, size_t max_words, size_t *ret_n)
{
	char *at = buffer;
	char *to = buffer;
	size_t n = 0;

	for (;;) {
		while (is_blank(*at))
			at++;
		if (*at == '\0')
			break;
		if (n == max_words)
			return -E2BIG;
		words[n++] = to;

		int r = take_word(&at, &to);
		if (r < 0)
			return r;
		/* The blank behind the word is read before its place is overwritten. */
		if (*at != '\0')
			at++;
		*to++ = '\0';
	}
	*ret_n = n;
	return 0;
}

#define MAX_NAME_BYTES 63

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Both are at most MAX_NAME_BYTES long. */
static unsigned distance_of(const char *one, const char *other)
{
	unsigned cost[MAX_NAME_BYTES + 1][MAX_NAME_BYTES + 1];
	size_t n = strlen(one);
	size_t m = strlen(other);

	for (size_t i = 0; i <= n; i++) {
		for (size_t j = 0; j <= m; j++) {
			if (i == 0 || j == 0) {
				cost[i][j] = (unsigned)(i + j);
				continue;
			}
			unsigned replace = cost[i - 1][j - 1] + (one[i - 1] != other[j - 1]);
			cost[i][j] = smaller(replace, 1 + smaller(cost[i - 1][j], cost[i][j - 1]));
			if (i > 1 && j > 1 && one[i - 1] == other[j - 2] &&
			    one[i - 2] == other[j - 1])
				cost[i][j] = smaller(cost[i][j], 1 + cost[i - 2][j - 2]);
		}
	}
	return cost[n][m];
}

static size_t common_bytes(const char *one, const char *other)
{
	size_t n = 0;

	while (one[n] != '\0' && one[n] == other[n])
		n++;
	return n;
}

void parse_nearest_offer(struct parse_nearest *nearest, const char *name)
{
	size_t n = strlen(nearest->word);

	if (n > MAX_NAME_BYTES || strlen(name) > MAX_NAME_BYTES)
		return;

	unsigned distance = distance_of(nearest->word, name);
	size_t n_common = common_bytes(nearest->word, name);
	if (distance > (n < 3 ? 1 : n / 3))
		return;
	if (nearest->name && (distance > nearest->distance ||
			      (distance == nearest->distance && n_common <= nearest->n_common)))
		return;
	nearest->name = name;
	nearest->distance = distance;
	nearest->n_common = n_common;
}
