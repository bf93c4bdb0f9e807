/*
 * What a sample of time and registers says: the accesses of the instruction itself, the division of
 * its time, what was waited for, and the accesses of its loop.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "analyze/samples-internal.h"

#define SYSCALL_BYTES 2u

bool sample_take_registers(const struct pmu_sample *sample, struct decode_sample *ret)
{
	if (!pmu_sample_is_x86(sample))
		return false;
	if (sample->regs_mask == DECODE_REGS_MASK) {
		memcpy(ret->regs, sample->regs, sizeof(ret->regs));
		return true;
	}
	for (unsigned bit = 0, i = 0; i < DECODE_N_REGS; bit++) {
		if (!(DECODE_REGS_MASK >> bit & 1))
			continue;
		if (!pmu_sample_register(sample, bit, &ret->regs[i++]))
			return false;
	}
	return true;
}

/* The decoder's view of a sample; ip: that of the user's code. */
static bool fill_input(struct samples *samples, const struct pmu_sample *sample,
		       struct decode_sample *ret_input)
{
	const struct sample_item *item = samples->item;
	const struct task_thread *thread = tasks_thread(samples->context.tasks, item->thread);

	*ret_input = (struct decode_sample){
		.fs_base = thread ? thread->fs_base : 0,
		.stack = sample->stack,
		.stack_bytes = sample->stack_bytes > DECODE_STACK_BYTES
				       ? DECODE_STACK_BYTES
				       : (uint32_t)sample->stack_bytes,
		.process = item->space,
		.time = (uint64_t)item->time_ns,
	};
	if (!samples->decoder || !sample_take_registers(sample, ret_input))
		return false;
	ret_input->ip = ret_input->regs[DECODE_IP];
	return true;
}

/* Who is accessed where, for those whose operand cannot be resolved. */
static int learn(struct samples *samples, const struct sample_access *access)
{
	if (access->role == TRACE_ROLE_EXACT || access->is_open || access->frame == 0)
		return 0;
	if (!access->is_resolved)
		return instruction_owners_need(&samples->instructions, access->frame);
	if (access->role != TRACE_ROLE_WINDOW || access->owner.kind == OWNER_unknown)
		return 0;
	return instruction_owners_add(&samples->instructions, access->frame, &access->owner);
}

static int add_decoded(struct samples *samples, const struct decode_access *decoded,
		       enum trace_role role, double share)
{
	struct sample_item *item = samples->item;
	bool is_resolved = decoded->state == DECODE_RESOLVED || decoded->state == DECODE_BASE_ONLY;
	struct sample_access access = {
		.role = role,
		.share = share,
		.address = decoded->address,
		.size = (int64_t)decoded->size *
			(decoded->state == DECODE_RESOLVED ? decoded->count : 1),
		.is_write = decoded->is_write,
		.is_resolved = is_resolved,
		.ip = decoded->ip,
	};

	if (!is_resolved) {
		const struct sample_code *code = sample_code_at(samples, item, decoded->ip);

		access.frame = code ? code->frame : 0;
		access.owner = (struct owner){ .kind = OWNER_unknown };
	} else if (sample_find_owner(samples, item, &access) < 0) {
		return -ENOMEM;
	}
	sample_add_access(item, &access);
	return learn(samples, &access);
}

static double sum_shares(const struct decode_access *accesses, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)accesses[i].share;
	return sum;
}

static int add_shares(struct samples *samples, const struct decode_access *accesses, uint32_t n,
		      double total)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		if (accesses[i].share > 0)
			r = add_decoded(samples, &accesses[i], TRACE_ROLE_WINDOW,
					(double)accesses[i].share / total);
	}
	return r;
}

static int add_time(struct samples *samples, const struct decode_charge *charge)
{
	const struct decode_window *window = samples->window;
	double total = sum_shares(window->accesses, charge->n_charged) +
		       sum_shares(window->behind, charge->n_behind);

	if (total <= 0) {
		sample_add_plain(samples->item, TRACE_ROLE_WINDOW,
				 charge->basis == DECODE_BASIS_CODE ? OWNER_code : OWNER_unknown,
				 1);
		return 0;
	}
	int r = add_shares(samples, window->accesses, charge->n_charged, total);
	return r < 0 ? r : add_shares(samples, window->behind, charge->n_behind, total);
}

static int add_exact(struct samples *samples, const struct decode_charge *charge)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < charge->n_exact; i++)
		r = add_decoded(samples, &samples->window->accesses[i], TRACE_ROLE_EXACT,
				1.0 / charge->n_exact);
	return r;
}

/* A part that no access has: the instruction is known, or not even that. */
static int add_code(struct samples *samples, enum owner_kind kind, uint64_t ip)
{
	struct sample_access access = {
		.role = TRACE_ROLE_STALL,
		.share = 1,
		.size = -1,
		.is_write = -1,
		.owner = { .kind = kind },
	};
	const struct sample_code *code = ip ? sample_code_at(samples, samples->item, ip) : NULL;

	access.frame = code ? code->frame : 0;
	sample_add_access(samples->item, &access);
	return 0;
}

