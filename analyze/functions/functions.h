#pragma once
/*
 * The functions of some files that a choice takes, and static probes of allocators there; how each
 * could be instrumented.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/functions/choice.h"
#include "analyze/functions/code-exits.h"
#include "analyze/functions/code-scan.h"
#include "analyze/functions/probes.h"
#include "schemas/functions-plan.h"

struct found_function {
	char *name; /* demangled; of a probe: provider:name */
	char *module; /* the source file that debug data names, else the file's name */
	const char *file;
	struct code_function code;
	struct probe *probe; /* NULL: a function; code has where its nop, or a branch to it, is */
	char *allocator; /* whose function it is; NULL: it is to be a region */
	struct plan_rule rule; /* of that */
	uint64_t variable; /* ELF address of what the rule names; 0: none */
	/* of CODE_WAY_UPROBE: where in the file it is entered, and left */
	uint64_t entry;
	struct code_exits exits;
};

struct found_functions {
	struct found_function *items; /* file by file, by address */
	size_t n;
	size_t n_allocated;
	size_t n_files; /* that some are of */
	size_t n_all; /* functions that were asked for */
	size_t n_probes; /* among the items */
};

struct functions_wish {
	struct function_choice *choice; /* NULL: no functions */
	uint64_t min_instructions; /* of these */
	bool probes; /* of allocators */
	bool by_uprobes; /* functions that are no allocator's */
};

/*
 * Look into the file for what is wished for, and add it. Returns 0 or a negative errno: -ENOEXEC,
 * no ELF file for x86-64. path must stay.
 */
int functions_find(const struct functions_wish *wish, const char *path,
		   struct found_functions *found);
void functions_finish(struct found_functions *found);
#define auto_found_functions __attribute__((cleanup(functions_finish)))

/* "jump", "nops" ...; NULL: not at all. And why not, in words. */
const char *function_way_text(enum code_way way);
const char *function_why_text(enum code_why why);
