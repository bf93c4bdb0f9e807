#pragma once
/* What is in the live blocks of a process that was attached to, as a record of a trace. */
#include <stdint.h>

#include "schemas/trace-format.h"

/*
 * What the first words of a live block are, by which blocks from before the attach are compared
 * with others. Nothing of the program's data is kept: a word is one of these, or an address of a
 * mapped file, or one of a block with TRACE_WORD_BLOCK, which stands for all addresses within it.
 */
enum trace_word {
	TRACE_WORD_NONE, /* the block ends before it, or it could not be read */
	TRACE_WORD_ZERO,
	TRACE_WORD_SMALL, /* below 65,536 */
	TRACE_WORD_TEXT, /* printable, up to a zero or all of it */
	TRACE_WORD_SELF, /* an address within the block itself */
	TRACE_WORD_OTHER,
	TRACE_WORD_COUNT,
};
#define TRACE_WORD_BLOCK (UINT64_C(1) << 63)

#define TRACE_CONTENT_WORDS 8u
struct trace_content {
	uint64_t address;
	uint64_t usable_bytes;
	uint64_t words[TRACE_CONTENT_WORDS];
};

/*
 * Of a process that was attached to, when it was left: of the blocks that were live then, as
 * malloc has them, one of each n. In parts of TRACE_PAGES_PART_BYTES at most.
 */
struct trace_contents {
	struct trace_record head;
	uint64_t ticks;
	uint32_t process_id;
	uint32_t n; /* 1: all of them are there */
	uint32_t reserved, blocks_bytes; /* struct trace_content[] */
};
