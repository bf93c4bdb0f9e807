/*
 * What a sample of time and registers says: the accesses of the instruction itself, the division of
 * its time, what was waited for, and the accesses of its loop.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "analyze/samples/samples-internal.h"
#include "decode/hardware/sample-input.h"

#define WORD		8u
#define MAX_SHORT_RANGE 64u /* of a vector */
#define MAX_ADDED	2u /* words behind a block: what fills it up, and its length */

/* The decoder's view of a sample; ip: that of the user's code. */
static bool fill_input(struct samples *samples, const struct pmu_sample *sample,
		       struct decode_sample *ret_input)
{
	const struct pending_sample *item = samples->item;
	const struct task_thread *thread = tasks_thread(samples->context.tasks, item->thread);

	bool has_registers = decode_take_sample(sample, ret_input);

	ret_input->ip = ret_input->regs[DECODE_IP];
	ret_input->fs_base = thread ? thread->fs_base : 0;
	ret_input->process = item->space;
	ret_input->time = (uint64_t)item->time_ns;
	return samples->decoder && has_registers;
}

/* Who is accessed where, for those whose operand cannot be resolved. */
static void learn(struct samples *samples, const struct sample_access *access)
{
	bool is_told = access->is_resolved == (access->owner.kind != OWNER_unknown);

	if (access->role == TRACE_ROLE_EXACT || access->is_open || access->frame == 0 || !is_told)
		return;
	instruction_owners_take(&samples->instructions, &(struct instruction_access){
								.frame = access->frame,
								.owner = access->owner,
								.share = access->share,
								.role = access->role,
								.is_resolved = access->is_resolved,
							});
}

/*
 * What was waited for in a chase is not known, only where the next turn of the loop will read; or
 * where an array begins, and not the index. Whose that is it was as well, if the instruction has
 * accessed nobody else's.
 */
static int find_same_owner(struct samples *samples, bool is_next_turn, struct sample_access *access)
{
	const struct sample_code *code = sample_code_at(samples, samples->item, access->ip);
	struct sample_access next = *access;
	int r = sample_find_owner(samples, samples->item, &next);

	if (r == 0 && is_next_turn && code && !next.is_open && next.owner.kind != OWNER_unknown)
		r = instruction_owners_next(&samples->instructions, code->frame, &next.owner);
	if (r == 0 && code && !next.is_open &&
	    instruction_owners_is_only(&samples->instructions, code->frame, &next.owner))
		access->owner = next.owner;
	return r;
}

/*
 * The bytes of which some are accessed, which ones is not known; 0: nothing is known. Processors
 * load all of a vector and drop the elements of its mask then, but store only those.
 */
static uint64_t open_range(const struct decode_access *decoded)
{
	if (decoded->state == DECODE_MASKED && !decoded->is_write)
		return (uint64_t)decoded->size * decoded->count;
	return decoded->state == DECODE_WITHIN ? decoded->range : 0;
}

/* Whether an owner is one piece of memory, so that what lies between two of its bytes is its. */
static bool is_piece(enum owner_kind kind)
{
	return kind == OWNER_heap || kind == OWNER_named || kind == OWNER_global ||
	       kind == OWNER_stack;
}

/*
 * Whether all words of a short range, which begins in a block, are of blocks of one site, or what
 * an allocator adds to them: short texts that lie behind each other, of which vectors read more
 * than there is. Which one it was is not known. 1, 0 or -ENOMEM.
 */
static int is_of_site(struct samples *samples, uint64_t n_bytes, const struct sample_access *first)
{
	struct sample_access word = *first;
	unsigned n_added = 0;
	int r = 0;

	if (n_bytes > MAX_SHORT_RANGE || first->owner.kind != OWNER_heap)
		return 0;
	for (uint64_t at = WORD; at < n_bytes; at += WORD) {
		word.address = first->address + at;
		r = sample_find_owner(samples, samples->item, &word);
		if (r < 0)
			return r;
		n_added = word.owner.kind == OWNER_before_trace ? n_added + 1 : 0;
		if (n_added > MAX_ADDED ||
		    (!n_added && !instruction_owners_is_same(&word.owner, &first->owner)))
			return 0;
	}
	return 1;
}

