#pragma once
/*
 * Traces made by hand for tests. Ticks are nanoseconds since the run's start plus MAKER_START, so
 * that times in the database are what a test writes. Failures abort the test (ck_assert).
 */
#include <stdint.h>

#include "trace/writer.h"

#define MAKER_START UINT64_C(1000000000000)

struct maker {
	struct trace_writer *writer;
	char folder[64]; /* holds the trace, and what else a test puts there */
	char trace[96];
	char db[96];
};

/* A trace with run, clock and nothing else, in a folder of its own (in memory where possible). */
void maker_init(struct maker *maker);

/* Remove the folder and everything in it. */
void maker_finish(struct maker *maker);

void maker_process(struct maker *maker, uint32_t number, uint32_t parent, uint64_t start_ns);
void maker_fork(struct maker *maker, uint32_t number, uint32_t parent, uint64_t start_ns);
void maker_end(struct maker *maker, uint32_t process, uint64_t time_ns, int status);
void maker_thread(struct maker *maker, uint32_t number, uint32_t process, uint64_t start_ns);
void maker_mapping(struct maker *maker, uint32_t process, uint64_t start, uint64_t size);

/* ticks and begin_ticks of the event are ns since the start. */
void maker_event(struct maker *maker, uint32_t thread, const struct trace_event *event);

/* A source of samples; error 0. */
void maker_source(struct maker *maker, uint32_t number, const char *name, const char *unit,
		  uint64_t period);

/* A fact of the run. */
void maker_fact(struct maker *maker, const char *key, const char *value);

/* A node of a thread's stacks. */
void maker_node(struct maker *maker, uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc);

/* Accesses of one sample of `record --private`; raw_ns is ns since the start. */
void maker_accesses(struct maker *maker, uint32_t source, const struct trace_access *accesses,
		    size_t n);

/* A segment ends; everything before time_ns is in it. */
void maker_commit(struct maker *maker, uint64_t time_ns);

/* Write the end of the trace and close it. */
void maker_close(struct maker *maker, uint64_t time_ns);
