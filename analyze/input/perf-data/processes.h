#pragma once
/*
 * The process images that a perf.data tells of, as PROCESS records of a trace. Its records come out
 * of order of time between CPUs, so they are kept up to the end of a round. One thread.
 */
#include "analyze/input/record-list.h"
#include "common/hash-map.h"
#include "perf/record.h"

struct perf_task_event;
struct perf_image;

/* All zero is empty. */
struct perf_tasks {
	struct perf_task_event *events; /* of this round */
	size_t n_events;
	size_t n_events_allocated;
	struct perf_image *images; /* by process id - 1 */
	size_t n_images;
	size_t n_images_allocated;
	size_t n_told; /* images whose records were made */
	struct key_map by_pid; /* to process id, of its newest image */
	char *first_program; /* name of the first exec; NULL: none yet */
};

void perf_tasks_finish(struct perf_tasks *tasks);

/* A record of MMAP, MMAP2, COMM, FORK or EXIT at time_ns. 0 or -ENOMEM. */
int perf_tasks_add(struct perf_tasks *tasks, const struct pmu_record *record, uint64_t time_ns);

/* The records of a round are all there: add the PROCESS records of new images. 0 or -ENOMEM. */
int perf_tasks_tell(struct perf_tasks *tasks, struct record_list *list);
