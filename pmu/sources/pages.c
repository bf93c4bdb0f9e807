/*
 * Which pages were touched, and which were written (pmu/page-marks.h). The collector asks
 * (runner/collector-touches.c); here is only whether one of them can be had. There are no samples.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "pmu/page-marks.h"
#include "pmu/stream.h"

/* Without marks it is written pages alone; the recording says what is missing. */
static int probe(const struct access_source *source, const struct access_options *options,
		 struct pmu_refusal *ret_refusal)
{
	int err = pages_probe_marks(ret_refusal);

	(void)source;
	(void)options;
	if (err < 0 && prctl(PR_GET_SECCOMP) == 0 && pages_userfaultfd_has(PAGES_NOTES_WRITES) == 0)
		return 0;
	return err;
}

static int open_pages(const struct access_source *source, const struct access_options *options,
		      struct access_stream **ret_stream, struct pmu_refusal *ret_refusal)
{
	struct access_stream *stream;
	int err = probe(source, options, ret_refusal);

	if (err < 0)
		return err;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return pmu_refuse(ret_refusal, -ENOMEM, "no memory left");
	stream->source = source;
	*ret_stream = stream;
	return 0;
}

static void close_pages(struct access_stream *stream)
{
	free(stream);
}

static void describe(const struct access_stream *stream, struct trace_source *ret_source)
{
	(void)stream;
	*ret_source = (struct trace_source){
		.perf_type = PERF_TYPE_SOFTWARE,
		.perf_config = PERF_COUNT_SW_DUMMY,
		.clock_id = CLOCK_MONOTONIC_RAW,
	};
}

const struct access_source pmu_source_pages = {
	.name = "pages",
	.unit = "intervals",
	.about = "which pages were read or written in each interval: clear_refs and Referenced of "
		 "/proc/PID",
	.role = ACCESS_ROLE_PAGES,
	.kind = TRACE_SAMPLE_PAGES,
	.is_opt_in = true,
	.probe = probe,
	.open = open_pages,
	.describe = describe,
	.close = close_pages,
};
