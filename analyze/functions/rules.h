#pragma once
/*
 * Functions of allocators (record --alloc-function): which of the words that they are called with
 * are a size, a block, a pool. "MODULE!REGEX:KEY=PLACE,..."; docs/allocators.md has the keys.
 */
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "analyze/functions/choice.h"
#include "schemas/functions-plan.h"

struct function_rule {
	const char *text; /* as it was given */
	char *module; /* NULL: any */
	char *pattern; /* the expression alone ... */
	regex_t regex; /* ... which is one of whole names */
	char *allocator; /* as reports name it */
	struct plan_rule plan;
	char *variable; /* that has the pool; NULL: an argument has it */
	const char *set; /* of --allocators, whose line it is; NULL: none */
	uint8_t end; /* the argument of plan.end_at */
	bool is_left; /* the result of plan.unref says whether the block has ended */
	bool has_matched;
	struct nearest_name nearest; /* set by who asks for it */
};

/*
 * Read one; text must stay. Returns 0, -ENOMEM, or -EINVAL with what is wrong, and where, in
 * ret_message. allocator: its name where none is given; NULL: the expression.
 */
int function_rule_parse(const char *text, const char *allocator, struct function_rule *ret_rule,
			char ret_message[static FUNCTION_MESSAGE_BYTES]);
void function_rule_finish(struct function_rule *rule);
