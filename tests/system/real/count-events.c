/*
 * count-events TRACE: the events of each process as they stand in the trace, before analyze had
 * anything to do with them. One line per process and function:
 *
 *   PROCESS_ID EXE FUNCTION COUNT
 *
 * and a last line "damage N" with everything that could not be read.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "trace/names.h"
#include "trace/reader.h"

#define MAX_PROCESSES 4096
#define MAX_THREADS   65536

struct tally {
	char exes[MAX_PROCESSES][64];
	uint32_t process_of_thread[MAX_THREADS];
	uint64_t counts[MAX_THREADS][TRACE_CALL_COUNT];
};

static void take_process(struct tally *tally, const struct trace_process *process)
{
	size_t n = 0;
	const char *exe = trace_record_string(&process->head, 0, &n);
	const char *slash = memrchr(exe, '/', n);
	size_t skip = slash ? (size_t)(slash + 1 - exe) : 0;

	if (process->process_id >= MAX_PROCESSES)
		errx(EXIT_FAILURE, "more than %d processes", MAX_PROCESSES);
	snprintf(tally->exes[process->process_id], sizeof(tally->exes[0]), "%.*s",
		 n ? (int)(n - skip) : 1, n ? exe + skip : "?");
}

static void take_record(struct tally *tally, const struct trace_record *record)
{
	const struct trace_thread *thread = (const void *)record;

	if (record->type == TRACE_RECORD_PROCESS)
		take_process(tally, (const void *)record);
	if (record->type != TRACE_RECORD_THREAD)
		return;
	if (thread->thread_id >= MAX_THREADS)
		errx(EXIT_FAILURE, "more than %d threads", MAX_THREADS);
	tally->process_of_thread[thread->thread_id] = thread->process_id;
}

static void take_item(struct tally *tally, const struct trace_item *item)
{
	if (item->type == TRACE_FRAME_RECORDS) {
		for (const struct trace_record *record = trace_record_next(item, NULL); record;
		     record = trace_record_next(item, record))
			take_record(tally, record);
	}
	if (item->type != TRACE_FRAME_EVENTS)
		return;
	if (item->stream_id >= MAX_THREADS)
		errx(EXIT_FAILURE, "more than %d threads", MAX_THREADS);
	for (size_t i = 0; i < item->n; i++) {
		if (item->events[i].call < TRACE_CALL_COUNT)
			tally->counts[item->stream_id][item->events[i].call]++;
	}
}

static void print_process(const struct tally *tally, uint32_t process_id)
{
	for (int call = 0; call < TRACE_CALL_COUNT; call++) {
		uint64_t n = 0;

		for (uint32_t thread = 0; thread < MAX_THREADS; thread++) {
			if (tally->process_of_thread[thread] == process_id)
				n += tally->counts[thread][call];
		}
		if (n)
			printf("%u\t%s\t%s\t%lu\n", process_id, tally->exes[process_id],
			       trace_call_name((unsigned)call), n);
	}
}

int main(int argc, char **argv)
{
	struct trace_reader *reader = NULL;
	struct trace_item item;
	auto_free struct tally *tally = calloc(1, sizeof(*tally));

	if (argc != 2 || !tally)
		errx(2, "usage: count-events TRACE");
	int r = trace_reader_open(argv[1], &reader);
	if (r < 0)
		errx(EXIT_FAILURE, "%s: %s", argv[1], strerror(-r));
	while ((r = trace_reader_next(reader, &item)) > 0)
		take_item(tally, &item);
	if (r < 0)
		errx(EXIT_FAILURE, "%s: %s", argv[1], strerror(-r));
	for (uint32_t process = 1; process < MAX_PROCESSES; process++) {
		if (tally->exes[process][0])
			print_process(tally, process);
	}
	const struct trace_damage *damage = trace_reader_damage(reader);
	printf("damage\t%lu\n", damage->n_damaged_frames + damage->n_lost_items +
					damage->n_skipped_bytes + damage->n_uncommitted_items +
					damage->header_damaged + !damage->ended);
	trace_reader_close(reader);
	return EXIT_SUCCESS;
}
