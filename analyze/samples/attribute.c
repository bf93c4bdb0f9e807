/* From a perf sample to its rows: who was it, what did it touch, whose is that. */
#include <errno.h>
#include <linux/perf_event.h>

#include "analyze/samples/callchain.h"
#include "analyze/samples/samples-internal.h"
#include "decode/hardware/sample-input.h"

/* Shares are floats in decode/: what is missing below this is rounding. */
#define SHARE_EPSILON 1e-4

/* Whether a source's samples are writes, when all of them are of one kind; -1: they are not. */
static int8_t direction_of(const struct sample_source *source)
{
	switch (source->direction) {
	case TRACE_DIRECTION_LOADS:
		return 0;
	case TRACE_DIRECTION_STORES:
		return 1;
	default:
		return -1;
	}
}

/* Where user memory ends on all our machines: what is above belongs to the kernel. */
#define FIRST_KERNEL_ADDRESS (UINT64_C(1) << 63)

/* Addresses that say nothing about the program's memory: counted, and charged to nobody else. */
static bool is_no_address(struct sample_source *source, uint64_t address)
{
	if (address != 0 && address < FIRST_KERNEL_ADDRESS)
		return false;
	source->losses[address ? SAMPLE_LOSS_ADDRESS_KERNEL : SAMPLE_LOSS_ADDRESS_ZERO]++;
	return true;
}

static int add_addressed(struct samples *samples, struct sample_source *source,
			 const struct pmu_sample *sample, enum trace_role role)
{
	struct pending_sample *item = samples->item;
	struct sample_access access = {
		.role = role,
		.share = 1,
		.address = sample->address,
		.size = -1,
		.is_write = direction_of(source),
		.is_resolved = true,
		.ip = sample->ip,
		.data_src = (int64_t)sample->data_src,
	};

	if (is_no_address(source, sample->address)) {
		sample_add_plain(item, role, sample->address ? OWNER_kernel : OWNER_unknown, 1);
		return 0;
	}
	struct sample_code *code = sample_code_at(samples, item, sample->ip);
	if (!code)
		return -ENOMEM;
	instruction_owners_fetch(&samples->instructions, code->seen);
	int r = sample_find_owner(samples, item, &access);
	if (r == 0)
		sample_add_access(item, &access);
	if (r == 0 && role == TRACE_ROLE_FAULT && access.frame && !access.is_open &&
	    access.owner.kind != OWNER_unknown)
		r = instruction_owners_fault(&samples->instructions, access.frame, &access.owner,
					     &code->seen);
	return r;
}

