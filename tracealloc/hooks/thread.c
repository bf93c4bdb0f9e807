/*
 * The hooks of what names a thread, and of keys, of which we have one. With perf's records of the
 * same the database has each name once. A name written to /proc/.../comm is seen by perf only.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/sandbox.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* tid 0: which thread it is cannot be told. */
static void record_name(const uintptr_t *frame, uint32_t tid, const char *name)
{
	struct ring_thread_name *record;
	struct ta_hook hook;

	if (tid == 0 || !ta_hook_enter_end(&hook, frame, RING_EVENTS_THREADS))
		return;
	record = hook.bits ? NULL : ta_record_reserve_big(hook.thread, sizeof(*record));
	if (record) {
		record->ticks = ta_ticks_end();
		record->tid = tid;
		memcpy(record->name, name, strnlen(name, sizeof(record->name) - 1));
		ta_record_commit(&record->head, RING_HEAD(TRACE_OP_THREAD_NAME, 0, 2, 0));
	} else if (hook.bits) {
		ta_chunk_count_nested();
	} else {
		ta_chunk_count_dropped();
	}
	ta_hook_leave(&hook);
}

TA_EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	if (!ta_real.pthread_setname_np)
		ta_real_resolve();
	if (!ta_real.pthread_setname_np)
		return ENOSYS;
	int r = ta_real.pthread_setname_np(thread, name);
	if (r == 0)
		record_name(TA_FRAME(), ta_thread_find((uintptr_t)thread), name);
	return r;
}

static int confine(int option, const unsigned long arguments[4])
{
	const unsigned long known[3] = { (unsigned long)option, arguments[0], arguments[1] };
	struct ta_sandbox_change change = ta_sandbox_begin(SYS_prctl, known);
	int r = ta_real.prctl(option, arguments[0], arguments[1], arguments[2], arguments[3]);

	ta_sandbox_end(&change, r >= 0);
	return r;
}

TA_EXPORT int prctl(int option, ...)
{
	unsigned long arguments[4];
	va_list list;

	/*
	 * As libc does: what the caller did not give is whatever stands there, and not looked at.
	 */
	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_SECCOMP || option == PR_SET_TSC)
		return confine(option, arguments);
	int r = ta_real.prctl(option, arguments[0], arguments[1], arguments[2], arguments[3]);
	if (option == PR_SET_NAME && r == 0)
		record_name(TA_FRAME(), (uint32_t)ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0),
			    (const char *)arguments[0]);
	return r;
}

/* ---- Keys: a program may have all there are ---- */

TA_EXPORT int pthread_key_create(pthread_key_t *ret_key, void (*destructor)(void *))
{
	if (!ta_real.pthread_key_create)
		ta_real_resolve();
	if (!ta_real.pthread_key_create)
		return EAGAIN;
	int r = ta_real.pthread_key_create(ret_key, destructor);
	if (r == EAGAIN && ta_thread_give_key())
		r = ta_real.pthread_key_create(ret_key, destructor);
	return r;
}

/* As libgcc and libstdc++ call it. */
TA_EXPORT int __pthread_key_create(pthread_key_t *ret_key, void (*destructor)(void *))
{
	return pthread_key_create(ret_key, destructor);
}

TA_EXPORT int tss_create(tss_t *ret_key, tss_dtor_t destructor)
{
	if (!ta_real.tss_create)
		ta_real_resolve();
	if (!ta_real.tss_create)
		return thrd_error;
	int r = ta_real.tss_create(ret_key, destructor);
	if (r == thrd_error && ta_thread_give_key())
		r = ta_real.tss_create(ret_key, destructor);
	return r;
}
