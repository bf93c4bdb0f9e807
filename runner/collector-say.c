/* What a person is told. */
#include <stdarg.h>
#include <stdio.h>

#include "runner/collector.h"
#include "runner/trace-records-write.h"

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
