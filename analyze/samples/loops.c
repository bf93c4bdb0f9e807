#include "analyze/samples/loops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/samples-internal.h"
#include "common/array.h"

/*
 * Emulating every instruction between two samples takes milliseconds: at most this many in all,
 * some more with each sample, and only one pair in so many is tried.
 */
#define REPLAY_INSTRUCTIONS	 8000000
#define REPLAY_INSTRUCTIONS_EACH 100
#define REPLAY_INSTRUCTIONS_MOST 500000
#define REPLAY_ONE_IN		 4u

void sample_loops_finish(struct sample_loops *loops)
{
	key_map_finish(&loops->numbers);
	key_map_finish(&loops->owner_numbers);
	free(loops->items);
	free(loops->owners);
	free(loops->lasts);
	*loops = (struct sample_loops){ 0 };
}

/* The loop of a frame. Returns its number or -ENOMEM. */
static int64_t find_loop(struct sample_loops *loops, int64_t frame)
{
	uint64_t number = key_map_get(&loops->numbers, (uint64_t)frame, 0);

	if (number)
		return (int64_t)number;
	if (grow_array(&loops->items, loops->n, &loops->n_allocated, sizeof(*loops->items)) < 0 ||
	    key_map_put(&loops->numbers, (uint64_t)frame, 0, loops->n + 1) < 0)
		return -ENOMEM;
	loops->items[loops->n++] = (struct sample_loop){ .frame = frame };
	return (int64_t)loops->n;
}

int sample_loops_owner(struct sample_loops *loops, uint32_t loop,
		       const struct sample_access *access, struct loop_owner **ret_owner)
{
	const struct owner *owner = &access->owner;
	bool is_heap = owner->kind == OWNER_heap;
	uint64_t id = is_heap ? owner->site : (uint64_t)owner->id;
	uint64_t key = (uint64_t)loop << 8 | (uint64_t)owner->kind << 1 | (access->is_write > 0);
	uint64_t number = key_map_get(&loops->owner_numbers, key, id);

	if (!number) {
		if (grow_array(&loops->owners, loops->n_owners, &loops->n_owners_allocated,
			       sizeof(*loops->owners)) < 0 ||
		    key_map_put(&loops->owner_numbers, key, id, loops->n_owners + 1) < 0)
			return -ENOMEM;
		loops->owners[loops->n_owners++] = (struct loop_owner){
			.loop = loop, .is_write = access->is_write > 0, .owner = *owner
		};
		number = loops->n_owners;
	}
	*ret_owner = &loops->owners[number - 1];
	return 0;
}

int sample_loops_mix(struct sample_loops *loops, const struct pending_sample *item)
{
	struct loop_owner *owner;
	int r = 0;

	for (size_t i = 0; item->loop && r == 0 && i < item->n; i++) {
		if (item->accesses[i].role != TRACE_ROLE_MIX)
			continue;
		r = sample_loops_owner(loops, item->loop, &item->accesses[i], &owner);
		if (r == 0)
			share_total_add(&owner->share, item->row, item->accesses[i].share);
	}
	return r;
}

static struct loop_last *last_of(struct sample_loops *loops, uint32_t thread)
{
	if (thread >= loops->n_lasts) {
		size_t n = thread + thread / 2 + 16;
		struct loop_last *larger = reallocarray(loops->lasts, n, sizeof(*larger));

		if (!larger)
			return NULL;
		memset(larger + loops->n_lasts, 0, (n - loops->n_lasts) * sizeof(*larger));
		loops->lasts = larger;
		loops->n_lasts = n;
	}
	return &loops->lasts[thread];
}

void sample_loops_break(struct sample_loops *loops, uint32_t thread)
{
	if (thread < loops->n_lasts)
		loops->lasts[thread].loop = 0;
}

static void add_count(struct loop_counts *counts, double n)
{
	counts->n++;
	counts->sum += n;
	counts->sum_sq += n * n;
}

