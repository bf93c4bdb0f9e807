/*
 * Which events are left of what was before a cut: those of memory that is still there. Events of
 * several threads come in no order: the last one by its time counts, at each address.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/address-ranges.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "trace/cut-internal.h"

#define NEAR_BYTES 8192u /* of two calls on a stack */

#define PAGE_BYTES UINT64_C(4096)
/* A free may be stamped so much before the allocation that it ends: analyze/input/merge.h. */
#define SKEW_PER_SECOND 100000u

/* ---- Events ---- */

static int add_event(struct cut *cut, uint32_t thread, const struct trace_event *event,
		     uint32_t *ret_number)
{
	uint32_t place = cut->free_event;

	if (place) {
		cut->free_event = cut->events[place - 1].next_free;
	} else {
		if (cut->n_events == UINT32_MAX - 1 ||
		    grow_one(&cut->events, cut->n_events, &cut->n_events_allocated) < 0)
			return -ENOMEM;
		place = (uint32_t)++cut->n_events;
	}
	cut->events[place - 1] = (struct cut_event){
		.event = *event,
		.order = cut->order,
		.thread = thread + 1,
	};
	*ret_number = place;
	return 0;
}

/* What is stamped behind the cut stays, whatever it is: it may be nearly all that a segment has. */
static int add_late(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	if (grow_one(&cut->late, cut->n_late, &cut->n_late_allocated) < 0)
		return -ENOMEM;
	cut->late[cut->n_late++] = (struct cut_event){
		.event = *event,
		.order = cut->order,
		.thread = thread + 1,
		.is_kept = true,
	};
	cut->threads[thread].is_kept = true;
	return 0;
}

static void drop_event(struct cut *cut, uint32_t *number)
{
	if (*number == 0)
		return;
	struct cut_event *event = &cut->events[*number - 1];
	event->thread = 0;
	event->next_free = cut->free_event;
	cut->free_event = *number;
	*number = 0;
}

static struct cut_event *event_of(const struct cut *cut, uint32_t number)
{
	return number ? &cut->events[number - 1] : NULL;
}

static void keep(struct cut *cut, uint32_t number)
{
	if (number)
		cut->events[number - 1].is_kept = true;
}

static struct cut_process *process_of(const struct cut *cut, uint32_t thread)
{
	return &cut->processes[cut->threads[thread].process];
}

static void list_remove(struct cut *cut, struct cut_list *list, size_t at)
{
	drop_event(cut, &list->items[at]);
	list->n--;
	memmove(list->items + at, list->items + at + 1, (list->n - at) * sizeof(*list->items));
}

/* ---- Blocks ---- */

static struct cut_place *get_place(struct cut *cut, uint32_t process, uint64_t address)
{
	return key_map_item(&cut->places_by_address, address, process, cut->places, cut->n_places,
			    cut->n_places_allocated, (struct cut_place){ .process = process });
}

static bool has_forked(const struct cut_process *process, uint64_t from, uint64_t to,
		       const struct cut *needed_in)
{
	for (size_t i = 0; i < process->n_forks; i++) {
		const struct cut_fork *fork = &process->forks[i];

		if (from <= fork->ticks && fork->ticks <= to &&
		    (!needed_in || needed_in->processes[fork->child].is_needed))
			return true;
	}
	return false;
}

/* The block of a place ends; a process that was forked while it lived has it yet. */
static int end_block(struct cut *cut, struct cut_place *place, uint32_t thread,
		     const struct trace_event *end)
{
	const struct cut_process *process = &cut->processes[place->process];
	struct cut_ghost ghost = { .birth = place->birth, .process = place->process };
	int r = 0;

	drop_event(cut, &place->name);
	if (!has_forked(process, event_of(cut, place->birth)->event.ticks, end->ticks, NULL)) {
		drop_event(cut, &place->birth);
		return 0;
	}
	place->birth = 0;
	r = add_event(cut, thread, end, &ghost.end);
	r = r ?: grow_one(&cut->ghosts, cut->n_ghosts, &cut->n_ghosts_allocated);
	if (r == 0)
		cut->ghosts[cut->n_ghosts++] = ghost;
	return r;
}

