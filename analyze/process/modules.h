#pragma once
/*
 * Which file was mapped where and when: for each process image the intervals of its loaded modules.
 * What is told: MODULE and MODULE_UNLOAD records of the interposer, executable maps (MAPPING
 * records and perf MMAP2) where it did not see. An image made by fork has its parent's modules of
 * that moment; one made by exec starts empty. Times are ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>

#include "analyze/process/processes.h"
#include "analyze/symbols/objects.h"

/* A loaded file in one image. Valid until the image's next module is told. */
struct module {
	struct object *object;
	uint64_t bias; /* address = ELF address + bias */
	uint64_t start;
	uint64_t end;
	int64_t load_ns;
	int64_t unload_ns; /* INT64_MAX: still loaded */
	uint32_t order; /* of being told within the image: that of the link map */
	int64_t announce_ns; /* when its record was stamped; INT64_MAX without one */
	bool is_inherited; /* the parent image's, of the time of the fork */
	bool is_announced; /* by the interposer; else from an executable map */
};

struct modules;

/* tasks and objects must outlive it. Returns 0 or -ENOMEM. */
int modules_create(struct tasks *tasks, struct objects *objects, struct modules **ret_modules);
struct modules *modules_destroy(struct modules *modules); /* accepts NULL, returns NULL */

/* TRACE_RECORD_MODULE and TRACE_RECORD_MODULE_UNLOAD of a trace; 0 or a negative errno. */
int modules_load(struct modules *modules, const struct trace_module *record, int64_t time_ns);
int modules_unload(struct modules *modules, const struct trace_module *record, int64_t time_ns);

/* TRACE_RECORD_MAPPING: executable ones are maps, others are ignored. 0 or a negative errno. */
int modules_mapping(struct modules *modules, const struct trace_mapping *record, int64_t time_ns);

/* An executable map of an image that MMAP2 or /proc/PID/maps told. */
struct module_map {
	uint32_t process; /* number */
	uint64_t start;
	uint64_t size;
	uint64_t file_offset;
	const char *path; /* path_bytes of them */
	size_t path_bytes;
	const uint8_t *build_id; /* NULL: not told */
	size_t build_id_bytes;
	int64_t time_ns;
};

/*
 * A map that lies in a known module of the same file changes nothing; one over modules of other
 * files ends these. Anonymous maps ("//anon", "[heap]", "") only end what they cover. 0 or a
 * negative errno.
 */
int modules_map(struct modules *modules, const struct module_map *map);

/*
 * The module of an image that holds address at time_ns, or NULL. Call in any order of time. The
 * last answer of an image is remembered: neighbours cost a few ns.
 */
const struct module *modules_find(struct modules *modules, uint32_t process, uint64_t address,
				  int64_t time_ns);

/*
 * Counts the modules that ended (in any image, at any time). Whoever keeps answers asks again when
 * it has moved, and for a time behind modules_valid_until().
 */
const uint64_t *modules_n_changes(const struct modules *modules);

/* The time at which a module found above ends as far as is known; INT64_MAX: not told. */
static inline int64_t modules_valid_until(const struct module *module)
{
	return module ? module->unload_ns : INT64_MAX;
}

/* How often modules of an image had come or gone at time_ns: in between its code stays the same. */
uint32_t modules_epoch(struct modules *modules, uint32_t process, int64_t time_ns);

/*
 * Bytes of static TLS below the thread pointer in an image: glibc's layout of the modules that were
 * there when it attached, and glibc's surplus for later ones. 0: nothing known.
 */
uint64_t modules_static_tls_bytes(struct modules *modules, uint32_t process);

/* Write the table module (own ones of each image, not the inherited). 0 or a negative errno. */
int modules_write(struct modules *modules, sqlite3 *db, int64_t run_id);
