#pragma once
/*
 * The folder of a series' results. A run is a folder PROGRAM.MODE.N in it, which appears by rename
 * when it is whole; so what is there is done, and a series that was killed goes on with what is
 * missing.
 *
 *	OUTPUT/series.lst what the series is: name, seed, one line for each program and mode
 *	OUTPUT/PROGRAM.MODE.N/ trace.mst, stdout, stderr, memsight.log, run.ini
 *	OUTPUT/.PROGRAM.MODE.N.partial/ the run that is going on, or was when the series was killed
 */
#include <limits.h>
#include <stdbool.h>

#include "series/plan.h"

#define SERIES_RUN_FILE "run.ini"
#define SERIES_TRACE	"trace.mst"

/* What became of a run. */
enum series_result {
	SERIES_MISSING,
	SERIES_OK,
	SERIES_FAILED, /* another exit status than expected, a signal, or not to be started */
	SERIES_TIMED_OUT,
	SERIES_CHECK_FAILED, /* the workload's check did not like the output */
};

struct series_folder {
	char path[PATH_MAX]; /* absolute */
	int fd;
	int lock_fd; /* held: two series cannot write into one folder */
};

#define SERIES_FOLDER_CLOSED ((struct series_folder){ .fd = -1, .lock_fd = -1 })

/*
 * Open the folder of a series, making it where it is missing; is_shared: beside others, each at
 * runs of its own. Its seed comes from there when the series has none of its own: *seed is
 * replaced. Returns 0; -EBUSY (another memsight is at it), -EEXIST (it belongs to another series),
 * or another negative errno, each with one line in message.
 */
int series_folder_open(const struct series *series, bool is_shared, uint64_t *seed,
		       struct series_folder *ret_folder, char *message);

/* The same only to look, whoever is at it. 0 or a negative errno. */
int series_folder_look(const struct series *series, struct series_folder *ret_folder);
void series_folder_close(
	struct series_folder *folder); /* safe on SERIES_FOLDER_CLOSED, and twice */

/*
 * Compare programs and modes with those that the folder's runs were made with, and note new ones.
 * -EEXIST with one line in message when one of the same name has changed.
 */
int series_folder_check(const struct series_folder *folder, const struct series_plan *plan,
			char *message);

/* What became of a run of that name. */
enum series_result series_folder_result(const struct series_folder *folder, const char *name);

/* "ok", "failed", "timeout", "check failed", "missing". */
const char *series_result_name(enum series_result result);

/* Make an empty folder for a run that begins. *ret_path is absolute. 0 or a negative errno. */
int series_folder_begin(const struct series_folder *folder, const char *name,
			char ret_path[PATH_MAX]);

/* The run is whole: give its folder its name, in place of an older one. 0 or a negative errno. */
int series_folder_end(const struct series_folder *folder, const char *name);

/* Remove a run (to do it again), and what a killed series left of it. 0 or a negative errno. */
int series_folder_remove(const struct series_folder *folder, const char *name);
