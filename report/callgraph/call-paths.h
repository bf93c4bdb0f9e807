#pragma once
/*
 * The call paths of a database as functions: each stack with its inlined functions, outermost
 * first. Read once into memory; some 24 bytes a stack and frame. One thread.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"

/* A function is its name and its file; what has no name is "(in FILE)". */
struct path_function {
	char *name;
	char *module; /* base name of the file */
	const char *source; /* one of paths.sources: the first of its lines; NULL: not known */
};

struct path_frame {
	uint32_t first; /* of its functions, innermost first, in paths.called */
	uint32_t n;
};

struct path_stack {
	int64_t parent; /* stack.id; 0: none */
	uint32_t frame; /* index; 0: none */
};

/* A step of a path. */
struct path_step {
	uint32_t function; /* index of paths.functions */
	int32_t line; /* 0: not known */
	int32_t column; /* in the line, from 1; 0: not known */
	uint32_t source; /* index of paths.sources, of this line */
	bool is_library; /* and the options fold those */
	bool is_excluded; /* by the options */
};

/*
 * Which calls of libraries a path has. Where it has not all, names are short as site_name() has
 * them ("map<>::operator[]"), static initialisers are one call, and a path without a call of the
 * program stays as it is.
 */
enum paths_fold {
	PATHS_WHOLE, /* all */
	PATHS_ASKED, /* what the program's innermost call asked for there */
	PATHS_PROGRAM, /* none: values are the program's own lines' */
};

/* Which functions of a path are shown; all zero: all, by their whole names. */
struct paths_options {
	/* names of functions that are charged to their callers; NULL behind the last; may be NULL
	 */
	const char *const *excluded;
	enum paths_fold fold;
};

struct paths {
	struct path_function *functions; /* from 1 */
	size_t n_functions;
	size_t n_functions_allocated;
	struct path_step *called;
	char **sources; /* names of source files; 0: "", not known */
	size_t n_sources;
	size_t n_sources_allocated;
	size_t n_called;
	size_t n_called_allocated;
	struct path_frame *frames; /* by frame.id */
	size_t n_frames;
	struct path_stack *stacks; /* by stack.id */
	size_t n_stacks;
	struct paths_options options;
};

/*
 * The options' texts must outlive the paths. Returns 0, -ENOMEM or -EPROTO (sqlite3_errmsg()
 * tells).
 */
int paths_open(sqlite3 *db, const struct paths_options *options, struct paths **ret_paths);
struct paths *paths_close(struct paths *paths); /* accepts NULL, returns NULL */

static inline void paths_cleanup(struct paths **paths)
{
	*paths = paths_close(*paths);
}
#define auto_paths __attribute__((cleanup(paths_cleanup)))

#define PATHS_MAX_DEPTH 1024u /* functions; what lies further out is left off */

/*
 * The functions of a stack that the options show, outermost first. Returns how many; 0 also for a
 * stack that is not known, or was not recorded.
 */
size_t paths_walk(const struct paths *paths, int64_t stack_id,
		  struct path_step ret_steps[PATHS_MAX_DEPTH]);

/*
 * Whether a function's name is meant: the same, or the same up to its "(" (all overloads), where
 * template arguments belong to the name.
 */
int paths_is_named(const char *function, const char *name);
