/* What a person is told. */
#include <stdarg.h>
#include <stdio.h>

#include "runner/collector.h"
#include "runner/trace-records-write.h"
#include "schemas/control.h"

void collector_warn(struct collector *collector, const char *format, ...)
{
	char line[512];
	va_list arguments;

	if (!collector->observer || !collector->observer->warn)
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	collector->observer->warn(collector->observer->user, line);
}

void collector_tell_growth(const struct collector *collector)
{
	const struct run_observer *observer = collector->observer;

	if (observer && observer->grown)
		observer->grown(observer->follower,
				&(struct run_growth){
					.path = collector->output->partial,
					.name = collector->output->path,
					.n_bytes = trace_writer_file_bytes(collector->writer),
				});
}

void collector_refuse(struct control_reply *answer, int err, const char *format, ...)
{
	va_list arguments;

	answer->error = err;
	va_start(arguments, format);
	vsnprintf(answer->message, sizeof(answer->message), format, arguments);
	va_end(arguments);
}

void collector_tick_progress(struct collector *collector)
{
	const struct run_observer *observer = collector->observer;
	const struct trace_writer_totals *totals = trace_writer_totals(collector->writer);
	uint64_t period_ns = collector->options->progress_ns;
	uint64_t begin_ns = collector->command_begin_ns;

	if (!observer || !observer->progress || period_ns == 0 || begin_ns == 0)
		return;
	if (collector->next_progress_ns == 0) {
		collector->said_ns = begin_ns;
		collector->next_progress_ns = begin_ns + period_ns;
	}
	if (collector->now_ns < collector->next_progress_ns || collector->stopped_ticks)
		return;
	const struct run_progress progress = {
		.wall_ns = collector->now_ns - begin_ns,
		.end_ns = collector->leave_ns ? collector->leave_ns - begin_ns : 0,
		.n_events = totals->n_events,
		.n_samples = totals->n_samples,
		.file_bytes = trace_writer_file_bytes(collector->writer),
		.n_new_bytes = trace_writer_file_bytes(collector->writer) - collector->said_bytes,
		.new_ns = collector->now_ns - collector->said_ns,
		.room_bytes = collector->room_bytes,
		.room_reason = collector->room_reason,
	};
	collector->said_ns = collector->now_ns;
	collector->said_bytes = progress.file_bytes;
	while (collector->next_progress_ns <= collector->now_ns)
		collector->next_progress_ns += period_ns;
	observer->progress(observer->user, &progress);
}

void collector_refuse_pages(struct collector *collector, const struct image *image,
			    const char *about, const char *reason, bool *is_said)
{
	const struct store_loss loss = {
		.count = 1,
		.from_ticks = clock_ticks(collector->clock),
		.process_id = image->id,
		.source = "pages",
		.reason = reason,
	};

	store_loss(collector->writer, &loss);
	if (!*is_said)
		collector_warn(collector, "%s%s", about, reason);
	*is_said = true;
}
