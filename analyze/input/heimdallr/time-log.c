/* time.log: GNU time's default format. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/heimdallr/folder.h"

/* The start of the number that stands right before a word; NULL: there is none. */
static const char *number_before(const char *text, const char *word)
{
	const char *at = strstr(text, word);
	const char *start = at;

	while (start && start > text && strchr("0123456789.:", start[-1]))
		start--;
	return start == at ? NULL : start;
}

/* SECONDS[.FRACTION] in ns, to its last digit; the end of it in *ret_end. -EINVAL */
static int read_seconds(const char *text, char **ret_end, uint64_t *ret_ns)
{
	uint64_t ns, unit = 100000000;

	errno = 0;
	uint64_t seconds = strtoull(text, ret_end, 10);
	if (*ret_end == text || errno || seconds > INT64_MAX / 1000000000 - 1)
		return -EINVAL;
	ns = seconds * 1000000000;
	if (**ret_end == '.') {
		for ((*ret_end)++; **ret_end >= '0' && **ret_end <= '9'; (*ret_end)++) {
			ns += unit * (uint64_t)(**ret_end - '0');
			unit /= 10;
		}
	}
	*ret_ns = ns;
	return 0;
}

static int read_time(const char *text, const char *word, uint64_t *ret_ns)
{
	const char *start = number_before(text, word);
	char *end;

	if (!start || read_seconds(start, &end, ret_ns) < 0)
		return -EINVAL;
	return strncmp(end, word, strlen(word)) == 0 ? 0 : -EINVAL;
}

/* [HOURS:]MINUTES:SECONDS[.FRACTION]elapsed */
static int read_elapsed(const char *text, uint64_t *ret_ns)
{
	const char *at = number_before(text, "elapsed");
	uint64_t sixty = 0, part = 0;
	char *end = (char *)at;

	for (unsigned i = 0; at && i < 3; i++) {
		if (read_seconds(at, &end, &part) < 0 || sixty > INT64_MAX / 120)
			return -EINVAL;
		sixty = sixty * 60 + part;
		if (*end != ':')
			break;
		at = end + 1;
	}
	if (!at || strncmp(end, "elapsed", strlen("elapsed")) != 0 || sixty > INT64_MAX)
		return -EINVAL;
	*ret_ns = sixty;
	return 0;
}

static int read_count(const char *text, const char *word, uint64_t *ret_count)
{
	const char *start = number_before(text, word);
	char *end;

	errno = 0;
	*ret_count = start ? strtoull(start, &end, 10) : 0;
	return start && !errno && strncmp(end, word, strlen(word)) == 0 ? 0 : -EINVAL;
}

/* The line before, where the command did not end with 0. */
static int read_status(const char *text)
{
	const char *exited = strstr(text, "Command exited with non-zero status ");
	const char *killed = strstr(text, "Command terminated by signal ");
	int number;

	if (exited && sscanf(exited, "Command exited with non-zero status %3d", &number) == 1)
		return (number & 0xff) << 8;
	if (killed && sscanf(killed, "Command terminated by signal %3d", &number) == 1)
		return number & 0x7f;
	return 0;
}

int heimdallr_usage_parse(const char *text, struct heimdallr_usage *ret_usage)
{
	struct heimdallr_usage usage = { .is_known = true, .status = read_status(text) };
	uint64_t kib;

	if (read_time(text, "user", &usage.user_ns) < 0 ||
	    read_time(text, "system", &usage.system_ns) < 0 ||
	    read_elapsed(text, &usage.wall_ns) < 0 || read_count(text, "maxresident", &kib) < 0 ||
	    kib > INT64_MAX / 1024)
		return -EINVAL;
	usage.max_rss_bytes = kib * 1024;
	read_count(text, "major", &usage.major_faults);
	read_count(text, "minor", &usage.minor_faults);
	*ret_usage = usage;
	return 0;
}
