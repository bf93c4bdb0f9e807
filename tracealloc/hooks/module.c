/*
 * dlclose: what it has unloaded is told. Its callers do not matter to it, unlike dlopen's,
 * dlmopen's and dlsym's: those must find the return address of who has called us, so our calls of
 * them are jumps.
 */
#include <dlfcn.h>
#include <string.h>

#include "tracealloc/functions/functions.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/late.h"
#include "tracealloc/rebind.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/symbol.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

TA_EXPORT int dlclose(void *handle)
{
	struct ta_hook hook;

	/* Destructors of the module run in here: their own hooks must be outermost ones. */
	ta_real_resolve();
	ta_rebind_look(true); /* what goes now will not be seen any more */
	int r = ta_real.dlclose(handle);
	ta_late_look();
	if (!ta_hook_enter_kept(&hook, TA_FRAME(), TA_EVENTS_ALWAYS))
		return r;
	if (!hook.bits)
		ta_module_check_gone();
	ta_chunk_announce(hook.thread);
	ta_hook_leave(&hook);
	return r;
}

/*
 * They may be asked for before anything else was looked up, and for that: put a function's address
 * there.
 */
static void find(const char *name, void *ret_function)
{
	void *function = ta_symbol_address(name);

	memcpy(ret_function, &function, sizeof(function));
}

/* Does the caller matter? A library's handle is the same from everywhere. */
static bool is_relative(const void *handle)
{
	return handle == RTLD_DEFAULT || handle == RTLD_NEXT;
}

/*
 * The C library's function is what stands behind ours; so that it is recorded it is ours that is
 * handed out.
 */
TA_EXPORT void *dlsym(void *handle, const char *name)
{
	ta_function_end_tail((uintptr_t *)ta_frame_word(TA_FRAME()));
	if (!ta_real.dlsym)
		find("dlsym", &ta_real.dlsym);
	if (is_relative(handle))
		return ta_real.dlsym(handle, name);
	ta_rebind_look(false);
	void *found = ta_real.dlsym(handle, name);
	void *ours = ta_rebind_function(name, found);
	return ours ? ours : found;
}

TA_EXPORT void *dlvsym(void *handle, const char *name, const char *version)
{
	ta_function_end_tail((uintptr_t *)ta_frame_word(TA_FRAME()));
	if (!ta_real.dlvsym)
		find("dlvsym", &ta_real.dlvsym);
	if (!ta_real.dlvsym)
		return NULL;
	if (is_relative(handle))
		return ta_real.dlvsym(handle, name, version);
	ta_rebind_look(false);
	void *found = ta_real.dlvsym(handle, name, version);
	void *ours = ta_rebind_function(name, found);
	return ours ? ours : found;
}

/* What is in another namespace has a C library of its own. */
TA_EXPORT void *dlmopen(Lmid_t namespace, const char *path, int mode)
{
	ta_function_end_tail((uintptr_t *)ta_frame_word(TA_FRAME()));
	if (!ta_real.dlmopen)
		find("dlmopen", &ta_real.dlmopen);
	if (!ta_real.dlmopen)
		return NULL;
	if (namespace != LM_ID_BASE)
		ta_rebind_count_unseen();
	return ta_real.dlmopen(namespace, path, mode);
}

TA_EXPORT void __gmon_start__(void)
{
	if (atomic_load_explicit(&ta_state.word, memory_order_relaxed) != TA_OFF &&
	    ta_image.control) {
		ta_rebind_library(__builtin_return_address(0));
		ta_functions_loaded((uintptr_t)__builtin_return_address(0));
	}
}
