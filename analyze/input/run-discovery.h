#pragma once
/*
 * Which runs a person means by the operands of `memsight analyze`: a trace, a folder of results, or
 * a pattern. In a folder of results a run is PROGRAM.MODE.N.mst, or a folder PROGRAM.MODE.N with a
 * trace or with what Heimdallr wrote in it; names are split from the right. What is called
 * differently is a run of its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a run is called, where that is not the trace's to say. */
struct import_name {
	const char *program; /* NULL: as the trace says */
	const char *mode;
	uint32_t repetition;
};

struct result {
	char *path; /* of the trace, or of Heimdallr's folder */
	/* what its name was read from: owned, with NULs between its parts; NULL: none */
	char *name;
	struct import_name run; /* points into name */
	/* "result" of the run.ini that `memsight run` wrote beside it; NULL: none; owned */
	char *verdict;
	bool is_heimdallr;
	bool is_one_of_many; /* a repetition, found in a folder or by a pattern */
	uint64_t order; /* as found */
};

struct results {
	struct result *items;
	size_t n;
	size_t n_allocated;
	size_t n_without; /* folders of runs that hold no trace */
};

/*
 * Add what an operand names. Returns 0, -ENOENT: there is no such file, -ENODATA: a folder or a
 * pattern without any run, or another negative errno.
 */
int results_add(struct results *results, const char *operand);

/*
 * Add one file, which need not be there yet. Without a name of its own it is called as the folder
 * around it. Returns 0 or -ENOMEM.
 */
int results_add_file(struct results *results, const char *path);

/*
 * What the name of a trace or folder says of its run beside others that are called the same:
 * "before" of before.mst, without a number at its end. Allocated; NULL: nothing (a name that
 * `record` chose), or no memory.
 */
char *results_label(const char *path);

/*
 * Read the name of the run from that of its trace or folder: sets name and run, unless it is called
 * differently. Returns 0 or -ENOMEM.
 */
int results_name(const char *path, struct result *result);

/* Repetitions of one thing behind each other, lowest first; the others stay as they were named. */
void results_sort(struct results *results);

/* Whether two are repetitions of one thing. */
bool results_are_repetitions(const struct result *left, const struct result *right);

/*
 * Where the database lies by default: memsight.db in the folder that holds all of them (allocated).
 * NULL: they are not in one folder, or there is no memory.
 */
char *results_database(const struct results *results);

void results_finish(struct results *results);
#define auto_results __attribute__((cleanup(results_finish)))