/* An end of memory at an address, as if by free. */
static struct trace_event end_event(const struct trace_event *event, uint64_t address,
				    uint64_t ticks)
{
	return (struct trace_event){
		.op = TRACE_OP_FREE,
		.call = event->op == TRACE_OP_ALLOC ? TRACE_CALL_FREE : event->call,
		.flags = event->flags,
		.stack_id = event->stack_id,
		.ticks = ticks,
		.begin_ticks = ticks,
		.address = address,
	};
}

static int take_birth(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct cut_place *place = get_place(cut, cut->threads[thread].process, event->address);
	int r = 0;

	if (!place)
		return -ENOMEM;
	place->balance++;
	const struct cut_event *before = event_of(cut, place->birth);
	if (before ? before->event.ticks > event->ticks : event->ticks < place->end_ticks)
		return 0; /* its end was seen, or another one was born there since */
	if (before) {
		const struct trace_event end = end_event(event, event->address, event->ticks);

		r = end_block(cut, place, thread, &end);
	}
	if (place->name && event_of(cut, place->name)->event.ticks < event->ticks)
		drop_event(cut, &place->name);
	return r < 0 ? r : add_event(cut, thread, event, &place->birth);
}

/* A process that was forked ends what it has from its parent. */
static int keep_first_end(struct cut *cut, struct cut_place *place, uint32_t thread,
			  const struct trace_event *end)
{
	const struct cut_event *first = event_of(cut, place->first_end);

	if (!cut->processes[place->process].is_fork || (first && first->event.ticks <= end->ticks))
		return 0;
	drop_event(cut, &place->first_end);
	return add_event(cut, thread, end, &place->first_end);
}

static int take_end(struct cut *cut, uint32_t thread, const struct trace_event *end)
{
	struct cut_place *place = get_place(cut, cut->threads[thread].process, end->address);

	if (!place)
		return -ENOMEM;
	place->balance--;
	const struct cut_event *before = event_of(cut, place->birth);
	bool is_matched = before && before->event.ticks <= end->ticks;
	if (place->end_ticks < end->ticks && (!is_matched || place->end_ticks)) {
		place->end_ticks = end->ticks;
		place->end_thread = thread;
	}
	int r = is_matched ? end_block(cut, place, thread, end) : 0;
	return r < 0 || before ? r : keep_first_end(cut, place, thread, end);
}

static int take_realloc(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct trace_event birth = *event;
	int r = 0;

	if (event->old_address) {
		const struct trace_event end =
			end_event(event, event->old_address, event->begin_ticks);
		r = take_end(cut, thread, &end);
	}
	birth.old_address = 0; /* it is gone */
	birth.begin_ticks = birth.ticks;
	return r < 0 ? r : take_birth(cut, thread, &birth);
}

/* Of a free that was stamped just before the allocation in another thread that it ends. */
static bool has_ended_early(const struct cut *cut, const struct cut_place *place)
{
	const struct cut_event *birth = event_of(cut, place->birth);
	uint64_t per_second = trace_reader_header(cut->reader)->ticks_per_second;
	uint64_t skew = (per_second ? per_second : UINT64_C(1000000000)) / SKEW_PER_SECOND;

	return place->end_ticks && !cut->lacks_births &&
	       place->balance + (place->first_end != 0) <= 0 &&
	       place->end_thread + 1 != birth->thread &&
	       birth->event.ticks - place->end_ticks <= skew;
}

static void decide_blocks(struct cut *cut)
{
	for (size_t i = 0; i < cut->n_places; i++) {
		struct cut_place *place = &cut->places[i];

		if (!cut->processes[place->process].is_needed)
			continue;
		keep(cut, place->first_end);
		keep(cut, place->name);
		if (place->birth && !has_ended_early(cut, place))
			keep(cut, place->birth);
	}
	for (size_t i = 0; i < cut->n_ghosts; i++) {
		const struct cut_ghost *ghost = &cut->ghosts[i];

		if (!has_forked(&cut->processes[ghost->process],
				event_of(cut, ghost->birth)->event.ticks,
				event_of(cut, ghost->end)->event.ticks, cut))
			continue;
		keep(cut, ghost->birth);
		keep(cut, ghost->end);
	}
}

/* ---- Mappings ---- */

