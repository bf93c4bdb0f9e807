#pragma once
/* What programs are told of the functions that were found: see schemas/functions-plan.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/functions/code-scan.h"
#include "schemas/functions-plan.h"

struct found_functions;

struct functions_plan {
	int fd; /* the sealed file; 0: none; -1: nothing in it */
	size_t n_bytes;
	const char **names; /* of its functions: as the found ones have them, or of allocators */
	size_t n;
	struct plan_uprobe *uprobes; /* file by file */
	size_t n_uprobes;
	const char **probed; /* names of the functions that have them */
	size_t n_probed;
};

/*
 * Plan what can be instrumented of the functions; one whose code turns out not to be movable is
 * marked so (CODE_WHY_FIXED). The found ones must outlive the plan. Returns 0 or a negative errno.
 */
int functions_plan(struct found_functions *found, struct functions_plan *ret_plan);
void functions_plan_finish(struct functions_plan *plan); /* accepts a zeroed one */
#define auto_functions_plan __attribute__((cleanup(functions_plan_finish)))

/*
 * What one function would become: of a name and a rule nothing is said. False: its code cannot be
 * led elsewhere; code says why.
 */
bool functions_plan_code(struct code_function *code, struct plan_function *ret_function);
