/*
 * The WRITES and TOUCHES of a trace, a line each, times in ticks:
 *	touches PROCESS NUMBER BEGIN END RESIDENT TOUCHED
 *	writes PROCESS NUMBER BEGIN END KNOWN WRITTEN
 *	run ADDRESS BYTES BITS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"
#include "trace/varint.h"

static uint8_t *runs;
static size_t n_run_bytes;

static void print_runs(uint64_t page_bytes)
{
	const uint8_t *at = runs;
	uint64_t end = 0, gap, pages;

	while (at < runs + n_run_bytes) {
		at = trace_varint_get_slow(at, &gap);
		at = at ? trace_varint_get_slow(at, &pages) : NULL;
		if (!at)
			exit(1);
		printf("run %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", (end + gap) * page_bytes,
		       (pages >> TRACE_WRITE_BITS) * page_bytes,
		       pages & ((1u << TRACE_WRITE_BITS) - 1));
		end += gap + (pages >> TRACE_WRITE_BITS);
	}
}

static void print_writes(const struct trace_writes *writes)
{
	size_t n_bytes;
	const char *part = trace_record_string(&writes->head, 0, &n_bytes);

	runs = realloc(runs, n_run_bytes + n_bytes + TRACE_VARINT_MAX_BYTES);
	if (!runs)
		exit(1);
	memcpy(runs + n_run_bytes, part, n_bytes);
	n_run_bytes += n_bytes;
	if (!writes->is_last)
		return;
	printf("writes %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	       writes->process_id, writes->number, writes->begin_ticks, writes->ticks,
	       writes->known_bytes, writes->written_bytes);
	print_runs(writes->page_bytes);
	n_run_bytes = 0;
}

static void print_touches(const struct trace_touches *touches)
{
	if (touches->is_last)
		printf("touches %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64
		       " %" PRIu64 "\n",
		       touches->process_id, touches->number, touches->begin_ticks, touches->ticks,
		       touches->resident_bytes, touches->touched_bytes);
}

int main(int argc, char **argv)
{
	const enum trace_frame_type only = TRACE_FRAME_RECORDS;
	struct trace_reader *reader;
	struct trace_item item;

	if (argc != 2 || trace_reader_open(argv[1], &reader) < 0)
		return 2;
	trace_reader_only(reader, &only, 1);
	while (trace_reader_next(reader, &item) > 0) {
		const struct trace_record *record = NULL;

		while (item.type == TRACE_FRAME_RECORDS &&
		       (record = trace_record_next(&item, record)))
			if (record->type == TRACE_RECORD_WRITES)
				print_writes((const void *)record);
			else if (record->type == TRACE_RECORD_TOUCHES)
				print_touches((const void *)record);
	}
	trace_reader_close(reader);
	free(runs);
	return 0;
}
