/* The sample at hand, from its row to its touches: begun, given accesses and owners, ended. */
#include <errno.h>

#include "analyze/samples/callchain.h"
#include "analyze/samples/samples-internal.h"

struct task_thread *sample_thread(struct samples *samples, struct sample_source *source,
				  uint32_t pid, uint32_t tid, int64_t time_ns)
{
	struct tasks *tasks = samples->context.tasks;

	if (pid == 0 || pid == UINT32_MAX)
		source->losses[SAMPLE_LOSS_UNKNOWN_PROCESS]++;
	else if (!tasks_process_at(tasks, pid, time_ns)) {
		/* No task records: it is known from here on only. */
		source->losses[SAMPLE_LOSS_UNKNOWN_PROCESS]++;
		tasks_saw_exec(tasks, pid, time_ns, "");
	}
	return tasks_thread_at(tasks, pid, tid, time_ns);
}

/* Returns 1, 0 when the program wants no samples here, or a negative errno. */
int sample_begin(struct samples *samples, struct sample_source *source,
		 const struct sample_location *place, int64_t time_ns)
{
	const struct task_thread *thread =
		sample_thread(samples, source, place->pid, place->tid, time_ns);
	const struct sample_sink *sink = &samples->context.sink;
	struct pending_sample *item = samples->item;

	if (thread && sink->collects &&
	    !sink->collects(sink->user, thread, source->kind == SAMPLE_FAULT)) {
		sample_rows_withhold(samples->rows, (uint32_t)source->row);
		sample_loops_break(&samples->loops, thread->number);
		return 0;
	}

	*item = (struct pending_sample){
		.time_ns = time_ns,
		.weight = place->weight,
		.source = (uint32_t)source->row,
		.process = thread ? thread->image->number : 0,
		.thread = thread ? thread->number : 0,
		.is_kernel = place->is_kernel,
	};
	item->space = code_store_space(samples->code, item->process, time_ns);
	if (place->stack_pointer)
		owners_saw_stack(samples->context.owners, item->thread, place->stack_pointer);

	const struct sample_code *code =
		place->is_kernel ? NULL : sample_code_at(samples, item, place->ip);
	item->frame = place->is_kernel ? stacks_kernel_frame(samples->context.stacks, place->ip)
		      : code	       ? code->frame
				       : -ENOMEM;
	item->stack = place->sample
			      ? sample_stack(samples, source, place->sample, item->process, time_ns)
			      : 0;
	if (item->frame < 0 || item->stack < 0)
		return item->frame < 0 ? (int)item->frame : (int)item->stack;
	int r = sample_rows_count(samples->rows, item);
	return r < 0 ? r : 1;
}

int sample_finish_item(struct samples *samples, struct pending_sample *item)
{
	item->row = sample_rows_next(samples->rows);
	int r = sample_loops_mix(&samples->loops, item);
	return r < 0 ? r : sample_rows_write(samples->rows, item);
}

/* Merge what can be; write it, or let it wait for the thread's next event. */
int sample_end(struct samples *samples)
{
	struct pending_sample *item = samples->item;

	item->n = sample_touches_merge(item->accesses, item->n, item->time_ns);
	if (!sample_touches_are_open(item))
		return sample_finish_item(samples, item);
	item->has_freed = owners_last_freed(samples->context.owners, item->thread, &item->freed);
	return sample_waiting_add(&samples->waiting, item);
}