static int add_map(struct cut *cut, struct cut_process *process, const struct cut_map *map)
{
	if (map->start >= map->end)
		return 0;
	if (grow_one(&process->maps, process->n_maps, &process->n_maps_allocated) < 0)
		return -ENOMEM;
	process->maps[process->n_maps] = *map;
	process->maps[process->n_maps++].order = cut->order;
	return 0;
}

int cut_mapping(struct cut *cut, uint32_t record, const struct trace_mapping *mapping)
{
	struct cut_process *process = cut_find_process(cut, mapping->process_id);
	const struct cut_map map = {
		.ticks = mapping->ticks,
		.start = mapping->start,
		.end = mapping->start + mapping->size,
		.detail = mapping->prot | (uint64_t)mapping->flags << 32,
		.record = record,
	};

	return process ? add_map(cut, process, &map) : 0;
}

/* As far as pairs of both clocks are there: far from them it is off by some ms at most. */
static uint64_t to_ticks(const struct cut *cut, uint64_t raw_ns)
{
	size_t n = array_n_until(cut->clocks, cut->n_clocks, raw_ns, raw_ns);

	if (cut->n_clocks < 2)
		return cut->n_clocks && raw_ns >= cut->clocks[0].raw_ns ? cut->options->commit.ticks
									: 0;
	n = n == 0 ? 1 : n < cut->n_clocks ? n : cut->n_clocks - 1;
	const struct trace_clock *a = &cut->clocks[n - 1];
	const struct trace_clock *b = &cut->clocks[n];
	if (b->raw_ns <= a->raw_ns)
		return a->ticks;
	return a->ticks +
	       (uint64_t)(int64_t)(((double)raw_ns - (double)a->raw_ns) *
				   (double)(b->ticks - a->ticks) / (double)(b->raw_ns - a->raw_ns));
}

int cut_seen_map(struct cut *cut, uint32_t process, uint32_t perf)
{
	const struct cut_perf *seen = &cut->perfs[perf - 1];
	const struct cut_map map = {
		.ticks = to_ticks(cut, seen->time_ns),
		.start = seen->start,
		.end = seen->end,
		.perf = perf,
	};

	return add_map(cut, &cut->processes[process], &map);
}

static uint64_t round_up(uint64_t address)
{
	return (address + PAGE_BYTES - 1) & -PAGE_BYTES;
}

/* shmdt says where the segment began, and not how much of it there is. */
static uint64_t end_of_segment(const struct cut_process *process, uint64_t address)
{
	for (size_t i = process->n_maps; i-- > 0;)
		if (process->maps[i].is_segment && process->maps[i].start == address)
			return process->maps[i].end;
	return address;
}

static int add_map_event(struct cut *cut, uint32_t thread, const struct trace_event *event,
			 struct cut_map *map)
{
	int r = add_event(cut, thread, event, &map->event);

	map->ticks = event->ticks;
	map->detail = event->detail;
	return r < 0 ? r : add_map(cut, process_of(cut, thread), map);
}

/* What is moved ends at one place and begins at another. */
static int take_move(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct trace_event begin = *event, end = *event;
	struct cut_map to = {
		.start = event->address,
		.end = event->address + event->size,
		.from_start = event->old_address,
		.from_end = event->old_address + event->old_size,
	};
	struct cut_map from = { .start = to.from_start, .end = to.from_end, .is_end = true };

	end.op = TRACE_OP_MUNMAP;
	end.address = event->old_address;
	end.size = event->old_size;
	begin.op = TRACE_OP_MMAP;
	begin.old_address = begin.old_size = end.old_address = end.old_size = 0;
	int r = add_map_event(cut, thread, &end, &from);
	cut->order++;
	return r < 0 ? r : add_map_event(cut, thread, &begin, &to);
}

static int take_break(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct cut_map map = {
		.start = round_up(event->old_address),
		.end = round_up(event->address),
	};

	if (event->address < event->old_address)
		map = (struct cut_map){ .start = map.end, .end = map.start, .is_end = true };
	return add_map_event(cut, thread, event, &map);
}

static int take_map(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct cut_map map = {
		.start = event->address,
		.end = event->address + event->size,
		.is_end = event->op == TRACE_OP_MUNMAP,
		.is_segment = event->call == TRACE_CALL_SHMAT,
	};

	if (event->call == TRACE_CALL_SHMDT)
		map.end = end_of_segment(process_of(cut, thread), event->address);
	return add_map_event(cut, thread, event, &map);
}

