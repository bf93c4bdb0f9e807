#include "analyze/input/heimdallr/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/heimdallr/input-internal.h"
#include "common/cleanup.h"
#include "schemas/ring.h"

#define MACHINE_X86_64	   62 /* ELF e_machine; the logs do not tell it */
#define MAX_EVENTS	   262144u /* read ahead of all threads together */
#define MAX_EVENTS_OF_EACH 16384u

enum stage {
	GIVE_BEGIN,
	READ_ON,
	GIVE_ACCESSES,
	GIVE_THREADS,
	GIVE_COMMIT,
	GIVE_LAST_ACCESSES,
	GIVE_END,
	GIVE_LAST_COMMIT,
	IS_OVER,
};

static void close_heimdallr(void *self)
{
	struct heimdallr *heimdallr = self;

	for (size_t i = 0; heimdallr->threads && i < heimdallr->folder.n_logs; i++) {
		heimdallr_stacks_finish(&heimdallr->threads[i].stacks);
		free(heimdallr->threads[i].events);
	}
	free_all(heimdallr->threads, heimdallr->exits, heimdallr->program);
	record_list_finish(&heimdallr->records);
	heimdallr_segments_close(heimdallr->segments);
	heimdallr_access_close(heimdallr->access);
	heimdallr_folder_finish(&heimdallr->folder);
	free_all(heimdallr->name.name, heimdallr);
}

/* ---- Reading ---- */

static int add_event(struct heimdallr *heimdallr, struct heimdallr_thread *thread,
		     const struct heimdallr_line *line)
{
	struct trace_event *event = &thread->events[thread->n];

	*event = (struct trace_event){
		.op = line->is_allocation ? TRACE_OP_ALLOC : TRACE_OP_FREE,
		.call = TRACE_CALL_UNKNOWN,
		.ticks = line->time_ns,
		.begin_ticks = line->time_ns,
		.address = line->address,
		.size = line->is_allocation ? line->size : 0,
	};
	if (line->time_ns > heimdallr->last_ns)
		heimdallr->last_ns = line->time_ns;
	thread->n++;
	if (!line->is_allocation) /* a free carries no stack */
		return 0;
	return heimdallr_stacks_node(&thread->stacks, heimdallr->segments, line, &event->stack_id);
}

