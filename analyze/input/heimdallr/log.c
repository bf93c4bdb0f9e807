#include "analyze/input/heimdallr/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"

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
	return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 16;
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

/* Read a line of n_bytes without its newline. Returns 0, or -EINVAL for anything else. */
static int heimdallr_line_parse(const char *text, size_t n_bytes, struct heimdallr_line *ret_line)
{
	struct cursor cursor = { text, text + n_bytes };
	struct heimdallr_line line = { .is_allocation = n_bytes > 0 && *text == '+' };
	struct heimdallr_frame frame;

	if (!take(&cursor, line.is_allocation ? '+' : '-') || !take_time(&cursor, &line.time_ns) ||
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

#define READ_BYTES     (64u << 10)
#define MAX_LINE_BYTES (256u << 10) /* a longer one is none */

void heimdallr_log_finish(struct heimdallr_log *log)
{
	free_all(log->path, log->text, log->next_frames, log->given_frames);
	*log = (struct heimdallr_log){ 0 };
}

/* Read at an offset. Returns the number of bytes, or a negative errno. */
static ssize_t read_at(const char *path, uint64_t offset, char *bytes, size_t n_bytes)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : io_read_at(fd, bytes, n_bytes, offset);
}

void heimdallr_log_seek(struct heimdallr_log *log, uint64_t offset)
{
	log->offset = log->text_offset = offset;
	log->n_text = 0;
	log->n_lines = log->n_bad = log->first_bad = 0;
	log->n_backwards = log->first_backwards = 0;
	log->has_next = log->is_started = false;
}

/*
 * Keep what was not looked at, and read on behind it. Returns 1, 0 at the end, or a negative errno.
 */
static int fill(struct heimdallr_log *log)
{
	size_t n_used = (size_t)(log->offset - log->text_offset);

	if (log->n_text > n_used)
		memmove(log->text, log->text + n_used, log->n_text - n_used);
	log->n_text -= n_used;
	log->text_offset = log->offset;
	if (grow_array_by(&log->text, log->n_text, READ_BYTES, &log->text_capacity, 1) < 0)
		return -ENOMEM;
	uint64_t at = log->text_offset + log->n_text;
	uint64_t n_left = log->end > at ? log->end - at : 0;
	ssize_t n = read_at(log->path, at, log->text + log->n_text,
			    n_left < READ_BYTES ? (size_t)n_left : READ_BYTES);
	if (n < 0)
		return (int)n;
	log->n_text += (size_t)n;
	return n > 0;
}

/* The end of the line at hand, read as far as it takes; NULL: it has none, or is too long. */
static int find_newline(struct heimdallr_log *log, const char **ret_end)
{
	size_t n_seen = 0;

	for (;;) {
		size_t at = (size_t)(log->offset - log->text_offset);
		const char *start = log->n_text ? log->text + at : NULL;
		size_t n = log->n_text - at;
		*ret_end = n > n_seen ? memchr(start + n_seen, '\n', n - n_seen) : NULL;
		if (*ret_end || n > MAX_LINE_BYTES)
			return 1;
		n_seen = n;
		int r = fill(log);
		if (r <= 0)
			return r < 0 || n == 0 ? r : 1;
	}
}

static void count_bad(struct heimdallr_log *log)
{
	if (log->n_bad++ == 0)
		log->first_bad = log->n_lines;
}

/* Step over a line of too many bytes, or one that was cut off. */
static int skip_line(struct heimdallr_log *log)
{
	const char *newline = NULL;

	while (!newline) {
		log->offset = log->text_offset + log->n_text;
		int r = fill(log);
		if (r <= 0)
			return r;
		newline = memchr(log->text, '\n', log->n_text);
	}
	log->offset = log->text_offset + (uint64_t)(newline + 1 - log->text);
	return 0;
}

/* The next line that is one. Returns 1, 0 at the end, or a negative errno. */
static int read_line(struct heimdallr_log *log, struct heimdallr_line *ret_line)
{
	const char *end;
	int r;

	while ((r = find_newline(log, &end)) > 0) {
		const char *start = log->text + (log->offset - log->text_offset);
		log->n_lines++;
		if (!end) {
			count_bad(log);
			r = skip_line(log);
			if (r < 0)
				return r;
			continue;
		}
		log->offset += (uint64_t)(end + 1 - start);
		if (heimdallr_line_parse(start, (size_t)(end - start), ret_line) == 0)
			return 1;
		count_bad(log);
	}
	return r;
}

/* Read ahead; the text of the frames is copied, as the buffer moves on. */
static int read_next(struct heimdallr_log *log)
{
	int r = read_line(log, &log->next);

	log->has_next = r > 0;
	if (r <= 0)
		return r;
	if (grow_array_by(&log->next_frames, 0, log->next.n_frame_bytes, &log->next_capacity, 1) <
	    0)
		return -ENOMEM;
	if (log->next.n_frame_bytes)
		memcpy(log->next_frames, log->next.frames, log->next.n_frame_bytes);
	log->next.frames = log->next.n_frame_bytes ? log->next_frames : "";
	log->next_end = log->offset;
	return 1;
}

static void count_backwards(struct heimdallr_log *log, uint64_t line)
{
	if (log->n_backwards++ == 0)
		log->first_backwards = line;
}

/*
 * Where a line's time is below the one's before it, one of the two is wrong: the earlier one if the
 * later one goes on from what was before both.
 */
static void order_times(struct heimdallr_log *log, struct heimdallr_line *line)
{
	if (!log->has_next || log->next.time_ns >= line->time_ns)
		return;
	if (log->is_started && log->next.time_ns < log->last_ns) {
		log->next.time_ns = line->time_ns;
		count_backwards(log, log->n_lines);
	} else {
		line->time_ns = log->is_started ? log->last_ns : log->next.time_ns;
		count_backwards(log, log->n_lines - 1);
	}
}

int heimdallr_log_next(struct heimdallr_log *log, struct heimdallr_line *ret_line)
{
	int r = log->is_started || log->has_next ? 1 : read_next(log);

	if (r < 0 || !log->has_next)
		return r < 0 ? r : 0;
	struct heimdallr_line line = log->next;
	char *frames = log->next_frames;
	size_t capacity = log->next_capacity;
	log->next_frames = log->given_frames;
	log->next_capacity = log->given_capacity;
	log->given_frames = frames;
	log->given_capacity = capacity;
	log->given_end = log->next_end;

	r = read_next(log);
	if (r < 0)
		return r;
	order_times(log, &line);
	log->last_ns = line.time_ns;
	log->is_started = true;
	*ret_line = line;
	return 1;
}

int heimdallr_log_last_allocation(const struct heimdallr_log *log, uint64_t *ret_offset)
{
	auto_free char *block = malloc(READ_BYTES);
	uint64_t end = log->n_file_bytes;

	if (!block)
		return -ENOMEM;
	*ret_offset = UINT64_MAX;
	while (end > 0) {
		/* One byte more in front: whether a "+" begins a line. */
		uint64_t start = end > READ_BYTES - 1 ? end - (READ_BYTES - 1) : 0;
		ssize_t n = read_at(log->path, start, block, (size_t)(end - start));
		if (n < 0)
			return (int)n;
		for (char *at = n ? memrchr(block, '+', (size_t)n) : NULL; at;
		     at = memrchr(block, '+', (size_t)(at - block))) {
			if (at > block ? at[-1] != '\n' : start > 0)
				continue;
			*ret_offset = start + (uint64_t)(at - block);
			return 0;
		}
		end = start > 0 ? start + 1 : 0;
	}
	return 0;
}
