#pragma once
/*
 * Records of a recording that was on in parts of the run only, or was told something from outside.
 * They are records of trace-format.h. Since 1.4.
 */
#include <stdint.h>

#include "schemas/trace-format.h"

/*
 * A window: a span of the run in which everything was recorded. One record when it begins
 * (end_ticks 0), and one of the same number when it ends. Without any the whole run is one. Number
 * 0 is none: recording was off from its end_ticks, the start of the run, to the first window.
 * Allocations that were under way at begin_ticks, at most one of each thread, may be missing.
 */
struct trace_window {
	struct trace_record head;
	uint64_t begin_ticks;
	uint64_t end_ticks; /* 0: not yet; the end of the trace where no other record follows */
	uint32_t number;
	uint32_t cause_bytes; /* why it began: "start", "ctl", "--windows 1h:10s", "mark load" */
};

/* `memsight ctl mark': a mark of the whole run, set from outside. */
struct trace_outside_mark {
	struct trace_record head;
	uint64_t ticks;
	uint32_t text_bytes;
	uint32_t reserved;
};

/* A function was called, by all processes, since its record before (record --trips-only). */
struct trace_trips {
	struct trace_record head;
	uint64_t ticks;
	uint64_t name_id; /* as trace_text.id */
	uint64_t n;
};

/*
 * NOTE events of the call TRACE_CALL_COMPONENT: size is the value, detail the text "NAME\tUNIT\t
 * KIND\tPLUG-IN" (KIND: counter, gauge or max), address enum trace_asked | ticks that asking took
 * << 2.
 */
enum trace_asked {
	TRACE_ASKED_REGION_BEGIN, /* behind the REGION_PUSH */
	TRACE_ASKED_REGION_END, /* before the REGION_POP */
	TRACE_ASKED_PROCESS_BEGIN,
	TRACE_ASKED_PROCESS_END,
};