DEFINE_ORDER(compare_maps, struct cut_map, BY(ticks) ?: BY(order));

static bool ranges_cover(const struct ranges *ranges, uint64_t start, uint64_t end)
{
	size_t n = array_n_until(ranges->items, ranges->n, start, start);

	return n > 0 && ranges->items[n - 1].end >= end;
}

static bool ranges_meet(const struct ranges *ranges, uint64_t start, uint64_t end)
{
	size_t n = array_n_until(ranges->items, ranges->n, start, start);

	return (n > 0 && ranges->items[n - 1].end > start) ||
	       (n < ranges->n && ranges->items[n].start < end);
}

/* What is taken away, or mapped anew, later than a map: by calls, and as far as perf saw it. */
struct gone {
	struct ranges by_calls;
	struct ranges seen;
};

static void forget_gone(struct gone *gone)
{
	ranges_finish(&gone->by_calls);
	ranges_finish(&gone->seen);
	*gone = (struct gone){ 0 };
}

/*
 * From the last to the first. The kernel shows neighbours as one: a map that perf saw may lie over
 * those of calls, and does not end them. A forked process that is needed has what was there when it
 * was forked.
 */
static int decide_mapped(const struct cut *cut, struct cut_process *process)
{
	struct gone gone = { 0 };
	uint64_t until = UINT64_MAX;
	int r = 0;

	for (size_t i = process->n_maps; r == 0 && i-- > 0;) {
		struct cut_map *map = &process->maps[i];

		if (has_forked(process, map->ticks, until, cut))
			forget_gone(&gone);
		until = map->ticks ? map->ticks - 1 : 0;
		map->is_kept = !map->is_end &&
			       !ranges_cover(&gone.by_calls, map->start, map->end) &&
			       !(map->perf && ranges_cover(&gone.seen, map->start, map->end));
		r = ranges_add(map->perf ? &gone.seen : &gone.by_calls, map->start, map->end);
	}
	forget_gone(&gone);
	return r;
}

static int add_kept(struct ranges *there, const struct cut_process *process)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < process->n_maps; i++)
		if (process->maps[i].is_kept && !process->maps[i].is_end)
			r = ranges_add(there, process->maps[i].start, process->maps[i].end);
	return r;
}

/* From the first to the last: what takes part of a kept one away is kept. */
static int decide_unmapped(const struct cut *cut, struct cut_process *process)
{
	const struct cut_process *parent = process;
	struct ranges there = { 0 };
	int r = 0;

	while (r == 0 && parent->is_fork && (parent = cut_find_process(cut, parent->parent)))
		r = add_kept(&there, parent);
	for (size_t i = 0; r == 0 && i < process->n_maps; i++) {
		struct cut_map *map = &process->maps[i];

		if (map->is_end)
			map->is_kept = ranges_meet(&there, map->start, map->end);
		else if (map->is_kept)
			r = ranges_add(&there, map->start, map->end);
	}
	ranges_finish(&there);
	return r;
}

/* What was moved is what it was. */
static void keep_detail(struct cut *cut, const struct cut_process *process, size_t at)
{
	struct cut_map *map = &process->maps[at];

	while (at-- > 0) {
		const struct cut_map *before = &process->maps[at];

		if (before->is_end || before->perf || before->start >= map->from_end ||
		    map->from_start >= before->end)
			continue;
		map->detail = cut->events[map->event - 1].event.detail = before->detail;
		return;
	}
}

static int decide_maps(struct cut *cut, struct cut_process *process)
{
	if (process->n_maps == 0 || !process->is_needed)
		return 0;
	qsort(process->maps, process->n_maps, sizeof(*process->maps), compare_maps);
	int r = decide_mapped(cut, process) ?: decide_unmapped(cut, process);
	for (size_t i = 0; r == 0 && i < process->n_maps; i++) {
		const struct cut_map *map = &process->maps[i];

		if (map->from_end)
			keep_detail(cut, process, i);
		if (map->record)
			cut->records[map->record - 1].is_dropped = !map->is_kept;
		if (map->perf)
			cut->perfs[map->perf - 1].is_dropped = !map->is_kept;
		if (map->perf && map->is_kept)
			cut_keep_tid(cut, cut->perfs[map->perf - 1].tid);
		if (map->event)
			cut->events[map->event - 1].is_kept = map->is_kept;
	}
	return r;
}

