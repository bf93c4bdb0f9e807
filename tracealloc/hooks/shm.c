/* The hooks of System V shared memory. */
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "tracealloc/hooks/hook-call.h"
#include "tracealloc/hooks/real.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* The call does not say how much it maps. 0: it cannot be found out. */
static uint64_t segment_bytes(int shmid)
{
	struct shmid_ds segment = { 0 };

	if (ta_syscall(SYS_shmctl, shmid, IPC_STAT, (long)&segment, 0, 0, 0) < 0)
		return 0;
	return ta_round_to_pages(segment.shm_segsz);
}

TA_EXPORT void *shmat(int shmid, const void *address, int flags)
{
	uint32_t prot = PROT_READ | (flags & SHM_RDONLY ? 0 : PROT_WRITE) |
			(flags & SHM_EXEC ? PROT_EXEC : 0);
	struct ta_call_fields fields = {
		.op = TRACE_OP_MMAP,
		.call = TRACE_CALL_SHMAT,
		.old_size = (uint32_t)shmid,
		.detail = prot | (uint64_t)MAP_SHARED << 32,
	};
	struct ta_call call;

	ta_call_begin(&call, TA_FRAME(), RING_EVENTS_SHM);
	void *result = ta_real.shmat(shmid, address, flags);
	if (result != (void *)-1 && call.record) {
		fields.address = (uintptr_t)result;
		fields.size = segment_bytes(shmid);
	}
	ta_call_end(&call, result != (void *)-1 ? &fields : NULL);
	return result;
}

/* Recorded before the call, as munmap is: afterwards another thread may map something there. */
TA_EXPORT int shmdt(const void *address)
{
	struct ring_record *record;
	struct ta_hook hook;

	if (!ta_hook_enter_end(&hook, TA_FRAME(), RING_EVENTS_SHM))
		return ta_real.shmdt(address);
	record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	uint64_t ticks = ta_ticks_begin();
	int r = ta_real.shmdt(address);
	if (record && r == 0)
		ta_record_fill(record, ta_hook_head(&hook, TRACE_OP_MUNMAP, TRACE_CALL_SHMDT, 1),
			       ticks, (uintptr_t)address, 0);
	else if (record)
		ta_record_cancel(record, sizeof(*record));
	ta_hook_leave(&hook);
	return r;
}
