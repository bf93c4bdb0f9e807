#pragma once
/*
 * One file alloc_ID_TID.log of Heimdallr, line by line. It holds no open file between reads: a
 * program has one for each of its threads. Lines that are none are counted and stepped over; where
 * times run backwards the order of the lines counts.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One line of Heimdallr's allocation log:
 *
 *	[+-]SECONDS.NANOSECONDS,ADDRESS,SIZE[,LIBRARY+OFFSET]...
 *
 * seconds decimal, nanoseconds nine digits, of CLOCK_MONOTONIC_RAW; address, size and offsets
 * hexadecimal without 0x; frames innermost first, the library's number in maps.log (0: none is
 * known, the offset is an address). Hostile input.
 */
struct heimdallr_line {
	bool is_allocation;
	uint64_t time_ns;
	uint64_t address;
	uint64_t size;
	const char *frames; /* the text of all frames with their commas; "" without any */
	size_t n_frame_bytes;
};

struct heimdallr_frame {
	uint32_t library;
	uint64_t offset;
};

/* The next frame of a line's text; moves it on. False behind the last. */
bool heimdallr_line_frame(const char **text, size_t *n_bytes, struct heimdallr_frame *ret_frame);

struct heimdallr_log {
	char *path; /* owned */
	uint32_t id; /* of the handler: threads in order of their first call */
	uint32_t tid;
	uint64_t n_file_bytes;
	uint64_t end; /* read no further than this offset */
	uint64_t offset; /* of what is read next */
	uint64_t given_end; /* behind the line given last */
	/* Found so far; first_*: the number of the first such line. */
	uint64_t n_lines;
	uint64_t n_bad;
	uint64_t first_bad;
	uint64_t n_backwards;
	uint64_t first_backwards;
	/* Private. */
	char *text; /* of the file from text_offset on */
	size_t n_text;
	size_t text_capacity;
	uint64_t text_offset;
	struct heimdallr_line next; /* read ahead, with a copy of its frames */
	char *next_frames;
	size_t next_capacity;
	uint64_t next_end;
	bool has_next;
	bool is_started;
	uint64_t last_ns; /* of the line given last */
	char *given_frames;
	size_t given_capacity;
};

/* A log that is all zero but for path, id, tid, n_file_bytes and end. */
void heimdallr_log_finish(struct heimdallr_log *log);

/*
 * The next line. Its frames are valid until the call after. Returns 1, 0 at the end, or a negative
 * errno.
 */
int heimdallr_log_next(struct heimdallr_log *log, struct heimdallr_line *ret_line);

/* Forget what was read, and begin at an offset: that of a line's begin. */
void heimdallr_log_seek(struct heimdallr_log *log, uint64_t offset);

/*
 * The offset of the last line that starts with a "+"; UINT64_MAX without any. Returns 0 or a
 * negative errno.
 */
int heimdallr_log_last_allocation(const struct heimdallr_log *log, uint64_t *ret_offset);
