#pragma once
/*
 * Memory that an address was loaded from right before a sample: the indices of a gather, the
 * pointer of a hash bucket. Samples whose window does not tell all of its accesses are decoded here
 * again, and what would tell them is read out of the live process, some ms later, and handed on
 * with what a reading before the sample had seen there. Whether such bytes may be used is decided
 * by who has all of them (analyze/samples/code/data-history.h).
 *
 * Reads only pages that have a page frame, and none of the sampled thread's stack. Bounded memory
 * and work; an instruction for which this was of no use a few times is left alone. One thread at a
 * time.
 */
#include <stdint.h>

#include "perf/record.h"
#include "runner/processes/image.h"
#include "runner/sampling/code-capture.h"
#include "schemas/trace-format.h"

struct run_data;

struct run_data_counts {
	uint64_t n_bytes; /* handed on */
	uint64_t n_samples; /* of which something was read */
	uint64_t n_over_limit; /* samples that were not looked at */
};

/*
 * Takes bytes of kind TRACE_CODE_HELD, as code_changing_sink's lines. Code is read as `code`
 * allows; it must outlive the other. Returns 0 or -ENOMEM.
 */
int run_data_create(const struct code_changing_sink *sink, struct run_code *code,
		    struct run_data **ret_data);
struct run_data *run_data_destroy(struct run_data *data); /* accepts NULL */

/* Whether a sample of a live process is worth a look: nearly always only that of a table. */
bool run_data_wants(struct run_data *data, const struct image *image, uint64_t ip);

/* A sample with registers that is. Returns 0 or -ENOMEM. */
int run_data_sample(struct run_data *data, const struct pmu_record *record,
		    const struct image *image);

/*
 * The samples of a round have been told: read behind them, and hand on what was read if it is much
 * or has waited long. Returns 0 or what the sink does.
 */
int run_data_round(struct run_data *data, uint64_t ticks);

/*
 * The trace has lost code and data: what is read from here on refers to nothing that was stored
 * before, and readings that wait and might are dropped.
 */
void run_data_store_anew(struct run_data *data);

/* Hand on all that was read. Returns 0 or what the sink does. */
int run_data_flush(struct run_data *data);

/* Other code or data is in the range; a whole image is (id, 0, UINT64_MAX). */
void run_data_forget(struct run_data *data, uint32_t process_id, uint64_t start, uint64_t end);

struct run_data_counts run_data_counts(const struct run_data *data);
