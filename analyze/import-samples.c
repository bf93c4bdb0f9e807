#include "analyze/import-internal.h"

#include "common/collect-words.h"
#include "store/heatmap/heatmap.h"

/* Between the import and the sample side: its clock, and what the aggregates need of touches. */

static int64_t from_raw(void *user, uint64_t raw_ns)
{
	struct import *import = user;

	return merge_clock_of_raw(&import->clock, raw_ns);
}

static int64_t from_ticks(void *user, uint64_t ticks)
{
	struct import *import = user;

	return merge_clock_of_ticks(&import->clock, ticks);
}

static int on_sample(void *user, const struct sample_event *taken)
{
	struct import *import = user;

	if (taken->time_ns > import->last_ns)
		import->last_ns = taken->time_ns;
	tally_sample(&import->tally, taken);
	if (taken->measures == MEASURES_FAULT)
		regions_fault(import->regions, taken->thread);
	else if (taken->measures == MEASURES_TIME)
		regions_sample(import->regions, taken->thread, taken->weight, taken->time_ns);
	int r = memory_sampled(import->memory, import->now_ns, taken);
	return r
		       ?: stack_totals_add(&import->tally.stacks, taken->measures, taken->stack,
					   taken->weight);
}

static bool is_collected(void *user, const struct task_thread *thread, bool is_fault)
{
	const struct import *import = user;

	return withheld_collects(import->withheld, thread->process, thread->number,
				 is_fault ? COLLECT_FAULTS : COLLECT_SAMPLES);
}

static int on_touch(void *user, const struct touch *touch)
{
	struct import *import = user;
	bool is_access = touch->role == TRACE_ROLE_EXACT || touch->role == TRACE_ROLE_FAULT;

	if (is_access && touch->is_resolved && touch->time_ns < import->first_access_ns)
		import->first_access_ns = touch->time_ns;
	alignment_touch(&import->tally.alignment, touch);
	int r = tally_any_touch(&import->tally, touch) ?: memory_touched(import->memory, touch);
	return r < 0 || !import->pictures ? r : picture_build_touched(import->pictures, touch);
}

static int64_t stack_of(void *user, uint32_t site)
{
	const struct import *import = user;

	return import->tally.sites[site].stack_id;
}

static int on_map(void *user, uint32_t process, const struct mapping *mapping)
{
	struct import *import = user;

	return memory_seen(import->memory, process, mapping);
}

static int on_call(void *user, uint32_t thread, const struct sample_call *call)
{
	struct import *import = user;
	int64_t text = texts_number(&import->texts, call->name_id);
	const struct region_call met = {
		.text = (uint32_t)text,
		.slot = call->slot,
		.time_ns = call->time_ns,
		.is_probed = true,
		.taken_ns = call->taken_ns,
	};
	int r = text < 0 ? (int)text : 0;

	if (call->time_ns > import->last_ns)
		import->last_ns = call->time_ns;
	if (r == 0 && call->what != TRACE_PROBED_LEAVE)
		r = regions_enter(import->regions, thread, &met);
	if (r == 0 && call->what != TRACE_PROBED_ENTER)
		r = regions_leave(import->regions, thread, &met);
	return r;
}

static int on_loss(void *user, const char *source, const char *reason, uint64_t count)
{
	struct import *import = user;

	return losses_count(&import->losses, source, reason, count);
}

int import_open_samples(struct import *import)
{
	struct owner_memory answers = memory_answers(import->memory);

	int r = globals_create(db_handle(import->db), import->objects, &import->globals);
	if (r == 0)
		r = owners_create(import->tasks, import->modules, import->globals, &answers,
				  &import->owners);
	if (r < 0)
		return r;

	struct sample_context context = {
		.db = import->db,
		.run_id = import->run_id,
		.tasks = import->tasks,
		.modules = import->modules,
		.thunks = &import->thunks,
		.stacks = import->stacks,
		.owners = import->owners,
		.clock = { import, from_raw, from_ticks },
		.sink = { import, on_sample, is_collected, on_touch, stack_of, on_map, on_call,
			  on_loss },
		.trace_path = import->options->growing ? NULL : import->path,
		.machine = feed_header(&import->feed)->machine,
		.estimators = import->options->estimators,
	};
	r = samples_create(&context, &import->samples);
	if (r < 0)
		return r;
	import->next_sample_ns = samples_next_ns(import->samples);
	import->n_waiting_samples = samples_n_waiting(import->samples);
	return 0;
}
