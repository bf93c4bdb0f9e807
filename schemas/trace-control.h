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
	/* TRACE_CALL_COMPONENT_WINDOW, of which the lowest two bits are written: */
	TRACE_ASKED_WINDOW_BEGIN, /* by the first thread of a process that has an event in it */
	TRACE_ASKED_WINDOW_END,
	/* TRACE_CALL_COMPONENT_SAMPLE, of which none is: behind a sample of the thread's */
	TRACE_ASKED_SAMPLE,
};

/*
 * NOTE events of the call TRACE_CALL_OWN_TIME: address says what memsight did, detail how many
 * ticks it took of the thread, up to this event. TRACE_OWN_BLOCK and those behind it are of empty
 * hooks: what lies between one and the next, but for the ticks in detail, is what one takes.
 *
 * REGION_PUSH, REGION_POP, FUNCTION_ENTER and FUNCTION_LEAVE have more of it: ticks - begin_ticks,
 * of TRACE_OWN_WALK, since the thread's event before of these.
 */
enum trace_own {
	TRACE_OWN_WALK, /* walks of call stacks other than the last one; first calls of functions */
	TRACE_OWN_ROOM, /* taking a chunk, and waiting for it */
	TRACE_OWN_SAMPLE, /* handlers of --source signal */
	TRACE_OWN_PLUGIN, /* asking plug-ins, with what they take themselves */
	TRACE_OWN_BLOCK, /* a hook as that of malloc, without its call; its stack is the last one */
	TRACE_OWN_END, /* as that of free */
	TRACE_OWN_REGION, /* as those of memsight_region_push() and _pop() */
	TRACE_OWN_COUNT
};
