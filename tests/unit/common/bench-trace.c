/*
 * What a trace costs: ns of CPU per event to encode, to write (with compression) and to read, and
 * bytes per event in the file. The stream is like that of a malloc/free program: 16-528 bytes,
 * 1,000 live blocks, 60-200 ticks between events, 16 stacks, freed blocks of a size handed out
 * again.
 *
 * 	bench-trace [EVENTS [FILE]]
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trace/columns.h"
#include "trace/reader.h"
#include "trace/writer.h"

#define N_LIVE	  1000u
#define N_PATTERN (1u << 20) /* events made beforehand and played in a circle */
#define N_CLASSES 35u

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) * n >> 32);
}

/* An allocator: lists of freed blocks by size class of 16 bytes, last in first out. */
struct heap {
	uint64_t top;
	uint64_t freed[N_CLASSES][N_LIVE];
	unsigned n_freed[N_CLASSES];
	uint64_t live[N_LIVE];
	uint32_t live_size[N_LIVE];
};

static uint64_t take(struct heap *heap, uint32_t size)
{
	unsigned class = (size + 8 + 15) / 16;
	uint64_t address = heap->top;

	if (heap->n_freed[class] > 0)
		return heap->freed[class][--heap->n_freed[class]];
	heap->top += class * 16;
	return address;
}

static void give_back(struct heap *heap, uint64_t address, uint32_t size)
{
	unsigned class = (size + 8 + 15) / 16;

	heap->freed[class][heap->n_freed[class]++] = address;
}

/* Free a block and take another, in turn. Ticks are deltas here; main adds them up. */
static void make_pattern(struct trace_event *events)
{
	struct heap *heap = calloc(1, sizeof(*heap));

	if (!heap)
		err(1, "calloc");
	heap->top = 0x55d0c0de02a0;
	for (unsigned i = 0; i < N_LIVE; i++) {
		heap->live_size[i] = 16 + random_below(513);
		heap->live[i] = take(heap, heap->live_size[i]);
	}
	for (unsigned i = 0; i < N_PATTERN; i += 2) {
		unsigned slot = random_below(N_LIVE);
		events[i] = (struct trace_event){ .op = TRACE_OP_FREE,
						  .call = TRACE_CALL_FREE,
						  .ticks = 60 + random_below(141),
						  .address = heap->live[slot] };
		give_back(heap, heap->live[slot], heap->live_size[slot]);
		heap->live_size[slot] = 16 + random_below(513);
		heap->live[slot] = take(heap, heap->live_size[slot]);
		events[i + 1] = (struct trace_event){ .op = TRACE_OP_ALLOC,
						      .call = TRACE_CALL_MALLOC,
						      .stack_id = 1 + random_below(16),
						      .ticks = 60 + random_below(141),
						      .address = heap->live[slot],
						      .size = heap->live_size[slot] };
	}
	free(heap);
}

static void report(const char *what, uint64_t ns, uint64_t n_events)
{
	printf("%-34s %7.2f ns/event\n", what, (double)ns / (double)n_events);
}

/* What the bench itself costs, to be taken off the figures below. */
static void bench_nothing(const struct trace_event *pattern, uint64_t n_events)
{
	volatile struct trace_event sink;
	uint64_t ticks = 0;

	uint64_t start = cpu_ns();
	for (uint64_t i = 0; i < n_events; i++) {
		struct trace_event event = pattern[i % N_PATTERN];
		ticks += event.ticks;
		event.ticks = event.begin_ticks = ticks;
		sink = event;
	}
	report("make events (in the next two)", cpu_ns() - start, n_events);
	(void)sink;
}

static void bench_encode(const struct trace_event *pattern, uint64_t n_events)
{
	struct trace_columns columns = { 0 };
	uint64_t ticks = 0;

	if (trace_columns_reserve(&columns, 32768) < 0)
		errx(1, "no memory");
	uint64_t start = cpu_ns();
	for (uint64_t i = 0; i < n_events; i++) {
		struct trace_event event = pattern[i % N_PATTERN];
		ticks += event.ticks;
		event.ticks = event.begin_ticks = ticks;
		if (columns.n_events == columns.capacity)
			trace_columns_clear(&columns);
		trace_columns_append(&columns, &event);
	}
	report("encode columns", cpu_ns() - start, n_events);
	trace_columns_finish(&columns);
}

static void bench_write(const struct trace_event *pattern, uint64_t n_events, const char *path)
{
	struct trace_file_header header = { .machine = 62 };
	struct trace_commit commit = { 0 };
	struct trace_writer *writer;
	uint64_t ticks = 0;

	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		err(1, "%s", path);
	if (trace_writer_open(fd, &header, &writer) < 0)
		errx(1, "cannot write %s", path);

	uint64_t start = cpu_ns();
	for (uint64_t i = 0; i < n_events; i++) {
		struct trace_event event = pattern[i % N_PATTERN];
		ticks += event.ticks;
		event.ticks = event.begin_ticks = ticks;
		if (trace_writer_event(writer, 1, &event) < 0)
			errx(1, "event refused");
		if (trace_writer_pending_bytes(writer) < TRACE_SEGMENT_BYTES)
			continue;
		commit.ticks = ticks;
		if (trace_writer_commit(writer, &commit, NULL) < 0)
			errx(1, "commit failed");
	}
	if (trace_writer_finish(writer, &commit) < 0)
		errx(1, "finish failed");
	report("write: encode, compress, append", cpu_ns() - start, n_events);
	printf("%-34s %7.2f bytes/event (raw %.2f)\n", "in the file",
	       (double)trace_writer_file_bytes(writer) / (double)n_events,
	       (double)trace_writer_totals(writer)->raw_bytes / (double)n_events);
	trace_writer_close(writer);
}

static void bench_read(uint64_t n_events, const char *path)
{
	struct trace_reader *reader;
	struct trace_item item;
	uint64_t n_read = 0, sum = 0;

	uint64_t start = cpu_ns();
	if (trace_reader_open(path, &reader) < 0)
		errx(1, "cannot read %s", path);
	while (trace_reader_next(reader, &item) == 1) {
		if (item.type != TRACE_FRAME_EVENTS)
			continue;
		n_read += item.n;
		for (size_t i = 0; i < item.n; i++)
			sum += item.events[i].address;
	}
	report("read", cpu_ns() - start, n_events);
	if (n_read != n_events || !trace_reader_damage(reader)->ended || sum == 0)
		errx(1, "read %llu events of %llu", (unsigned long long)n_read,
		     (unsigned long long)n_events);
	trace_reader_close(reader);
}

int main(int argc, char **argv)
{
	uint64_t n_events = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000;
	const char *path = argc > 2 ? argv[2] : "/tmp/bench-trace.mst";
	struct trace_event *pattern = calloc(N_PATTERN, sizeof(*pattern));

	if (!pattern)
		err(1, "calloc");
	make_pattern(pattern);
	bench_nothing(pattern, n_events);
	bench_encode(pattern, n_events);
	bench_write(pattern, n_events, path);
	bench_read(n_events, path);
	if (argc <= 2)
		unlink(path);
	free(pattern);
	return 0;
}