static int add_touches(struct samples *samples, struct sample_source *source,
		       const struct pmu_record *record)
{
	const struct pmu_sample *sample = &record->sample;

	switch (source->kind) {
	case SAMPLE_FAULT:
		return add_addressed(samples, source, sample, TRACE_ROLE_FAULT);
	case SAMPLE_ADDRESS:
	case SAMPLE_IBS:
		return sample_add_hardware_record(samples, source, sample);
	case SAMPLE_CLOCK:
		return sample_clock_add(samples, source, record);
	default:
		sample_add_plain(samples->item, TRACE_ROLE_WINDOW,
				 record->is_kernel ? OWNER_kernel : OWNER_unknown, 1);
		return 0;
	}
}

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
		.has_registers = decode_take_registers(sample, &input),
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
static int sample_attribute_watch(struct samples *samples, struct sample_source *source,
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

/* No sample: there is no row of it. */
static int sample_take_call(struct samples *samples, struct sample_source *source,
			    const struct pmu_record *record, int64_t time_ns)
{
	const struct sample_sink *sink = &samples->context.sink;
	struct trace_probed probed = { 0 };

	if (record->sample.raw_bytes < TRACE_PROBED_BYTES) {
		source->losses[SAMPLE_LOSS_BAD_RECORD]++;
		return 0;
	}
	memcpy(&probed, record->sample.raw, TRACE_PROBED_BYTES);
	const struct task_thread *thread =
		sample_thread(samples, source, record->origin.pid, record->origin.tid, time_ns);
	if (!thread || (probed.what & TRACE_PROBED_WHAT) >= TRACE_PROBED_COUNT || !sink->call)
		return 0;
	return sink->call(sink->user, thread->number,
			  &(struct sample_call){
				  .what = probed.what & TRACE_PROBED_WHAT,
				  .name_id = probed.name_id,
				  .slot = probed.slot,
				  .time_ns = time_ns,
				  .taken_ns = probed.what >> 2,
			  });
}

int sample_attribute(struct samples *samples, struct sample_source *source,
		     const struct pmu_record *record, int64_t time_ns, uint32_t node_number)
{
	const struct sample_origin origin = { record->origin.time_ns, record->origin.cpu,
					      record->origin.tid, record->sample.period };
	struct sample_location place = {
		.pid = record->origin.pid,
		.tid = record->origin.tid,
		.ip = record->sample.ip,
		.weight = origin.carried ? (int64_t)sample_turns_weight(&source->turns, &origin)
					 : source->period,
		.is_kernel = record->is_kernel,
		.sample = &record->sample,
	};

	pmu_sample_stack_pointer(&record->sample, &place.stack_pointer);
	if (source->kind == SAMPLE_CALLS)
		return sample_take_call(samples, source, record, time_ns);
	if (source->kind == SAMPLE_WATCH)
		return sample_attribute_watch(samples, source, record, time_ns);
	int r = sample_begin(samples, source, &place, time_ns);
	if (r <= 0)
		return r;
	samples->item->detail.node_number = node_number;
	r = add_touches(samples, source, record);
	return r < 0 ? r : sample_end(samples);
}

static int add_private(struct samples *samples, const struct trace_access *from)
{
	struct pending_sample *item = samples->item;
	struct sample_access access = {
		.role = from->role,
		.share = (double)from->share,
		.address = from->address,
		.size = from->size ? (int64_t)from->size : -1,
		.is_write = from->role == TRACE_ROLE_FAULT ? -1 : (int8_t)(from->is_write != 0),
		.is_resolved = true,
		.ip = from->ip,
		.data_src = (int64_t)from->data_src,
	};

	int r = sample_find_owner(samples, item, &access);
	if (r == 0)
		sample_add_access(item, &access);
	return r;
}

/* What the accesses leave of a role's whole: not resolved. */
static void add_rest(struct pending_sample *item, enum trace_role role, bool is_needed)
{
	double sum = 0;
	bool is_there = is_needed;

	for (size_t i = 0; i < item->n; i++) {
		if (item->accesses[i].role == role) {
			sum += item->accesses[i].share;
			is_there = true;
		}
	}
	if (is_there && sum < 1 - SHARE_EPSILON)
		sample_add_plain(item, role, OWNER_unknown, 1 - sum);
}

int sample_attribute_private(struct samples *samples, struct sample_source *source,
			     const struct trace_access *accesses, size_t n, int64_t time_ns)
{
	struct sample_location place = {
		.pid = accesses->pid,
		.tid = accesses->tid,
		.ip = accesses->sample_ip ? accesses->sample_ip : accesses->ip,
		.weight = source->period,
	};
	for (size_t i = 0; i < n; i++) {
		if (accesses[i].role == TRACE_ROLE_STACK_POINTER)
			place.stack_pointer = accesses[i].address;
	}
	int r = sample_begin(samples, source, &place, time_ns);
	if (r <= 0)
		return r;
	r = 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		bool is_access =
			accesses[i].role < TRACE_ROLE_NONE || accesses[i].role == TRACE_ROLE_MIX;

		if (is_access && accesses[i].share > 0)
			r = add_private(samples, &accesses[i]);
	}
	if (r < 0)
		return r;
	add_rest(samples->item, TRACE_ROLE_EXACT, false);
	add_rest(samples->item, TRACE_ROLE_STALL, source->kind == SAMPLE_CLOCK);
	add_rest(samples->item, TRACE_ROLE_MIX, false);
	add_rest(samples->item, TRACE_ROLE_FAULT, source->kind == SAMPLE_FAULT);
	add_rest(samples->item, TRACE_ROLE_WINDOW, source->kind == SAMPLE_CLOCK);
	return sample_end(samples);
}

/* ---- From a trap of a debug register to its rows: what record --watch saw ---- */
