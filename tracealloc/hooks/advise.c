/* The hooks of what changes memory that is mapped: advice, protection, locks. */
#include <sys/mman.h>

#include "tracealloc/hooks/hook-call.h"
#include "tracealloc/hooks/real.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* One of these functions: all return 0, or -1 and are no event. */
#define CHANGE(function, params, args, trace_op, trace_call, start, bytes, word)                   \
	TA_EXPORT int function params                                                              \
	{                                                                                          \
		const struct ta_call_fields fields = {                                             \
			.op = trace_op,                                                            \
			.call = trace_call,                                                        \
			.address = (uintptr_t)(start),                                             \
			.size = ta_round_to_pages(bytes),                                          \
			.detail = (uint32_t)(word),                                                \
		};                                                                                 \
		struct ta_call call;                                                               \
		int r;                                                                             \
                                                                                                   \
		ta_call_begin(&call, TA_FRAME(), RING_EVENTS_MMAP);                                \
		r = ta_real.function args;                                                         \
		ta_call_end(&call, r == 0 ? &fields : NULL);                                       \
		return r;                                                                          \
	}

CHANGE(madvise, (void *address, size_t size, int advice), (address, size, advice), TRACE_OP_ADVISE,
       TRACE_CALL_MADVISE, address, size, advice)
CHANGE(mprotect, (void *address, size_t size, int prot), (address, size, prot), TRACE_OP_PROTECT,
       TRACE_CALL_MPROTECT, address, size, prot)
CHANGE(pkey_mprotect, (void *address, size_t size, int prot, int pkey), (address, size, prot, pkey),
       TRACE_OP_PROTECT, TRACE_CALL_MPROTECT, address, size, prot)
CHANGE(mlock, (const void *address, size_t size), (address, size), TRACE_OP_LOCK, TRACE_CALL_MLOCK,
       address, size, 0)
CHANGE(mlock2, (const void *address, size_t size, unsigned flags), (address, size, flags),
       TRACE_OP_LOCK, TRACE_CALL_MLOCK, address, size, flags)
CHANGE(munlock, (const void *address, size_t size), (address, size), TRACE_OP_LOCK,
       TRACE_CALL_MUNLOCK, address, size, 0)
CHANGE(munlockall, (void), (), TRACE_OP_LOCK, TRACE_CALL_MUNLOCKALL, 0, 0, 0)
