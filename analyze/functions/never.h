#pragma once
/* Functions that code of ours must not be led from, by their names. Pure. */
#include "analyze/functions/code-scan.h"

/* Where a name means what is known of it. */
enum never_in {
	NEVER_ANYWHERE,
	NEVER_IN_LIBC, /* in the C library, a static program, its loader, gcc's unwinder */
	NEVER_IN_SYSTEM, /* not in a static program, whose own functions may be called so */
};

/* Why a function of that name is left as it is, in such a file; CODE_WHY_NOT: it need not be. */
enum code_why function_why_never(const char *name, enum never_in in);

/*
 * Of the C library, gcc's unwinder, and java, which walks stacks itself; nobody means the loader's
 * copies of what the first has.
 */
enum system_file {
	SYSTEM_NONE,
	SYSTEM_LIBRARY,
	SYSTEM_LOADER,
};
enum system_file function_system_file(const char *path);
