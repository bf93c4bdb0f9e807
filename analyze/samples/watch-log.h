#pragma once
/*
 * What record --watch watched, and what was seen there: from WATCH records and the hits of the
 * debug registers to the tables watch, watch_thread and watch_reuse. Hits come in order of time.
 * One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>

#include "analyze/process/processes.h"
#include "decode/watch-instruction.h"
#include "schemas/trace-format.h"

struct watch_log;
struct watch_entry;

/* Returns 0 or -ENOMEM. tasks must outlive it. */
int watch_log_create(const struct tasks *tasks, struct watch_log **ret_log);
struct watch_log *watch_log_destroy(struct watch_log *log); /* accepts NULL, returns NULL */

/* A record; 0 or -ENOMEM. */
int watch_log_record(struct watch_log *log, const struct trace_watch *record, int64_t time_ns);

/* A trap: registers is NULL where none were kept, else n of them. */
struct watch_trap {
	int64_t time_ns;
	uint64_t address; /* of the register's range */
	uint64_t ip;
	uint32_t process; /* number of the image */
	uint32_t tid;
	const uint64_t *registers;
	size_t n_registers;
};

/*
 * Which watch a trap is an access to. NULL: to none that was armed then (counted), or it is the
 * same access as the trap before, which touched the ranges of two registers.
 */
struct watch_entry *watch_log_take(struct watch_log *log, const struct watch_trap *trap);

/* Where the access of a trap lies, and how long it is: the whole of what is watched. */
uint64_t watch_entry_address(const struct watch_entry *entry);
uint32_t watch_entry_bytes(const struct watch_entry *entry);

/* Count an access: who did what. thread_row 0: not known; what->ip 0: nor is what it did. */
int watch_entry_count(struct watch_entry *entry, int64_t time_ns, int64_t thread_row,
		      const struct decode_before *what);

/* Whose the bytes are, by the first access. */
void watch_entry_own(struct watch_entry *entry, int owner_kind, int64_t owner_id);

/* Traps that were no access to anything armed then. */
uint64_t watch_log_strays(const struct watch_log *log);

/* The cache for the log's own decoding. */
struct decode_before_cache *watch_log_cache(struct watch_log *log);

/* Write the tables; end_ns closes what is still armed. 0 or a negative errno. */
int watch_log_write(struct watch_log *log, sqlite3 *db, int64_t run_id, int64_t end_ns);