/* Whose the accesses of a replay were, by those that it drew. */
static int add_replayed(struct samples *samples, uint32_t loop, const struct decode_way *way)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < way->n_picked; i++) {
		const struct decode_access *from = &way->picked[i];
		struct sample_access access = {
			.role = TRACE_ROLE_MIX,
			.address = from->address,
			.is_write = from->is_write,
			.is_resolved = decode_state_has_address(from->state),
			.ip = from->ip,
			.owner = { .kind = OWNER_unknown },
		};
		struct loop_owner *owner;

		if (access.is_resolved)
			r = sample_find_owner(samples, samples->item, &access);
		if (r == 0)
			r = sample_loops_owner(&samples->loops, loop, &access, &owner);
		if (r == 0)
			owner->replayed += (double)way->n_accesses / way->n_picked;
	}
	return r;
}

static int replay(struct samples *samples, const struct loop_last *last,
		  const struct decode_sample *input)
{
	struct sample_loops *loops = &samples->loops;
	struct sample_loop *loop = &loops->items[last->loop - 1];
	struct decode_way way;
	uint64_t draw = last->sample.time * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	if (loops->budget <= 0 || draw % REPLAY_ONE_IN)
		return 0;
	int r = decode_replay(samples->decoder, &last->sample, input, REPLAY_INSTRUCTIONS_MOST,
			      &way);
	loops->budget -= (int64_t)way.n_emulated;
	loop->n_not_replayed += r < 0;
	loop->n_ambiguous += r == -EINVAL;
	if (r < 0)
		return 0;
	add_count(&loop->replayed, (double)way.n_accesses);
	return add_replayed(samples, last->loop, &way);
}

/* What the loop of the sample before did until this one. */
static int count(struct samples *samples, const struct loop_last *last,
		 const struct decode_sample *input)
{
	struct sample_loop *loop = &samples->loops.items[last->loop - 1];
	double n;

	switch (decode_iterations(samples->decoder, &last->sample, input, &n)) {
	case DECODE_COUNT_EXACT:
		add_count(&loop->counted, n * last->n_accesses);
		return 0;
	case DECODE_COUNT_REFUTED:
		loop->n_refuted++;
		return replay(samples, last, input);
	default:
		return replay(samples, last, input);
	}
}

static double sum_accesses(const struct decode_window *window)
{
	double n = 0;

	for (uint32_t i = 0; i < window->n_accesses; i++)
		n += window->accesses[i].count;
	return n;
}

/* The loop that the window went round; 0: none. */
static int64_t note_loop(struct samples *samples)
{
	const struct decode_window *window = samples->window;
	struct pending_sample *item = samples->item;

	if (window->end != DECODE_END_LOOP)
		return 0;
	const struct sample_code *code = sample_code_at(samples, item, window->head_ip);
	int64_t number = code ? find_loop(&samples->loops, code->frame) : -ENOMEM;
	if (number < 0)
		return number;

	struct sample_loop *loop = &samples->loops.items[number - 1];
	loop->n_samples++;
	loop->weight += item->weight;
	loop->n_instructions += window->n_instructions;
	loop->n_accesses += sum_accesses(window);
	return number;
}

static void keep(struct loop_last *last, const struct decode_sample *input, uint32_t loop,
		 double n_accesses)
{
	last->loop = loop;
	if (!loop)
		return;
	last->n_accesses = n_accesses;
	last->sample = *input;
	if (input->stack)
		memcpy(last->stack, input->stack, input->stack_bytes);
	last->sample.stack = input->stack ? last->stack : NULL;
}

int sample_loops_enter(struct samples *samples, const struct decode_sample *input)
{
	struct sample_loops *loops = &samples->loops;
	uint32_t thread = samples->item->thread;

	loops->budget += loops->n_samples++ ? REPLAY_INSTRUCTIONS_EACH : REPLAY_INSTRUCTIONS;
	int64_t loop = note_loop(samples);
	if (loop < 0)
		return (int)loop;
	samples->item->loop = (uint32_t)loop;
	if (!thread || thread >= TASKS_UNSEEN)
		return 0;

	struct loop_last *last = last_of(loops, thread);
	int r = last ? 0 : -ENOMEM;
	if (r == 0 && last->loop && last->sample.process == input->process)
		r = count(samples, last, input);
	if (r == 0)
		keep(last, input, (uint32_t)loop, sum_accesses(samples->window));
	return r;
}