/* Whose all bytes of a range are, of which some are accessed. */
static int find_range_owner(struct samples *samples, uint64_t n_bytes, struct sample_access *access)
{
	struct sample_access first = *access, last = *access;

	first.size = last.size = 1;
	last.address += n_bytes - 1;
	int r = sample_find_owner(samples, samples->item, &first);
	r = r ?: sample_find_owner(samples, samples->item, &last);
	if (r == 0 && !first.is_open && !last.is_open && is_piece(first.owner.kind) &&
	    first.owner.kind == last.owner.kind && first.owner.id == last.owner.id &&
	    first.owner.phase == last.owner.phase)
		access->owner = first.owner;
	else if (r == 0 && !first.is_open)
		r = is_of_site(samples, n_bytes, &first);
	if (r > 0)
		access->owner = first.owner;
	return r < 0 ? r : 0;
}

/*
 * A gather's base does not tell whose memory its lanes touch, nor a mask that is not known whether
 * there is a store: nobody's, as of unknown registers.
 */
static int add_decoded(struct samples *samples, const struct decode_access *decoded,
		       enum trace_role role, double share)
{
	struct pending_sample *item = samples->item;
	struct sample_access access = {
		.role = role,
		.share = share,
		.address = decoded->address,
		.size = (int64_t)decoded->size * decoded->count,
		.is_write = decoded->is_write,
		.is_resolved = decode_state_has_address(decoded->state),
		.ip = decoded->ip,
		.owner = { .kind = OWNER_unknown },
	};
	int r = 0;

