#pragma once
/*
 * Bytes of the traced programs for the decoder: those that the trace carries (CODE frames), else
 * those of the module's own file. Times are ns since the run's start. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/modules.h"
#include "schemas/trace-format.h"

struct code_store;

/* All must outlive it. Returns 0 or -ENOMEM. */
int code_store_create(struct tasks *tasks, struct modules *modules, struct code_store **ret_store);
struct code_store *code_store_destroy(struct code_store *store); /* accepts NULL */

/* A CODE frame of an image, read at time_ns: head->n_bytes of bytes are copied. 0 or a negative errno. */
int code_store_add(struct code_store *store, uint32_t process, const struct trace_code *head,
		   const void *bytes, int64_t time_ns);

/*
 * A number for the code of an image as it is at time_ns: another one after every unloading of a
 * module and renewal of a page, so that decoded instructions can be kept under it. 0: no memory.
 */
uint32_t code_store_space(struct code_store *store, uint32_t process, int64_t time_ns);

/*
 * Callbacks for struct decode_memory; user is the store, process a number from code_store_space(),
 * time the sample's time_ns.
 */
size_t code_store_code(void *user, uint32_t space, uint64_t address, uint64_t time, void *bytes,
		       size_t n_bytes);
size_t code_store_constant(void *user, uint32_t space, uint64_t address, uint64_t time, void *bytes,
			   size_t n_bytes);
