#include "analyze/input/heimdallr/log-line.h"

#include <errno.h>

#define NANOSECOND_DIGITS 9
#define SECOND_DIGITS	  10
#define MAX_SECONDS	  UINT64_C(9223372035) /* in ns it is below 2^63 */
#define LIBRARY_DIGITS	  9
#define HEX_DIGITS	  16

struct cursor {
	const char *at;
	const char *end;
};

static bool take(struct cursor *cursor, char c)
{
	if (cursor->at == cursor->end || *cursor->at != c)
		return false;
	cursor->at++;
	return true;
}

/*
 * A number of 1 to max_digits decimal digits. Returns how many there were; 0: too few or too many.
 */
static unsigned take_decimal(struct cursor *cursor, unsigned max_digits, uint64_t *ret_number)
{
	uint64_t number = 0;
	unsigned n = 0;

	for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; n++) {
		if (n == max_digits)
			return 0;
		number = 10 * number + (uint64_t)(*cursor->at++ - '0');
	}
	*ret_number = number;
	return n;
}

/* The value of a hexadecimal digit, or 16. */
static unsigned digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return 16;
}

static bool take_hex(struct cursor *cursor, uint64_t *ret_number)
{
	uint64_t number = 0;
	unsigned digit, n = 0;

	for (; cursor->at < cursor->end && (digit = digit_of(*cursor->at)) < 16; n++) {
		if (n == HEX_DIGITS)
			return false;
		number = number << 4 | digit;
		cursor->at++;
	}
	*ret_number = number;
	return n > 0;
}

static bool take_time(struct cursor *cursor, uint64_t *ret_ns)
{
	uint64_t seconds, nanoseconds;

	if (!take_decimal(cursor, SECOND_DIGITS, &seconds) || seconds > MAX_SECONDS ||
	    !take(cursor, '.') ||
	    take_decimal(cursor, NANOSECOND_DIGITS, &nanoseconds) != NANOSECOND_DIGITS)
		return false;
	*ret_ns = seconds * 1000000000 + nanoseconds;
	return true;
}

static bool take_frame(struct cursor *cursor, struct heimdallr_frame *ret_frame)
{
	uint64_t library, offset;

	if (!take(cursor, ',') || !take_decimal(cursor, LIBRARY_DIGITS, &library) ||
	    !take(cursor, '+') || !take_hex(cursor, &offset))
		return false;
	*ret_frame = (struct heimdallr_frame){ (uint32_t)library, offset };
	return true;
}

int heimdallr_line_parse(const char *text, size_t n_bytes, struct heimdallr_line *ret_line)
{
	struct cursor cursor = { text, text + n_bytes };
	struct heimdallr_line line = { .is_birth = n_bytes > 0 && *text == '+' };
	struct heimdallr_frame frame;

	if (!take(&cursor, line.is_birth ? '+' : '-') || !take_time(&cursor, &line.time_ns) ||
	    !take(&cursor, ',') || !take_hex(&cursor, &line.address) || !take(&cursor, ',') ||
	    !take_hex(&cursor, &line.size))
		return -EINVAL;
	/* No block lies at 0, or goes around the end of memory. */
	if (line.address == 0 || line.size > INT64_MAX || line.address + line.size < line.address)
		return -EINVAL;
	line.frames = cursor.at;
	line.n_frame_bytes = (size_t)(cursor.end - cursor.at);
	while (cursor.at < cursor.end) {
		if (!take_frame(&cursor, &frame))
			return -EINVAL;
	}
	*ret_line = line;
	return 0;
}

bool heimdallr_line_frame(const char **text, size_t *n_bytes, struct heimdallr_frame *ret_frame)
{
	struct cursor cursor = { *text, *text + *n_bytes };

	if (!take_frame(&cursor, ret_frame))
		return false;
	*n_bytes = (size_t)(cursor.end - cursor.at);
	*text = cursor.at;
	return true;
}