/* Read events of a thread until its room is full. Returns 0 or a negative errno. */
static int read_thread(struct heimdallr *heimdallr, struct heimdallr_thread *thread)
{
	struct heimdallr_line line;
	int r = 1;

	if (!thread->events)
		thread->events = calloc(heimdallr->n_batch, sizeof(*thread->events));
	if (!thread->events)
		return -ENOMEM;
	thread->n -= thread->n_given;
	memmove(thread->events, thread->events + thread->n_given,
		thread->n * sizeof(*thread->events));
	thread->n_given = 0;
	while (thread->n < heimdallr->n_batch && !thread->is_over) {
		r = heimdallr_log_next(thread->log, &line);
		if (r > 0)
			r = add_event(heimdallr, thread, &line);
		else
			thread->is_over = true;
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Read on in all threads, and let everything up to the time be given that all of them were read to:
 * a later one may still have an earlier event to come.
 */
static int read_on(struct heimdallr *heimdallr)
{
	uint64_t until = UINT64_MAX;
	bool is_left = false;

	for (size_t i = 0; i < heimdallr->folder.n_logs; i++) {
		struct heimdallr_thread *thread = &heimdallr->threads[i];
		int r = read_thread(heimdallr, thread);
		if (r < 0)
			return r;
		if (!thread->is_over && thread->events[thread->n - 1].ticks < until)
			until = thread->events[thread->n - 1].ticks;
		is_left |= thread->n > 0;
	}
	heimdallr->commit.ticks = heimdallr->commit.raw_ns =
		until == UINT64_MAX ? heimdallr->last_ns : until;
	heimdallr->at = 0;
	heimdallr->has_given_nodes = false;
	heimdallr->stage = is_left ? GIVE_ACCESSES : GIVE_LAST_ACCESSES;
	return 0;
}

/* ---- Giving ---- */

static bool give_nodes(struct heimdallr *heimdallr, struct trace_item *ret_item)
{
	struct heimdallr_stacks *stacks = &heimdallr->threads[heimdallr->at].stacks;

	heimdallr->has_given_nodes = true;
	*ret_item = (struct trace_item){
		.type = TRACE_FRAME_NODES,
		.stream_id = (uint32_t)heimdallr->at + 1,
		.n = stacks->n_nodes,
		.nodes = stacks->nodes,
	};
	stacks->n_nodes = 0;
	return ret_item->n > 0;
}

static bool give_events(struct heimdallr *heimdallr, struct trace_item *ret_item)
{
	struct heimdallr_thread *thread = &heimdallr->threads[heimdallr->at];
	size_t n = 0;

	while (n < thread->n && thread->events[n].ticks <= heimdallr->commit.ticks)
		n++;
	thread->n_given = n;
	*ret_item = (struct trace_item){
		.type = TRACE_FRAME_EVENTS,
		.stream_id = (uint32_t)heimdallr->at + 1,
		.n = n,
		.events = thread->events,
	};
	heimdallr->at++;
	heimdallr->has_given_nodes = false;
	return n > 0;
}

/* The next item of the threads; false: all have had their turn. */
static bool give_threads(struct heimdallr *heimdallr, struct trace_item *ret_item)
{
	while (heimdallr->at < heimdallr->folder.n_logs) {
		bool has_item = heimdallr->has_given_nodes ? give_events(heimdallr, ret_item)
							   : give_nodes(heimdallr, ret_item);
		if (has_item)
			return true;
	}
	heimdallr->stage = GIVE_COMMIT;
	return false;
}

/* The next item of access.dat up to a time; 0: all of them were given. */
static int give_accesses(struct heimdallr *heimdallr, uint64_t until_ns, enum stage after,
			 struct trace_item *ret_item)
{
	int r = heimdallr->access ? heimdallr_access_next(heimdallr->access, until_ns, ret_item)
				  : 0;

	if (r == 0)
		heimdallr->stage = after;
	return r;
}

static int give_end(struct heimdallr *heimdallr, struct trace_item *ret_item)
{
	heimdallr->stage = GIVE_LAST_COMMIT;
	record_list_clear(&heimdallr->records);
	int r = heimdallr_end_records(heimdallr);
	if (r < 0)
		return r;
	*ret_item = record_list_item(&heimdallr->records);
	return 1;
}

static struct trace_item commit_item(struct heimdallr *heimdallr)
{
	heimdallr->damage.committed_ticks = heimdallr->commit.ticks;
	return (struct trace_item){
		.type = TRACE_FRAME_COMMIT,
		.n = 1,
		.commit = &heimdallr->commit,
	};
}

/* What is due. Returns 1 with an item, 0: look again, or a negative errno. */
static int give(struct heimdallr *heimdallr, struct trace_item *ret_item)
{
	switch ((enum stage)heimdallr->stage) {
	case GIVE_BEGIN:
		heimdallr->stage = READ_ON;
		*ret_item = record_list_item(&heimdallr->records);
		return 1;
	case READ_ON:
		return read_on(heimdallr);
	case GIVE_ACCESSES:
		return give_accesses(heimdallr, heimdallr->commit.ticks + 1, GIVE_THREADS,
				     ret_item);
	case GIVE_THREADS:
		return give_threads(heimdallr, ret_item);
	case GIVE_COMMIT:
		heimdallr->stage = READ_ON;
		*ret_item = commit_item(heimdallr);
		return 1;
	case GIVE_LAST_ACCESSES:
		return give_accesses(heimdallr, UINT64_MAX, GIVE_END, ret_item);
	case GIVE_END:
		return give_end(heimdallr, ret_item);
	case GIVE_LAST_COMMIT:
		heimdallr->stage = IS_OVER;
		heimdallr->commit.ticks = heimdallr->commit.raw_ns = heimdallr->last_ns + 1;
		*ret_item = commit_item(heimdallr);
		return 1;
	case IS_OVER:
		break;
	}
	heimdallr->damage.ended = true;
	return 0;
}

static int next_item(void *self, struct trace_item *ret_item)
{
	struct heimdallr *heimdallr = self;
	int r = 0;

	while (r == 0 && heimdallr->stage != IS_OVER)
		r = give(heimdallr, ret_item);
	return r != 0 ? r : give(heimdallr, ret_item);
}

static const struct trace_file_header *header_of(const void *self)
{
	return &((const struct heimdallr *)self)->header;
}

static const struct trace_damage *damage_of(const void *self)
{
	return &((const struct heimdallr *)self)->damage;
}

static uint64_t offset_of(const void *self)
{
	const struct heimdallr *heimdallr = self;
	uint64_t n_bytes = 0;

	for (size_t i = 0; i < heimdallr->folder.n_logs; i++)
		n_bytes += heimdallr->folder.logs[i].offset;
	return n_bytes;
}

static const struct feed_class heimdallr_class = { next_item, header_of, damage_of, offset_of,
						   close_heimdallr };

/* ---- Opening ---- */

/* Where the logs of a process end: from i on. */
static size_t end_of_process(const struct heimdallr_folder *folder, size_t i)
{
	size_t end = i;

	while (end < folder->n_logs && folder->processes[end] == folder->processes[i])
		end++;
	return end;
}

/* A program that a signal killed logged nothing at its exit. */
static int find_exits(struct heimdallr *heimdallr)
{
	struct heimdallr_folder *folder = &heimdallr->folder;
	bool was_killed = folder->usage.is_known && (folder->usage.status & 0x7f) != 0;
	int r = 0;

	heimdallr->exits = calloc(folder->n_processes, sizeof(*heimdallr->exits));
	if (!heimdallr->exits)
		return -ENOMEM;
	for (size_t i = 0, end; i < folder->n_logs && !was_killed && r == 0; i = end) {
		end = end_of_process(folder, i);
		r = heimdallr_exit_find(folder->logs + i, end - i,
					&heimdallr->exits[folder->processes[i] - 1]);
	}
	return r;
}

/* The first events of all threads: when the run began. */
static int open_threads(struct heimdallr *heimdallr)
{
	const struct heimdallr_folder *folder = &heimdallr->folder;
	size_t n_batch = MAX_EVENTS / (folder->n_logs + 1);

	heimdallr->n_batch = n_batch > MAX_EVENTS_OF_EACH ? MAX_EVENTS_OF_EACH : n_batch + 1;
	heimdallr->threads = calloc(folder->n_logs + 1, sizeof(*heimdallr->threads));
	if (!heimdallr->threads)
		return -ENOMEM;
	heimdallr->start_ns = UINT64_MAX;
	for (size_t i = 0; i < folder->n_logs; i++) {
		struct heimdallr_thread *thread = &heimdallr->threads[i];
		thread->log = &folder->logs[i];
		int r = read_thread(heimdallr, thread);
		if (r < 0)
			return r;
		if (thread->n && thread->events[0].ticks < heimdallr->start_ns)
			heimdallr->start_ns = thread->events[0].ticks;
	}
	if (heimdallr->start_ns == UINT64_MAX)
		heimdallr->start_ns = 0;
	return 0;
}

/* One that cannot be read does not keep the logs out. */
static int open_accesses(struct heimdallr *heimdallr)
{
	int r = heimdallr->folder.has_accesses
			? heimdallr_access_open(&heimdallr->folder, heimdallr->start_ns,
						&heimdallr->access)
			: 0;
	uint64_t start_ns = heimdallr->access ? heimdallr_access_start(heimdallr->access) : 0;

	heimdallr->is_bad_access = r < 0;
	if (start_ns && (start_ns < heimdallr->start_ns || heimdallr->start_ns == 0))
		heimdallr->start_ns = start_ns;
	return r == -ENOMEM ? r : 0;
}

static int open_all(struct heimdallr *heimdallr, const char *path)
{
	int r = heimdallr_folder_open(path, &heimdallr->folder);

	r = r ?: results_name(path, &heimdallr->name);
	r = r ?: find_exits(heimdallr);
	if (r < 0)
		return r;
	const char *name = heimdallr->name.run.program;
	heimdallr->program = heimdallr_program(heimdallr->folder.command, name ? name : "");
	if (!heimdallr->program)
		return -ENOMEM;
	r = heimdallr_segments_open(&heimdallr->folder, heimdallr->program, &heimdallr->segments);
	r = r ?: open_threads(heimdallr);
	r = r ?: open_accesses(heimdallr);
	return r < 0 ? r : heimdallr_begin_records(heimdallr);
}

int heimdallr_open(const char *path, struct feed *feed)
{
	struct heimdallr *heimdallr = calloc(1, sizeof(*heimdallr));
	int r = heimdallr ? open_all(heimdallr, path) : -ENOMEM;

	if (r < 0) {
		if (heimdallr)
			close_heimdallr(heimdallr);
		return r;
	}
	heimdallr->header = (struct trace_file_header){
		.machine = MACHINE_X86_64,
		.clock = RING_CLOCK_RAW,
		.ticks_per_second = 1000000000,
		.start_ticks = heimdallr->start_ns,
	};
	memcpy(heimdallr->header.recording_id, heimdallr->folder.identity,
	       sizeof(heimdallr->header.recording_id));
	feed->class = &heimdallr_class;
	feed->self = heimdallr;
	feed->file_bytes = heimdallr->folder.n_bytes;
	feed->skew_ns = HEIMDALLR_SKEW_NS;
	return 0;
}