/* ---- What the program says ---- */

/* The last one that an end is of; n: there is none. */
static size_t find_begin(const struct cut *cut, const struct cut_list *list, uint32_t thread,
			 const struct trace_event *end)
{
	for (size_t i = list->n; i-- > 0;) {
		const struct cut_event *begin = event_of(cut, list->items[i]);
		bool is_same = begin->event.op == TRACE_OP_NOTE &&
			       begin->event.call == TRACE_CALL_COLLECT_PUSH;

		if (end->op == TRACE_OP_RESUME)
			is_same = begin->event.op == TRACE_OP_PAUSE &&
				  (begin->event.detail & 1) == (end->detail & 1) &&
				  (!(end->detail & 1) || begin->thread == thread + 1);
		else if (end->call == TRACE_CALL_REGION_POP)
			is_same = begin->event.call == TRACE_CALL_REGION_PUSH &&
				  (end->detail == 0 || begin->event.detail == end->detail);
		else if (end->call == TRACE_CALL_FUNCTION_LEAVE)
			is_same = begin->event.call == TRACE_CALL_FUNCTION_ENTER &&
				  begin->event.address == end->address;
		if (is_same)
			return i;
	}
	return list->n;
}

static int take_begin(struct cut *cut, struct cut_list *list, uint32_t thread,
		      const struct trace_event *event)
{
	uint32_t number;
	int r = add_event(cut, thread, event, &number);

	return r < 0 ? r : array_add(list->items, list->n, list->n_allocated, number);
}

static int take_end_of(struct cut *cut, struct cut_list *list, uint32_t thread,
		       const struct trace_event *event)
{
	size_t at = find_begin(cut, list, thread, event);

	if (at < list->n)
		list_remove(cut, list, at);
	return 0;
}

/* What was called from near below is over: it was left by an exception or longjmp. */
static int take_call(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct cut_list *regions = &cut->threads[thread].regions;

	for (size_t i = regions->n; i-- > 0;) {
		const struct trace_event *before = &event_of(cut, regions->items[i])->event;

		if (before->call != TRACE_CALL_FUNCTION_ENTER ||
		    event->address - before->address >= NEAR_BYTES)
			break;
		list_remove(cut, regions, i);
	}
	return take_begin(cut, regions, thread, event);
}

/* It is used in samples from then on to the process's end. */
static int take_thunk(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	uint32_t number;
	int r = add_event(cut, thread, event, &number);

	if (r == 0)
		keep(cut, number);
	return r;
}

static int take_name(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct cut_place *place = get_place(cut, cut->threads[thread].process, event->address);

	if (!place)
		return -ENOMEM;
	drop_event(cut, &place->name);
	return add_event(cut, thread, event, &place->name);
}

static int take_note(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct cut_list *regions = &cut->threads[thread].regions;
	struct cut_list *pauses = &process_of(cut, thread)->pauses;

	switch (event->call) {
	case TRACE_CALL_REGION_PUSH:
		return take_begin(cut, regions, thread, event);
	case TRACE_CALL_REGION_POP:
		return take_end_of(cut, regions, thread, event);
	case TRACE_CALL_COLLECT_PUSH:
		cut->lacks_births = true;
		return take_begin(cut, pauses, thread, event);
	case TRACE_CALL_COLLECT_POP:
		return take_end_of(cut, pauses, thread, event);
	case TRACE_CALL_NAME_OBJECT:
		return take_name(cut, thread, event);
	case TRACE_CALL_FUNCTION_ENTER:
		return take_call(cut, thread, event);
	case TRACE_CALL_FUNCTION_LEAVE:
		return take_end_of(cut, regions, thread, event);
	case TRACE_CALL_FUNCTION_THUNK:
		return take_thunk(cut, thread, event);
	default: /* a mark is of its moment */
		return 0;
	}
}

