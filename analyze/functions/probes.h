#pragma once
/*
 * Static probes of allocators in an ELF file (SystemTap's sdt.h, version 3 of its note; record
 * --usdt-from). Those that are known, by provider and name:
 *
 *	otel_memory:alloc(ptr, size, weighted_bytes)	otel_memory:free(ptr)
 *	memsight:alloc(ptr, size[, site, weighted_bytes])	memsight:free(ptr)
 *	*:memsight_alloc(ptr, size[, weighted_bytes])	*:memsight_free(ptr)
 *
 * The first two are the contract of OpenTelemetry's profiler, the next are what memsight's own
 * library has (tracealloc/pick/usdt.h), the last ones are for any provider. weighted_bytes: the
 * bytes that the block stands for, where only some are told of; without it the block is all.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/functions-plan.h"

struct object;

struct probe {
	uint64_t nop; /* ELF address, as the next one */
	uint64_t semaphore; /* 0: none */
	uint8_t kind; /* enum plan_kind */
	bool is_readable; /* its arguments are where we can read them */
	char *provider;
	char *name;
	struct plan_argument arguments[PLAN_ARGUMENTS];
};

struct probes {
	struct probe *items; /* by address */
	size_t n;
	size_t n_allocated;
};

/* Add those of the object, which is open. Returns 0 or -ENOMEM. */
int probes_read(struct object *object, struct probes *probes);
void probes_finish(struct probes *probes); /* accepts a zeroed one */
#define auto_probes __attribute__((cleanup(probes_finish)))

/*
 * One argument of a note, such as "8@%rdi", "-4@20(%rsp)", "8@$1" or "8@size(%rip)"; of that
 * "size" is looked for among the object's symbols (NULL: none are known). False: in a form that
 * cannot be read.
 */
bool probe_argument_parse(struct object *object, const char *text, struct plan_argument *ret);
