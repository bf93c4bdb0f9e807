/*
 * backtrace() for programs whose functions come back through us (functions.h): the frames of thunks
 * are left out. Others have it as it is.
 */
#include <execinfo.h>
#include <string.h>

#include "tracealloc/functions/functions.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/stack/symbol.h"
#include "tracealloc/stack/thunk.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

#define MAX_FRAMES 512

/*
 * The first frame is our own. What stands behind a thunk is its return address less one, as that of
 * a frame that was interrupted.
 */
static int without_thunks(void *const *all, int n_all, void **frames, int n)
{
	int n_kept = 0;

	for (int i = 1; i < n_all && n_kept < n; i++) {
		uintptr_t pc = (uintptr_t)all[i];

		if (ta_thunk_return(pc) != pc)
			continue;
		if (ta_thunk_return((uintptr_t)all[i - 1]) != (uintptr_t)all[i - 1])
			pc++;
		frames[n_kept++] = (void *)pc;
	}
	return n_kept;
}

TA_EXPORT int backtrace(void **frames, int n)
{
	void *all[MAX_FRAMES];

	if (!ta_real.backtrace) {
		void *function = ta_symbol_address("backtrace");

		memcpy(&ta_real.backtrace, &function, sizeof(function));
	}
	if (!ta_real.backtrace)
		return 0;
	if (!ta_functions_are_on())
		return ta_real.backtrace(frames, n);
	/* Each frame may have a thunk behind it. */
	return without_thunks(all,
			      ta_real.backtrace(all, n < MAX_FRAMES / 2 ? 2 * n + 1 : MAX_FRAMES),
			      frames, n);
}
