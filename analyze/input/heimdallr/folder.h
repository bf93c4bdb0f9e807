#pragma once
/*
 * What lies in a folder PROGRAM.MODE.N that Heimdallr's runs.sh made: alloc_ID_TID.log for each
 * thread, maps.log (the numbers of libraries), time.log (GNU time's default format), cmd.log (the
 * command as it was put together), access.dat (perf record). Each may be missing. Hostile input.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/input/heimdallr/log.h"

/* Whether a folder holds any of it. */
bool heimdallr_is_folder(const char *path);

/* What GNU time says. */
struct heimdallr_usage {
	bool is_known;
	int status; /* as from wait() */
	uint64_t user_ns;
	uint64_t system_ns;
	uint64_t wall_ns;
	uint64_t max_rss_bytes;
	uint64_t major_faults;
	uint64_t minor_faults;
};

/* Text as `time` writes it, also behind "Command exited with ..."; 0, or -EINVAL. */
int heimdallr_usage_parse(const char *text, struct heimdallr_usage *ret_usage);

struct heimdallr_library {
	uint32_t number; /* from 1 */
	char *path; /* owned; "": the program itself */
};

struct heimdallr_folder {
	char *path;
	struct heimdallr_log *logs; /* in order of process, then of id */
	size_t n_logs;
	size_t n_logs_allocated;
	uint32_t *processes; /* of each log: number of its process, from 1 */
	uint32_t n_processes;
	struct heimdallr_library *libraries;
	size_t n_libraries;
	size_t n_libraries_allocated;
	struct heimdallr_usage usage;
	char *command; /* words of cmd.log, parted by blanks; "" without it */
	/* when cmd.log was written: right before the start; 0: not known */
	int64_t command_unix_ns;
	uint64_t min_bytes; /* TRAC_THRESHOLD; 0: none is told */
	uint64_t n_bytes; /* of all logs */
	uint64_t n_bad_libraries; /* lines of maps.log that are none */
	bool is_bad_usage; /* time.log is there and cannot be read */
	bool has_accesses; /* access.dat is there */
	uint8_t identity[16]; /* the same for the same results, wherever they lie */
};

/*
 * Read all but the logs themselves. Returns 0, -ENOENT: it is no such folder, or a negative errno.
 */
int heimdallr_folder_open(const char *path, struct heimdallr_folder *ret_folder);
void heimdallr_folder_finish(struct heimdallr_folder *folder);
