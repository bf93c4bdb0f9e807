#pragma once
/*
 * The trace file's names. It is written as NAME.partial in its own folder and renamed at the end,
 * so a NAME.mst is always whole. After a kill NAME.partial stays behind and is a readable trace.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OUTPUT_DEFAULT_PATTERN "memsight.%e.%p.mst"
#define OUTPUT_SUFFIX	       ".partial"

struct output_names {
	const char *pattern; /* NULL: OUTPUT_DEFAULT_PATTERN */
	const char *dir; /* of a pattern without '/'; made when missing; NULL: the cwd */
	const char *program; /* %e: its last path component is used */
	pid_t pid; /* %p */
	/* suffix of a file that is made beside it: may not be there either; or NULL */
	const char *beside;
	bool force; /* overwrite an existing regular file */
};

struct output {
	int fd; /* the partial file; -1 when closed or handed on */
	char path[PATH_MAX]; /* the name at the end */
	char partial[PATH_MAX]; /* the name now */
	char left_behind[PATH_MAX]; /* a partial trace of a killed recording, or "" */
	bool force;
	int lock_fd; /* says to others that the partial file is being written */
};

#define OUTPUT_CLOSED ((struct output){ .fd = -1, .lock_fd = -1 })

/* Where the launchers of parallel jobs put the rank: MPI's before Slurm's. NULL behind the last. */
extern const char *const output_rank_variables[];

/*
 * Make the partial file. Returns 0 or a negative errno: -EEXIST (the name, or that of the file
 * beside it, is taken and force is off), -EISDIR, -ENOTSUP (the name is no regular file), or that
 * of open(). ret_output->path is filled in on failure too, as far as it is known: with the name
 * that is wrong. The file can be read by its user only: it holds registers and addresses.
 */
int output_open(const struct output_names *names, struct output *ret_output);

/*
 * Give the file its name. Returns 0 or a negative errno (-EEXIST: somebody took the name in the
 * meantime); the partial file then stays.
 */
int output_rename(struct output *output);

/* Remove the partial file: nothing was recorded. */
void output_remove(struct output *output);

/* Close what is open. Safe on OUTPUT_CLOSED and twice. */
void output_finish(struct output *output);

/* Share of the file's disk that is free to us, in bytes. Returns 0 or a negative errno. */
int output_disk(const struct output *output, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes);

/* Its name from the root on. False: it is too long, or where we are cannot be found out. */
bool output_absolute_path(const struct output *output, char ret_path[static PATH_MAX]);
