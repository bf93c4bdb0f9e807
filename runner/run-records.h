#pragma once
#include "common/clock.h"
#include "runner/run-options.h"
#include "trace/writer.h"

/*
 * Write what a trace begins with: the RUN record, the facts of the host, of the options and of the
 * environment (variables on an allow-list only), the first pair of clocks. Returns 0 or a negative
 * errno.
 */
int run_records_begin(struct trace_writer *writer, const struct run_options *options,
		      const struct clock_pair *first_pair);
