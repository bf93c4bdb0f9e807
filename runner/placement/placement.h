#pragma once
/*
 * Where the memory of a run lies: the heap of the program (--heap), the pool of the recording
 * (--buffers), the CPUs and the memory policy of the program (--membind and its kind). What the
 * names mean on this host a helper program says, memsight-kinds: only that needs libmemkind and
 * libnuma.
 */
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/run-options.h"
#include "schemas/recording.h"

/* ---- memsight-kinds ---- */

/* Runs the helper memsight-kinds, which says what names of memory, nodes and CPUs mean here. */

#define KINDS_HELPER_MAX_WORDS	   8
#define KINDS_HELPER_PROBLEM_BYTES 512 /* at least so long is what kinds_helper_run() may write */

/* Its words under way; all zero is none. */
struct kinds_helper {
	char *words[KINDS_HELPER_MAX_WORDS];
	size_t n;
};

/* Ask for name=value. Returns 0 or -ENOMEM. */
int kinds_helper_add(struct kinds_helper *helper, const char *name, const char *value);

/*
 * Run it and call take(user, key, value) for each line. Returns 0 or a negative errno, with a
 * sentence in problem: what the helper says is missing, or that this memsight has no helper.
 */
int kinds_helper_run(const struct kinds_helper *helper,
		     void (*take)(void *user, const char *key, const char *value), void *user,
		     char problem[KINDS_HELPER_PROBLEM_BYTES]);

void kinds_helper_finish(struct kinds_helper *helper);

#define auto_kinds_helper __attribute__((cleanup(kinds_helper_finish)))

#define PLACEMENT_DEFAULT_FILE_BYTES (UINT64_C(4) << 30)
#define PLACEMENT_MIN_BYTES	     (UINT64_C(32) << 20) /* of a heap */
#define PLACEMENT_NODE_WORDS	     (RECORDING_MAX_NODES / 64)
#define PLACEMENT_LIST_BYTES	     8192 /* "0,2,3" of nodes or CPUs */

/* Nodes and what to do with them. */
struct placement_nodes {
	int mode; /* MPOL_*; 0: nothing was asked for, or no nodes */
	uint64_t mask[PLACEMENT_NODE_WORDS];
	char list[PLACEMENT_LIST_BYTES]; /* the same as text; "-" for none */
};

/* What the child does to itself before exec. */
struct placement_binding {
	bool has_cpus;
	cpu_set_t cpus;
	struct placement_nodes policy;
	char cpu_list[PLACEMENT_LIST_BYTES];
};

struct placement {
	char kind[32]; /* of the heap; "": libc's */
	char dir[PATH_MAX]; /* of pmem, absolute */
	bool is_dax;
	bool is_dax_known;
	uint64_t heap_bytes; /* of one process */
	struct placement_nodes heap;
	char buffers_kind[32]; /* "": ordinary memory */
	char buffers_dir[PATH_MAX];
	uint64_t buffers_bytes; /* that --buffers pmem:DIR,SIZE says; 0: --buffer-size */
	struct placement_nodes buffers;
	struct placement_binding binding;
};

/*
 * Find out what the options mean here. Returns 0, or a negative errno with a sentence in problem
 * (n_bytes long). Starts a helper and waits for it when anything was asked for.
 */
int placement_find(const struct run_options *options, struct placement *ret_placement,
		   char *problem, size_t n_bytes);

/* "KIND SIZE ..." for MEMSIGHT_PLACEMENT; allocated, NULL without memory. Only with a heap. */
char *placement_variable(const struct placement *placement, const struct run_options *options);

/* In the child, before exec: async-signal-safe. Returns 0 or a negative errno. */
int placement_bind(const struct placement_binding *binding);

/*
 * Look whether a process that has just started has the CPUs and the policy. Both texts (n_bytes
 * long) are what was found, "" when it has ended already. Returns false when something differs.
 */
bool placement_check(const struct placement_binding *binding, pid_t pid, char *cpus, char *policy,
		     size_t n_bytes);

/* Facts about all of it: calls give(context, key, value) until it fails; returns what that did. */
int placement_facts(const struct placement *placement, const struct run_options *options,
		    int (*give)(void *context, const char *key, const char *value), void *context);
