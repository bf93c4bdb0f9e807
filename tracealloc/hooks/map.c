/*
 * The hooks of memory maps. Each record is reserved before the call and committed after it. What
 * comes by syscall() goes on by syscall(): behind mmap may stand a library's own, as tcmalloc's,
 * which calls syscall().
 */
#include "tracealloc/hooks/map.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tracealloc/hooks/hook-call.h"
#include "tracealloc/hooks/real.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* glibc 2.32 */
#endif

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

static void commit_map(const struct ta_hook *hook, struct ring_record2 *record, enum trace_op op,
		       const void *address, size_t size)
{
	enum trace_call call = op == TRACE_OP_MMAP ? TRACE_CALL_MMAP : TRACE_CALL_MREMAP;

	if (address == MAP_FAILED) {
		ta_record_cancel(record, sizeof(*record));
		return;
	}
	record->base.address = (uintptr_t)address;
	record->base.size = ta_round_to_pages(size);
	record->base.ticks = ta_ticks_end();
	ta_record_commit(&record->base.head, ta_hook_head(hook, op, call, 2));
}

static ta_always_inline void *real_mmap(bool is_raw, void *address, size_t size, int prot,
					int flags, int fd, off_t offset)
{
	if (is_raw)
		return (void *)ta_real.syscall(SYS_mmap, address, size, (long)prot, (long)flags,
					       (long)fd, offset);
	return ta_real.mmap(address, size, prot, flags, fd, offset);
}

static ta_always_inline void *map(const uintptr_t *frame, bool is_raw, void *address, size_t size,
				  int prot, int flags, int fd, off_t offset)
{
	struct ring_record2 *record;
	struct ta_hook hook;
	void *result;

	if (!ta_hook_enter(&hook, frame, RING_EVENTS_MMAP))
		return real_mmap(is_raw, address, size, prot, flags, fd, offset);
	ta_hook_stack(&hook, frame);
	record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	if (record) {
		record->detail = (uint32_t)prot | (uint64_t)(uint32_t)flags << 32;
		record->begin_ticks = ta_ticks_begin();
	}
	result = real_mmap(is_raw, address, size, prot, flags, fd, offset);
	if (record)
		commit_map(&hook, record, TRACE_OP_MMAP, result, size);
	ta_hook_leave(&hook);
	return result;
}

TA_EXPORT void *mmap(void *address, size_t size, int prot, int flags, int fd, off_t offset)
{
	return map(TA_FRAME(), false, address, size, prot, flags, fd, offset);
}

/* off_t has 64 bits on every 64-bit Linux: one function with two names. */
TA_EXPORT void *mmap64(void *address, size_t size, int prot, int flags, int fd, off64_t offset)
	__attribute__((alias("mmap")));

static ta_always_inline int real_munmap(bool is_raw, void *address, size_t size)
{
	return is_raw ? (int)ta_real.syscall(SYS_munmap, address, size)
		      : ta_real.munmap(address, size);
}

static ta_always_inline int unmap(const uintptr_t *frame, bool is_raw, void *address, size_t size)
{
	struct ring_record *record;
	struct ta_hook hook;
	uint64_t ticks;
	int r;

	if (!ta_hook_enter_end(&hook, frame, RING_EVENTS_MMAP))
		return real_munmap(is_raw, address, size);
	record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	ticks = ta_ticks_begin();
	r = real_munmap(is_raw, address, size);
	if (record && r == 0)
		ta_record_fill(record, ta_hook_head(&hook, TRACE_OP_MUNMAP, TRACE_CALL_MUNMAP, 1),
			       ticks, (uintptr_t)address, ta_round_to_pages(size));
	else if (record)
		ta_record_cancel(record, sizeof(*record));
	ta_hook_leave(&hook);
	return r;
}

TA_EXPORT int munmap(void *address, size_t size)
{
	return unmap(TA_FRAME(), false, address, size);
}

/* While mappings are not recorded a moved one only ends: the first slot, and an empty one. */
static void commit_moved_away(const struct ta_hook *hook, struct ring_record2 *record,
			      const void *address)
{
	struct ring_record *second = (struct ring_record *)record + 1;
	uintptr_t old_address = record->old_address;
	uint64_t old_size = record->old_size;
	uint64_t begin = record->begin_ticks;

	if (address == MAP_FAILED || old_size == 0) {
		ta_record_cancel(record, sizeof(*record));
		return;
	}
	memset(second, 0, sizeof(*second));
	ta_record_cancel(second, sizeof(*second));
	ta_record_fill(&record->base, ta_hook_head(hook, TRACE_OP_MUNMAP, TRACE_CALL_MREMAP, 1),
		       begin, old_address, old_size);
}

static ta_always_inline void *real_mremap(bool is_raw, void *address, size_t old_size, size_t size,
					  int flags, void *target)
{
	if (is_raw)
		return (void *)ta_real.syscall(SYS_mremap, address, old_size, size, (long)flags,
					       target);
	return ta_real.mremap(address, old_size, size, flags, target);
}

static ta_always_inline void *move(const uintptr_t *frame, bool is_raw, void *address,
				   size_t old_size, size_t size, int flags, void *target)
{
	struct ring_record2 *record;
	struct ta_hook hook;
	bool is_paused;
	void *result;

	if (!ta_hook_enter_end(&hook, frame, RING_EVENTS_MMAP))
		return real_mremap(is_raw, address, old_size, size, flags, target);
	is_paused = ta_pause_is_on(RING_EVENTS_MMAP);
	if (!is_paused)
		ta_hook_stack(&hook, frame);
	record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	if (record) {
		record->old_address = (uintptr_t)address;
		record->old_size = ta_round_to_pages(old_size);
		record->begin_ticks = ta_ticks_begin();
	}
	result = real_mremap(is_raw, address, old_size, size, flags, target);
	if (record && is_paused)
		commit_moved_away(&hook, record, result);
	else if (record)
		commit_map(&hook, record, TRACE_OP_MREMAP, result, size);
	ta_hook_leave(&hook);
	return result;
}

TA_EXPORT void *mremap(void *address, size_t old_size, size_t size, int flags, ...)
{
	const uintptr_t *frame = TA_FRAME();
	void *target;
	va_list list;

	va_start(list, flags);
	/* Without MREMAP_FIXED it is where the program would like it, mremap(2). */
	target = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(list, void *) : NULL;
	va_end(list);
	return move(frame, false, address, old_size, size, flags, target);
}

long ta_map_call(long number, long a, long b, long c, long d, long e, long f)
{
	const uintptr_t *frame = TA_FRAME();
	void *address = (void *)a;
	size_t size = (size_t)b;

	if (number == SYS_mmap)
		return (long)map(frame, true, address, size, (int)c, (int)d, (int)e, f);
	if (number == SYS_munmap)
		return unmap(frame, true, address, size);
	return (long)move(frame, true, address, size, (size_t)c, (int)d, (void *)e);
}