	if (access.is_resolved)
		r = sample_find_owner(samples, item, &access);
	else if (decoded->state == DECODE_NEXT_TURN || decoded->state == DECODE_FROM_BASE)
		r = find_same_owner(samples, decoded->state == DECODE_NEXT_TURN, &access);
	else if (open_range(decoded))
		r = find_range_owner(samples, open_range(decoded), &access);
	if (r < 0)
		return r;
	if (!access.is_resolved) {
		const struct sample_code *code = sample_code_at(samples, item, decoded->ip);

		access.frame = code ? code->frame : 0;
		access.address = 0;
		access.size = decoded->size;
		access.is_open = false;
	}
	sample_add_access(item, &access);
	learn(samples, &access);
	return 0;
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

/* Whether a store's memory is that owner's, too. Reads do not matter. 1, 0 or -ENOMEM. */
static int is_store_of(struct samples *samples, const struct decode_access *decoded,
		       const struct owner *owner)
{
	struct sample_access access = {
		.address = decoded->address,
		.size = (int64_t)decoded->size * decoded->count,
		.ip = decoded->ip,
	};

	if (!decoded->is_write)
		return true;
	if (!decode_state_has_address(decoded->state))
		return false;
	if (sample_find_owner(samples, samples->item, &access) < 0)
		return -ENOMEM;
	return !access.is_open && instruction_owners_is_same(&access.owner, owner);
}

static int are_stores_of(struct samples *samples, const struct decode_access *accesses, uint32_t n,
			 const struct owner *owner)
{
	int r = 1;

	for (uint32_t i = 0; r > 0 && i < n && accesses[i].position < DECODE_LOOK_AHEAD; i++)
		r = is_store_of(samples, &accesses[i], owner);
	return r;
}

/*
 * A store is done before its memory is reached: what is waited for behind one is room in the store
 * buffer, which any store before it may take. Whose it was is known where all stores around are of
 * one owner. 1, 0 or -ENOMEM.
 */
static int is_stall_clear(struct samples *samples)
{
	const struct decode_window *window = samples->window;
	const struct decode_access *store = &window->stalled[0];
	struct sample_access access = { .address = store->address, .size = store->size };

	/* A repeated one is there itself; a single one that is not resolved is unknown anyway. */
	if (window->n_stalled != 1 || store->is_read || window->is_repeating ||
	    !decode_state_has_address(store->state))
		return true;
	if (sample_find_owner(samples, samples->item, &access) < 0)
		return -ENOMEM;
	int r = are_stores_of(samples, window->accesses, window->n_accesses, &access.owner);
	return r > 0 ? are_stores_of(samples, window->behind, window->n_behind, &access.owner) : r;
}

static int add_stall(struct samples *samples)
{
	const struct decode_window *window = samples->window;
	int r = window->stall == DECODE_STALL_ACCESS ? is_stall_clear(samples) : 1;

	if (r < 0)
		return r;
	if (r == 0 || window->stall == DECODE_STALL_UNKNOWN)
		return add_code(samples, OWNER_unknown, 0);
	r = 0;
	if (window->stall == DECODE_STALL_CODE)
		return add_code(samples, OWNER_code, window->stall_ip);
	for (uint32_t i = 0; r == 0 && i < window->n_stalled; i++)
		r = add_decoded(samples, &window->stalled[i], TRACE_ROLE_STALL,
				(double)window->stalled[i].share);
	return r;
}

/* The accesses of a closed loop by their number: as its time was divided, kept apart from time. */
static void add_mix(struct pending_sample *item)
{
	item->n = sample_touches_merge(item->accesses, item->n, item->time_ns);
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

	code_store_sample(samples->code, input->ip);
	if (decode_window(samples->decoder, input, DECODE_MAX_INSTRUCTIONS, samples->window) < 0)
		return -EINVAL;
	decode_charge(samples->window, &charge);
	if (samples->window->n_instructions == 0)
		source->losses[code_store_is_changing(samples->code, input->process, input->ip)
				       ? SAMPLE_LOSS_CODE_CHANGED
				       : SAMPLE_LOSS_NO_CODE]++;

	int r = add_exact(samples, &charge);
	r = r ?: add_time(samples, &charge);
	r = r ?: add_stall(samples);
	if (r == 0 && charge.basis == DECODE_BASIS_LOOP)
		add_mix(samples->item);
	return r < 0 ? r : sample_loops_enter(samples, input);
}

/* What the kernel did for the program, from an access on. */
static void take_for_kernel(struct pending_sample *item, size_t first)
{
	for (size_t i = first; i < item->n; i++) {
		struct sample_access *access = &item->accesses[i];
		access->owner.phase = OWNER_IN_KERNEL;
		access->is_open = false;
		if (access->owner.kind == OWNER_unknown)
			access->owner.kind = OWNER_kernel;
	}
}

/*
 * Time of the kernel while the user's instruction was stopped in the middle (a page fault, an
 * interrupt) is charged to what that instruction accesses, in a phase of its own.
 */
static int add_interrupted(struct samples *samples, const struct decode_sample *input)
{
	struct pending_sample *item = samples->item;
	const struct decode_window *window = samples->window;
	int r = decode_window(samples->decoder, input, 1, samples->window);
	size_t first = item->n;

	for (uint32_t i = 0; r == 0 && i < window->n_accesses; i++)
		r = add_decoded(samples, &window->accesses[i], TRACE_ROLE_WINDOW,
				1.0 / window->n_accesses);
	take_for_kernel(item, first);
	return r;
}

/*
 * Time of a system call that copies goes to the buffers, by their length: it is the call's, not the
 * copy's alone.
 */
static int add_buffers(struct samples *samples, const struct decode_sample *input)
{
	struct pending_sample *item = samples->item;
	struct sample_buffer buffers[SAMPLE_MAX_BUFFERS];
	unsigned n = sample_call_buffers(samples, input, buffers);
	size_t first = item->n;
	double n_bytes = 0;
	int r = 0;

	for (unsigned i = 0; i < n; i++)
		n_bytes += (double)buffers[i].n_bytes;
	for (unsigned i = 0; i < n && r == 0; i++) {
		struct sample_access access = {
			.role = TRACE_ROLE_WINDOW,
			.share = (double)buffers[i].n_bytes / n_bytes,
			.address = buffers[i].address,
			.size = buffers[i].n_bytes < INT32_MAX ? (int64_t)buffers[i].n_bytes : -1,
			.is_write = buffers[i].is_write,
			.is_resolved = true,
			.ip = input->ip,
		};
		r = sample_find_owner(samples, item, &access);
		if (r == 0)
			sample_add_access(item, &access);
	}
	take_for_kernel(item, first);
	return r;
}

/* The kernel's, at the instruction of the program that led there, where that is known. */
static void add_called(struct samples *samples, const struct decode_sample *input)
{
	struct pending_sample *item = samples->item;
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

	if (is_known)
		r = sample_is_behind_call(samples, &input) ? add_buffers(samples, &input)
							   : add_interrupted(samples, &input);
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

static int add_sample(struct samples *samples, struct sample_source *source,
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

int sample_clock_add(struct samples *samples, struct sample_source *source,
		     const struct pmu_record *record)
{
	int r = add_sample(samples, source, record);
	int ended = instruction_owners_end(&samples->instructions, (double)samples->item->weight);

	return r < 0 ? r : ended;
}
