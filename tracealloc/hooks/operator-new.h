#pragma once
/*
 * What the hooks of C++'s operators may do: it depends on who defines the operators that the
 * program would have without us, and who defines malloc.
 */
#include <stdint.h>

enum ta_new_mode {
	/* A program with operators or a malloc of its own: call through, its malloc may be ours. */
	TA_NEW_PASS,
	/*
	 * The C++ runtime's operators, which do nothing but malloc and free: we call these
	 * ourselves. A new that gets no memory goes to the real operator, which knows the handler
	 * and throws.
	 */
	TA_NEW_DIRECT,
	/* An allocator's operators, which may or may not come back to our malloc. */
	TA_NEW_WRAP,
};
extern enum ta_new_mode ta_new_mode __attribute__((visibility("hidden")));

/* Find the real operators and decide; a part of ta_real_resolve(). */
void ta_new_resolve(void);

/*
 * The C++ runtime may have come with dlopen, out of our sight: find the operators that the caller
 * of a hook (a return address) sees. For a call that cannot go on without.
 */
void ta_new_find(uintptr_t caller);
