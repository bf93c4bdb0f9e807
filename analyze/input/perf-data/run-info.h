#pragma once
/*
 * What a perf.data says of itself, as records of a trace: the run, facts of its host, and its
 * events as sources. One thread.
 */
#include "analyze/input/perf-data/file.h"
#include "analyze/input/record-list.h"

/* What an event of a perf.data is to us. */
struct perf_source {
	uint32_t source_id;
	/* "clock", "faults", "pebs", "ibs", "spe", "tasks", or as perf calls the event */
	char *name;
	enum trace_sample_kind kind;
	struct trace_source_ledger ledger; /* told at the end */
	uint64_t throttled_since_ns; /* 0: it is not */
};

/* What an event of the file is. name is allocated. 0 or -ENOMEM. */
int perf_source_describe(const struct perf_data *data, size_t event, uint32_t source_id,
			 struct perf_source *ret_source);

/* SOURCE and SOURCE_DETAIL of it. 0 or -ENOMEM. */
int perf_source_add(struct record_list *list, const struct perf_data *data, size_t event,
		    const struct perf_source *source);

/* RUN (program NULL: not known), and facts. start_ns: of the events' clock. 0 or -ENOMEM. */
int perf_run_add(struct record_list *list, const struct perf_data *data, const char *program,
		 uint64_t start_ns);

/* Facts of host and recording, their keys behind a prefix. 0 or -ENOMEM. */
int perf_run_add_facts(struct record_list *list, const struct perf_data *data, const char *prefix);

/* The ELF machine of the host that recorded; 0: not known. */
uint16_t perf_run_machine(const struct perf_data *data);
