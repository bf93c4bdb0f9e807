/* dlclose: what it has unloaded is told. Its callers do not matter to it, unlike dlopen's. */
#include "tracealloc/hook.h"
#include "tracealloc/module.h"
#include "tracealloc/real.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks.def"

TA_EXPORT int dlclose(void *handle)
{
	struct ta_hook hook;
	int r;

	/* Destructors of the module run in here: their own hooks must be outermost ones. */
	ta_real_resolve();
	r = ta_real.dlclose(handle);
	if (!ta_hook_enter(&hook, TA_FRAME(), TA_EVENTS_ALWAYS))
		return r;
	if (!hook.bits)
		ta_module_check_gone(hook.thread);
	ta_hook_leave(&hook);
	return r;
}
