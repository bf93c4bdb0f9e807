/* The hooks of the program break. libc moves it for its own heap too, past them. */
#include <unistd.h>

#include "tracealloc/hooks/hook-call.h"
#include "tracealloc/hooks/real.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

static struct ta_call_fields fields_of(enum trace_call call, uintptr_t from, uintptr_t to)
{
	return (struct ta_call_fields){
		.op = TRACE_OP_BREAK,
		.call = call,
		.address = to,
		.old_address = from,
	};
}

TA_EXPORT int brk(void *address)
{
	struct ta_call call;

	ta_call_begin(&call, TA_FRAME(), RING_EVENTS_BRK);
	uintptr_t from = call.record ? (uintptr_t)ta_syscall(SYS_brk, 0, 0, 0, 0, 0, 0) : 0;
	int r = ta_real.brk(address);
	struct ta_call_fields fields = fields_of(TRACE_CALL_BRK, from, (uintptr_t)address);
	ta_call_end(&call, r == 0 && from != (uintptr_t)address ? &fields : NULL);
	return r;
}

TA_EXPORT void *sbrk(intptr_t increment)
{
	struct ta_call_fields fields;
	struct ta_call call;

	if (increment == 0) /* only asks */
		return ta_real.sbrk(increment);
	ta_call_begin(&call, TA_FRAME(), RING_EVENTS_BRK);
	void *from = ta_real.sbrk(increment);
	fields =
		fields_of(TRACE_CALL_SBRK, (uintptr_t)from, (uintptr_t)from + (uintptr_t)increment);
	ta_call_end(&call, from != (void *)-1 ? &fields : NULL);
	return from;
}
