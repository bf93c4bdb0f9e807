#pragma once
/* The columns of PERF frames of the trace file (schemas/trace-format.h). Little endian. */
#include <stdint.h>

/*
 * Head of a PERF frame with TRACE_FRAME_FLAG_COLUMNS, before the columns CODES, SMALL and WORDS,
 * which ends with the body. CODES has a varint for each record: how many records back in the frame
 * lies the one that it is told by. 0: none, SMALL has a varint, how many bytes the record has, and
 * WORDS has them. Else it has as many words of 8 bytes as the other, and 2 bits follow for each in
 * CODES, lowest first, up to a whole byte: 0 the same word, 1 that and what SMALL has (a varint,
 * zigzag), 2 the next 8 bytes of WORDS.
 */
struct trace_perf_head {
	uint32_t n_bytes; /* of the records */
	uint32_t n_records;
	uint32_t codes_bytes;
	uint32_t small_bytes;
};
_Static_assert(sizeof(struct trace_perf_head) == 16, "trace_perf_head is ABI");
