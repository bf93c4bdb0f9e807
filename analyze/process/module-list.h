#pragma once
/* The modules of one image, sorted by address. Used by modules*.c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/process/modules.h"

/* A module that ended before anything was known of it: a parent's. */
struct module_end {
	uint64_t start;
	int64_t time_ns;
};

struct module_list {
	struct module *items; /* by start, then load_ns */
	uint64_t *max_ends; /* of an item and all before it */
	size_t n;
	size_t n_allocated;
	size_t n_max_ends_allocated;
	size_t last; /* index of the last answer */
	uint32_t n_told;
	int64_t first_announce_ns; /* INT64_MAX: none yet */
	int64_t last_start_ns; /* the last announcement of those of the image's start */
	bool has_inherited; /* the parent's were taken over, or there are none to take */
	bool is_broken; /* no memory for them */
	struct module_end *ends;
	size_t n_ends;
	size_t n_ends_allocated;
	struct {
		int64_t from_ns; /* the last answer of modules_epoch(), and when it is right */
		int64_t until_ns;
		uint32_t epoch;
		uint64_t n_changes;
	} last_epoch;
	uint64_t tls_bytes; /* of modules_static_tls_bytes(); 0: not asked for yet */
};

struct module_list *module_list_create(void); /* NULL: no memory */
struct module_list *module_list_destroy(struct module_list *list); /* accepts NULL */

/* Add a module. Returns it, valid until the next is added; NULL without memory. */
struct module *module_list_add(struct module_list *list, const struct module *module);

/* The module that holds address at a time, or NULL. */
struct module *module_list_find(struct module_list *list, uint64_t address, int64_t time_ns);

/* A module's bounds have changed, not its start: find addresses in it again. */
void module_list_settle(struct module_list *list);

/* Write the table module. Returns 0 or a negative errno. */
int modules_write_all(struct tasks *tasks, sqlite3 *db, int64_t run_id);