static int add_stall(struct samples *samples)
{
	const struct decode_window *window = samples->window;
	int r = 0;

	if (window->stall == DECODE_STALL_UNKNOWN)
		return add_code(samples, OWNER_unknown, 0);
	if (window->stall == DECODE_STALL_CODE)
		return add_code(samples, OWNER_code, window->stall_ip);
	for (uint32_t i = 0; r == 0 && i < window->n_stalled; i++)
		r = add_decoded(samples, &window->stalled[i], TRACE_ROLE_STALL,
				(double)window->stalled[i].share);
	return r;
}

/* The accesses of a closed loop by their number: as its time was divided, kept apart from time. */
static void add_mix(struct sample_item *item)
{
	item->n = sample_touches_merge(item->accesses, item->n);
	for (size_t i = 0, n = item->n; i < n; i++) {
		struct sample_access access = item->accesses[i];

		if (access.role != TRACE_ROLE_WINDOW)
			continue;
		access.role = TRACE_ROLE_MIX;
		sample_add_access(item, &access);
	}
}

static int add_user(struct samples *samples, const struct decode_sample *input,
		    struct sample_source *source)
{
	struct decode_charge charge;

	if (decode_window(samples->decoder, input, DECODE_MAX_INSTRUCTIONS, samples->window) < 0)
		return -EINVAL;
	decode_charge(samples->window, &charge);
	source->losses[SAMPLE_LOSS_NO_CODE] += samples->window->n_instructions == 0;

	int r = add_exact(samples, &charge);
	if (r == 0)
		r = add_time(samples, &charge);
	if (r == 0)
		r = add_stall(samples);
	if (r == 0 && charge.basis == DECODE_BASIS_LOOP)
		add_mix(samples->item);
	return r < 0 ? r : sample_loops_enter(samples, input);
}

/* Whether the kernel was called on purpose: `syscall` lies right before ip. */
static bool is_behind_syscall(struct samples *samples, const struct decode_sample *input)
{
	static const uint8_t code[SYSCALL_BYTES] = { 0x0f, 0x05 };
	uint8_t bytes[SYSCALL_BYTES];

	return code_store_code(samples->code, input->process, input->ip - SYSCALL_BYTES,
			       input->time, bytes, sizeof(bytes)) == sizeof(bytes) &&
	       memcmp(bytes, code, sizeof(code)) == 0;
}

/*
 * Time of the kernel while the user's instruction was stopped in the middle (a page fault, an
 * interrupt) is charged to what that instruction accesses, in a phase of its own.
 */
static int add_interrupted(struct samples *samples, const struct decode_sample *input)
{
	struct sample_item *item = samples->item;
	const struct decode_window *window = samples->window;
	int r = decode_window(samples->decoder, input, 1, samples->window);
	size_t first = item->n;

	for (uint32_t i = 0; r == 0 && i < window->n_accesses; i++)
		r = add_decoded(samples, &window->accesses[i], TRACE_ROLE_WINDOW,
				1.0 / window->n_accesses);
	for (size_t i = first; i < item->n; i++) {
		item->accesses[i].owner.phase = OWNER_IN_KERNEL;
		item->accesses[i].is_open = false;
		if (item->accesses[i].owner.kind == OWNER_unknown)
			item->accesses[i].owner.kind = OWNER_kernel;
	}
	return r;
}

/* The kernel's, at the instruction of the program that led there, where that is known. */
static void add_called(struct samples *samples, const struct decode_sample *input)
{
	struct sample_item *item = samples->item;
	const struct sample_code *code = input ? sample_code_at(samples, item, input->ip) : NULL;

	sample_add_plain(item, TRACE_ROLE_WINDOW, OWNER_kernel, 1);
	if (code)
		item->accesses[item->n - 1].frame = code->frame;
}

static int add_kernel(struct samples *samples, const struct pmu_sample *sample)
{
	struct decode_sample input;
	bool is_known = fill_input(samples, sample, &input);
	int r = 0;

	if (is_known && !is_behind_syscall(samples, &input))
		r = add_interrupted(samples, &input);
	if (samples->item->n == 0)
		add_called(samples, is_known ? &input : NULL);
	sample_add_plain(samples->item, TRACE_ROLE_STALL, OWNER_kernel, 1);
	return r;
}

/* Nothing is said of what it accessed: both answers are of one owner. */
static int add_whole(struct samples *samples, enum owner_kind kind)
{
	sample_add_plain(samples->item, TRACE_ROLE_WINDOW, kind, 1);
	sample_add_plain(samples->item, TRACE_ROLE_STALL, kind, 1);
	return 0;
}

int sample_clock_add(struct samples *samples, struct sample_source *source,
		     const struct pmu_record *record)
{
	const struct pmu_sample *sample = &record->sample;
	struct decode_sample input;

	if (record->is_kernel)
		return add_kernel(samples, sample);

	const struct sample_code *code = sample_code_at(samples, samples->item, sample->ip);
	if (code && code->is_tool)
		return add_whole(samples, OWNER_tool);
	if (!fill_input(samples, sample, &input)) {
		source->losses[SAMPLE_LOSS_NO_REGISTERS]++;
		return add_whole(samples, OWNER_unknown);
	}
	input.ip = sample->ip;
	return add_user(samples, &input, source);
}
