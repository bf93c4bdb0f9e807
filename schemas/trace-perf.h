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

/*
 * PERF_SAMPLE_RAW of a TRACE_SAMPLE_CALLS: a probe of the kernel was met where a function of the
 * program is entered or left (record --function-method uprobe).
 */
enum trace_probed_what {
	TRACE_PROBED_ENTER,
	TRACE_PROBED_LEAVE,
	TRACE_PROBED_BOTH, /* its first instruction is its last one */
	TRACE_PROBED_COUNT
};

struct trace_probed {
	uint64_t common; /* of all tracepoints */
	uint64_t ip;
	uint64_t name_id; /* as trace_text.id */
	uint64_t slot; /* where the return address lies: the stack pointer */
	uint32_t what; /* enum trace_probed_what | what meeting it takes, in ns, << 2 */
	uint32_t reserved; /* not there */
};
#define TRACE_PROBED_WHAT   3u
#define TRACE_PROBED_NS_MAX (UINT32_MAX >> 2)
#define TRACE_PROBED_BYTES  36u
