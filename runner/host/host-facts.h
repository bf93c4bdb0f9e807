#pragma once
/*
 * What a reader of a run must know about the machine: kernel, CPU, memory, sysctls that decide
 * about samples and pages. A table; what cannot be read is left out. Taken at the start and at the
 * end of a run: some of them change by themselves (perf_event_max_sample_rate).
 */

/* key and value are valid during the call. A negative result stops, and is handed on. */
typedef int (*run_fact_sink)(void *context, const char *key, const char *value);

/*
 * Give every fact to the sink, in the order of the table; keys are those of docs/database.md. Takes
 * about a millisecond. Returns 0 or the sink's negative result.
 */
int run_facts(run_fact_sink sink, void *context);
