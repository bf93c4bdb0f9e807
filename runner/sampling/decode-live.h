#pragma once
/*
 * --private: decodes clock samples while the program runs and keeps addresses only. No registers,
 * stack bytes or code get into the trace; what cannot be decoded now cannot be decoded later.
 * One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "perf/record.h"
#include "runner/processes/image.h"
#include "runner/sampling/code-capture.h"
#include "trace/writer.h"

struct samples_private;

/*
 * code tells what ran where code may change (run_code_live()), and must outlive it; NULL: what is
 * there now is taken for what ran. Returns 0, -ENOMEM, or -EOPNOTSUPP for a machine that the
 * decoder does not know.
 */
int samples_private_create(struct trace_writer *writer, struct run_code *code,
			   struct samples_private **ret_private);

/* Accepts NULL, returns NULL. */
struct samples_private *samples_private_destroy(struct samples_private *private_samples);

/*
 * Decode one SAMPLE record of a living image and store its accesses under source_id; with one of
 * role NONE when it resolves to none. image may be NULL: not known. Returns 0, the writer's
 * negative errno, or 1: nothing is stored, it is to be taken again (samples_private_flush()).
 */
int samples_private_take(struct samples_private *private_samples, uint32_t source_id,
			 const struct pmu_record *record, const struct image *image);

/*
 * Decode one SAMPLE record and call back with each address that its time is divided over, and the
 * share. Nothing is stored: the writer may be NULL.
 */
void samples_private_look(struct samples_private *private_samples, const struct pmu_record *record,
			  const struct image *image,
			  void (*call)(void *user, uint64_t address, double share), void *user);

/* Keep a SAMPLE record until code has been read behind it. 0 or -ENOMEM. */
int samples_private_keep(struct samples_private *private_samples, const void *stream,
			 const void *record, size_t n_bytes);

/* One record that was kept; returns what samples_private_take() does. */
typedef int (*samples_private_taker)(void *user, const void *stream, const void *record,
				     size_t n_bytes);

/*
 * Take all that were kept. Code that had to be read out of the process for one is what ran only if
 * nothing else was mapped there until then: `look_again` hands on what the kernel has told by now
 * (samples_private_forget()), and then those are taken once more, from what was read. 0, or what a
 * callback returns below 0.
 */
int samples_private_flush(struct samples_private *private_samples, samples_private_taker take,
			  int (*look_again)(void *user), void *user);

/*
 * Other code is mapped there since raw_ns (0: for all samples to come); the whole image with 0 and
 * UINT64_MAX.
 */
void samples_private_forget(struct samples_private *private_samples, uint32_t process_id,
			    uint64_t start, uint64_t end, uint64_t raw_ns);
