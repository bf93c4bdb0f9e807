#pragma once
/*
 * Bytes of the traced programs for the decoder: those that the trace carries (CODE frames), else
 * those of the module's own file. Times are ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/process/modules.h"
#include "analyze/samples/samples.h"
#include "schemas/trace-format.h"

struct code_store;

/*
 * All must outlive it; trace_path is the file that code comes from, for code that changes where it
 * lies (code-history.h; NULL: such frames are -EOPNOTSUPP). Returns 0 or -ENOMEM.
 */
int code_store_create(const struct sample_context *context, struct code_store **ret_store);
struct code_store *code_store_destroy(struct code_store *store); /* accepts NULL */

/* A CODE frame of an image: head->n_bytes of bytes are copied. 0 or a negative errno. */
int code_store_add(struct code_store *store, uint32_t process, const struct trace_code *head,
		   const void *bytes);

/* Something of the trace is lost: what was read of data that may change says nothing any more. */
void code_store_damaged(struct code_store *store);

/* So long behind a sample what is added still says something of it; all up to read_ns was. */
int64_t code_store_wait_ns(const struct code_store *store, int64_t read_ns);

/* An executable map came, or code that is mapped got another protection. */
struct code_map {
	uint32_t pid;
	bool is_file;
	bool is_fixed; /* nobody can write to it where it lies */
	uint64_t start;
	uint64_t size;
	int64_t time_ns;
};

/* In any order, but all of a segment before its samples are decoded. 0 or -ENOMEM. */
int code_store_map(struct code_store *store, const struct code_map *map);

/* Whether the page around an address is of code that changes where it lies; space as below. */
bool code_store_is_changing(const struct code_store *store, uint32_t space, uint64_t address);

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
uint32_t code_store_version(void *user, uint32_t space, uint64_t address, uint64_t time);
size_t code_store_constant(void *user, uint32_t space, uint64_t address, uint64_t time, void *bytes,
			   size_t n_bytes);
uint64_t code_store_begin(void *user, uint32_t space, uint64_t address, uint64_t time);

/* Data that may change, as it was at the sample that is decoded: to be told its ip first. */
void code_store_sample(struct code_store *store, uint64_t ip);
size_t code_store_data(void *user, uint32_t space, uint64_t address, uint64_t time, void *bytes,
		       size_t n_bytes);
