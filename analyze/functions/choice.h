#pragma once
/*
 * Which functions are meant: by expressions, lists of names, and sets that come with memsight.
 *
 * Expressions are POSIX extended ones, and match a part of a name unless ^ and $ are in them. A
 * function has several names: those of its symbols, and what they read demangled. A line of a list
 * is a whole name, of which *, ? and [...] stand for what they do in a shell; MODULE! before it
 * names the file that it is in. MODULE!0x1234 is the function that begins at this ELF address, also
 * as an expression.
 *
 * What matches any --function-include, list or collection is taken, all if there are none of them;
 * of these what lies in a module that matches any --module-include, if there are any. An exclusion
 * wins over both. Functions of the C library, its loader and the unwinder of gcc are meant only by
 * a list, a collection, or a --module-include that matches their file.
 *
 * One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/parse.h"

enum function_expression {
	FUNCTION_INCLUDE,
	FUNCTION_EXCLUDE,
	MODULE_INCLUDE,
	MODULE_EXCLUDE,
};

struct function_choice;
struct nearest_name;

/* Returns 0 or -ENOMEM. */
int function_choice_create(struct function_choice **ret_choice);
struct function_choice *function_choice_destroy(struct function_choice *choice); /* or NULL */

static inline void function_choice_cleanup(struct function_choice **choice)
{
	*choice = function_choice_destroy(*choice);
}
#define auto_function_choice __attribute__((cleanup(function_choice_cleanup)))

#define FUNCTION_MESSAGE_BYTES 256

/*
 * Add an expression, the names in a file, or those of a collection. Texts of expressions must stay.
 * Returns 0; -EINVAL with what is wrong, and where, in ret_message; -ENOMEM; of a file a negative
 * errno.
 */
int function_choice_add(struct function_choice *choice, enum function_expression kind,
			const char *text, char ret_message[static FUNCTION_MESSAGE_BYTES]);
int function_choice_add_file(struct function_choice *choice, const char *path,
			     char ret_message[static FUNCTION_MESSAGE_BYTES]);
int function_choice_add_collection(struct function_choice *choice, const char *name,
				   char ret_message[static FUNCTION_MESSAGE_BYTES]);

/*
 * Add a function of an allocator (rules.h), or those of a set that comes with memsight. They are
 * meant whatever the rest of the choice is, and none but they where nothing else is chosen.
 */
int function_choice_add_rule(struct function_choice *choice, const char *text,
			     char ret_message[static FUNCTION_MESSAGE_BYTES]);
int function_choice_add_allocator(struct function_choice *choice, const char *name,
				  char ret_message[static FUNCTION_MESSAGE_BYTES]);

/* What one function is called. */
struct function_names {
	const char *const *names; /* of its symbols */
	const char *const *pretty; /* the same demangled; NULL where that makes no difference */
	size_t n;
	const char *source; /* of its compilation unit; NULL: no debug data names one */
	const char *file; /* path of the program or library */
	bool is_system; /* of the C library, its loader, or gcc's unwinder */
};

/* Can a function of a file be meant? False of system files that nothing names. */
bool function_choice_takes_file(const struct function_choice *choice, const char *file,
				bool is_system);

/*
 * The addresses that are meant in a file, from *at on: how each was written, which is a name of the
 * function that begins there, or NULL: none is left. *ret_nearest is for another begin, if none is
 * there. Valid until the choice is changed.
 */
const char *function_choice_address(struct function_choice *choice, const char *file, size_t *at,
				    uint64_t *ret_address, struct nearest_name **ret_nearest);

/* Do source files matter to it? */
bool function_choice_needs_sources(const struct function_choice *choice);

/*
 * Is the function meant? *ret_rule is what its arguments are, if it is an allocator's, or NULL; it
 * is the choice's. Notes what has matched, for those below.
 */
struct function_rule;
bool function_choice_takes(struct function_choice *choice, const struct function_names *names,
			   const struct function_rule **ret_rule);

/*
 * The text of a rule that has matched nothing, from *at on; NULL: none is left. *ret_set is the set
 * of which no rule has matched, and is told once; else NULL. The nearest name as below.
 */
const char *function_choice_unmatched_rule(const struct function_choice *choice, size_t *at,
					   const char **ret_set, const char **ret_nearest);

/*
 * An expression or address for functions, or line of a list, that has matched no function of all
 * that were asked for, from *at on; NULL: none is left. *at is moved behind it, *ret_is_expression
 * says which of the two it is, *ret_nearest (may be NULL) is the nearest name that was seen; valid
 * until the choice is destroyed.
 */
const char *function_choice_unmatched(const struct function_choice *choice, size_t *at,
				      bool *ret_is_expression, const char **ret_nearest);

/* What a name is as an address: "0x1234"; 0: it is none. */
uint64_t function_address(const char *name);

/* The name that is nearest to a pattern, of those that are offered. */
struct nearest_name {
	char literal[64]; /* the longest part of the pattern that is not special */
	struct parse_nearest nearest;
	char name[128]; /* "": none is near */
};
void nearest_name_init(struct nearest_name *nearest, const char *pattern);
void nearest_name_offer(struct nearest_name *nearest, const char *name);
