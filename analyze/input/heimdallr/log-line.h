#pragma once
/*
 * One line of Heimdallr's allocation log:
 *
 *	[+-]SECONDS.NANOSECONDS,ADDRESS,SIZE[,LIBRARY+OFFSET]...
 *
 * seconds decimal, nanoseconds nine digits, of CLOCK_MONOTONIC_RAW; address, size and offsets
 * hexadecimal without 0x; frames innermost first, the library's number in maps.log (0: none is
 * known, the offset is an address). Hostile input.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heimdallr_line {
	bool is_birth;
	uint64_t time_ns;
	uint64_t address;
	uint64_t size;
	const char *frames; /* the text of all frames with their commas; "" without any */
	size_t n_frame_bytes;
};

/* Read a line of n_bytes without its newline. Returns 0, or -EINVAL for anything else. */
int heimdallr_line_parse(const char *text, size_t n_bytes, struct heimdallr_line *ret_line);

struct heimdallr_frame {
	uint32_t library;
	uint64_t offset;
};

/* The next frame of a line's text; moves it on. False behind the last. */
bool heimdallr_line_frame(const char **text, size_t *n_bytes, struct heimdallr_frame *ret_frame);
