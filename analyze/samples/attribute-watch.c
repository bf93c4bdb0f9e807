/* From a trap of a debug register to its rows: what record --watch saw. */
#include <errno.h>

#include "analyze/samples/samples-internal.h"

/* Who accessed watched bytes, and how; the instruction lies before the ip. */
static int add_watched(struct samples *samples, const struct pmu_sample *sample,
		       struct watch_entry *entry)
{
	const struct decode_memory memory = { .code = code_store_code, .user = samples->code };
	struct pending_sample *item = samples->item;
	const struct task_thread *thread = tasks_thread(samples->context.tasks, item->thread);
	struct decode_sample input = {
		.ip = sample->ip,
		.fs_base = thread ? thread->fs_base : 0,
		.process = item->space,
		.time = (uint64_t)item->time_ns,
	};
	struct decode_before_cache *cache = watch_log_cache(samples->watch_log);
	struct decode_before what;
	const struct decode_trap trap = {
		.memory = &memory,
		.sample = &input,
		.has_registers = sample_take_registers(sample, &input),
		.address = watch_entry_address(entry),
		.n_bytes = watch_entry_bytes(entry),
	};

	if (!cache)
		return -ENOMEM;
	decode_before(cache, &trap, &what);

	struct sample_access access = {
		.role = TRACE_ROLE_EXACT,
		.share = 1,
		.address = sample->address,
		.size = what.size ? (int64_t)what.size : -1,
		.is_write = what.ip ? (int8_t)what.is_write : -1,
		.is_resolved = true,
		.ip = what.ip ? what.ip : sample->ip - 1,
	};
	int r = sample_find_owner(samples, item, &access);
	if (r == 0)
		r = watch_entry_count(entry, item->time_ns, thread ? thread->row : 0, &what);
	if (r < 0)
		return r;
	watch_entry_own(entry, (int)access.owner.kind, access.owner.id);
	sample_add_access(item, &access);
	return 0;
}

/*
 * A trap of a debug register. Its instruction ends where ip says: the place is inside of it, but
 * for a call or jump through memory.
 */
int sample_attribute_watch(struct samples *samples, struct sample_source *source,
			   const struct pmu_record *record, int64_t time_ns)
{
	const struct pmu_sample *sample = &record->sample;
	const struct task_process *process =
		tasks_process_at(samples->context.tasks, record->origin.pid, time_ns);
	const struct watch_trap trap = {
		.time_ns = time_ns,
		.address = sample->address,
		.ip = sample->ip,
		.process = process ? process->number : 0,
		.tid = record->origin.tid,
		.registers = sample->regs,
		.n_registers = sample->regs ? (size_t)__builtin_popcountll(sample->regs_mask) : 0,
	};
	const struct sample_location place = {
		.pid = record->origin.pid,
		.tid = record->origin.tid,
		.ip = sample->ip - 1,
		.weight = 1,
		.is_kernel = record->is_kernel,
	};
	struct watch_entry *entry = watch_log_take(samples->watch_log, &trap);
	int r = entry ? sample_begin(samples, source, &place, time_ns) : 0;

	if (r <= 0)
		return r;
	r = add_watched(samples, sample, entry);
	return r < 0 ? r : sample_end(samples);
}