static int take_pause(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	struct cut_list *pauses = &process_of(cut, thread)->pauses;

	cut->lacks_births = true;
	return event->op == TRACE_OP_PAUSE ? take_begin(cut, pauses, thread, event)
					   : take_end_of(cut, pauses, thread, event);
}

static void decide_notes(struct cut *cut)
{
	for (size_t i = 0; i < cut->n_processes; i++) {
		const struct cut_process *process = &cut->processes[i];

		for (size_t k = 0; process->is_needed && k < process->pauses.n; k++) {
			const struct cut_event *pause = event_of(cut, process->pauses.items[k]);

			if (pause->event.op != TRACE_OP_PAUSE || !(pause->event.detail & 1) ||
			    !cut->threads[pause->thread - 1].has_ended)
				keep(cut, process->pauses.items[k]);
		}
	}
	for (size_t i = 0; i < cut->n_threads; i++) {
		const struct cut_thread *thread = &cut->threads[i];

		for (size_t k = 0; !thread->has_ended && k < thread->regions.n; k++)
			keep(cut, thread->regions.items[k]);
	}
}

/* ---- All of them ---- */

int cut_event(struct cut *cut, uint32_t thread, const struct trace_event *event)
{
	cut->order++;
	if (event->ticks >= cut->options->commit.ticks)
		return add_late(cut, thread, event);
	cut->n_read_events++;
	switch (event->op) {
	case TRACE_OP_ALLOC:
		return take_birth(cut, thread, event);
	case TRACE_OP_FREE:
		return take_end(cut, thread, event);
	case TRACE_OP_REALLOC:
		return take_realloc(cut, thread, event);
	case TRACE_OP_MMAP:
	case TRACE_OP_MUNMAP:
		return take_map(cut, thread, event);
	case TRACE_OP_MREMAP:
		return take_move(cut, thread, event);
	case TRACE_OP_BREAK:
		return take_break(cut, thread, event);
	case TRACE_OP_PAUSE:
	case TRACE_OP_RESUME:
		return take_pause(cut, thread, event);
	case TRACE_OP_NOTE:
		return take_note(cut, thread, event);
	default: /* advice, protection, locks: nothing that comes later needs them */
		return 0;
	}
}

int cut_decide_events(struct cut *cut)
{
	int r = 0;

	decide_blocks(cut);
	decide_notes(cut);
	for (size_t i = 0; r == 0 && i < cut->n_processes; i++)
		r = decide_maps(cut, &cut->processes[i]);
	for (size_t i = 0; i < cut->n_events; i++) {
		const struct cut_event *event = &cut->events[i];

		if (event->thread && event->is_kept)
			cut->threads[event->thread - 1].is_kept = true;
	}
	return r;
}

DEFINE_ORDER(compare_events, struct cut_event *, ORDER((*a)->order, (*b)->order));

/* Those before the cut and those behind it, by their place in the file. */
int cut_write_events(struct cut *cut)
{
	const struct cut_event **kept = calloc(cut->n_events + 1, sizeof(*kept));
	size_t n = 0, at = 0, n_written = 0;
	int r = kept ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < cut->n_events; i++)
		if (cut->events[i].thread && cut->events[i].is_kept)
			kept[n++] = &cut->events[i];
	if (r == 0)
		qsort(kept, n, sizeof(*kept), compare_events);
	cut->n_kept_events = n;
	while (r == 0 && (at < n || n_written < cut->n_late)) {
		bool is_late = at == n || (n_written < cut->n_late &&
					   cut->late[n_written].order < kept[at]->order);
		const struct cut_event *event = is_late ? &cut->late[n_written++] : kept[at++];

		r = trace_writer_event(cut->writer, cut->threads[event->thread - 1].id,
				       &event->event);
	}
	free(kept);
	return r;
}

void cut_finish_memory(struct cut *cut)
{
	free_all(cut->events, cut->late, cut->places, cut->ghosts);
	key_map_finish(&cut->places_by_address);
	for (size_t i = 0; i < cut->n_processes; i++) {
		free_all(cut->processes[i].maps, cut->processes[i].forks,
			 cut->processes[i].pauses.items);
	}
	for (size_t i = 0; i < cut->n_threads; i++) {
		free_all(cut->threads[i].regions.items, cut->threads[i].nodes);
	}
}
