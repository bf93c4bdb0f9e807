/* Which sums a touch belongs to, and those of shares, which are added sample by sample. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/totals/totals.h"
#include "store/touch.h"

/* A named part of a block has an owner of its own; the block is in use all the same. */
static void count_heap(struct tally *tally, const struct touch *touch)
{
	if (touch->owner.site == 0)
		return;

	struct tally_site *site = &tally->sites[touch->owner.site];
	bool is_in_use = touch->owner.phase == OWNER_IN_USE;

	if (is_in_use && touch->time_ns < site->first_touch_ns)
		site->first_touch_ns = touch->time_ns;
	if (is_in_use && touch->time_ns > site->last_touch_ns)
		site->last_touch_ns = touch->time_ns;
	site->n_faults += touch->owner.kind == OWNER_heap && touch->role == TRACE_ROLE_FAULT;
}

/*
 * A fault is the kernel's look at a page, no access to a line; what is not known is nobody's. What
 * was waited for and the mix of a loop tell the same accesses once more.
 */
static bool is_of_line(const struct touch *touch)
{
	bool is_access = touch->role == TRACE_ROLE_EXACT || touch->role == TRACE_ROLE_WINDOW;

	return touch->is_resolved && is_access && touch->thread_row && touch->process_row &&
	       touch->owner.kind != OWNER_tool && touch->owner.kind != OWNER_unknown &&
	       touch->owner.kind != OWNER_kernel && touch->owner.kind != OWNER_code;
}

/* A block stands for its site. */
static int64_t owner_id_of(const struct tally *tally, const struct touch *touch)
{
	return touch->owner.kind == OWNER_heap ? tally->sites[touch->owner.site].stack_id
					       : touch->owner.id;
}

static int count_access(struct tally *tally, const struct touch *touch)
{
	return access_totals_add(&tally->accesses, touch, owner_id_of(tally, touch));
}

/* Where the page of a fault lay, in the place of a data source. */
static int count_node(struct tally *tally, const struct touch *touch)
{
	struct touch node = *touch;

	node.data_src = (int64_t)touch->node_number - 1;
	return access_totals_add(&tally->fault_nodes, &node, owner_id_of(tally, touch));
}

int tally_line(struct tally *tally, const struct touch *touch)
{
	if (touch->measures == MEASURES_WATCH || !is_of_line(touch))
		return 0;
	uint32_t site = touch->owner.site;
	return shared_lines_add(&tally->lines, touch, site ? tally->sites[site].stack_id : 0);
}

/* ---- Shares ---- */

/* A touch of the sample at hand that has a part of it. */
struct tally_part {
	struct owner_name owner;
	uint32_t index; /* of the site, or of the object */
	uint8_t of; /* enum share_of */
	bool is_resolved;
	int64_t frame;
	double share;
};

/*
 * Owners beyond these are not compared with the next sample: then intervals are wider, not smaller.
 */
#define NEIGHBOUR_PARTS 16u

/* What a sample had. */
struct past_part {
	int64_t kind;
	uint32_t index;
	uint8_t of;
	double share;
};

struct tally_past {
	double weight; /* 0: there was none */
	unsigned n;
	struct past_part parts[NEIGHBOUR_PARTS];
	double kinds[TALLY_KINDS][SHARE_COUNT];
};

struct tally_neighbour {
	struct tally_past past[2]; /* the last sample of the thread, and the one before */
	double first_weight;
	unsigned n_samples; /* up to YOUNG */
};

/* Samples of a thread that are looked at by turns: it is young. */
#define YOUNG 32u

/*
 * Turns whose threads may live at once: a period reaches others while threads of the one before go
 * on.
 */
#define TALLY_TURNS 4u
#define TURN_OWNERS 64u /* those beyond are not in it */

/* Samples of young threads of one period, and each owner's part of their time. */
struct tally_turn {
	double weight; /* of each sample; 0: it is none */
	double time;
	unsigned n;
	struct {
		int64_t kind;
		uint32_t index;
		uint8_t of;
		bool is_kind; /* all of that kind */
		double time;
	} owners[TURN_OWNERS];
};

void tally_sample_finish(struct tally_sample *sample)
{
	free(sample->turns);
	key_map_finish(&sample->threads);
	free(sample->parts);
	free(sample->neighbours);
	*sample = (struct tally_sample){ 0 };
}

/* Memory that tells instructions' uses apart: a thread's stack is in every sample. */
static bool is_beside(const struct tally_part *part)
{
	return part->of == SHARE_TIME && part->is_resolved &&
	       (part->owner.kind == OWNER_heap || part->owner.kind == OWNER_named ||
		part->owner.kind == OWNER_mapping || part->owner.kind == OWNER_global);
}

static bool is_before(const struct owner_name *a, const struct owner_name *b)
{
	return a->kind != b->kind ? a->kind < b->kind : a->id < b->id;
}

/* Into the first ones in order, each once: what a sample accesses has no order. */
static void insert_beside(struct unresolved_share *share, const struct owner_name *name)
{
	struct owner_name moved = *name;

	for (unsigned i = 0; i < UNRESOLVED_BESIDE; i++) {
		struct owner_name *at = &share->beside[i];
		if (at->kind == moved.kind && at->id == moved.id)
			return;
		if (at->kind && !is_before(&moved, at))
			continue;
		struct owner_name next = *at;
		*at = moved;
		if (!next.kind)
			return;
		moved = next;
	}
}

static double part_of(const struct tally_sample *sample, const struct owner_name *name)
{
	double sum = 0;

	for (size_t i = 0; i < sample->n; i++) {
		const struct tally_part *part = &sample->parts[i];
		if (is_beside(part) && part->owner.kind == name->kind && part->owner.id == name->id)
			sum += part->share;
	}
	return sum;
}

static bool is_unresolved(const struct tally_part *part)
{
	return !part->is_resolved && part->owner.kind == OWNER_unknown;
}

static int add_unresolved(struct tally *tally)
{
	const struct tally_sample *sample = &tally->current;
	double square = sample->weight * sample->weight, whole[SHARE_COUNT] = { 0 };
	struct unresolved_share like = { 0 };
	int r = 0;

	for (size_t i = 0; i < sample->n; i++)
		if (is_unresolved(&sample->parts[i]))
			whole[sample->parts[i].of] += sample->parts[i].share;
	if (whole[SHARE_TIME] + whole[SHARE_STALL] == 0)
		return 0;
	for (size_t i = 0; i < sample->n; i++)
		if (is_beside(&sample->parts[i]))
			insert_beside(&like, &sample->parts[i].owner);
	for (size_t i = 0; i < sample->n && r == 0; i++) {
		const struct tally_part *part = &sample->parts[i];
		if (!is_unresolved(part))
			continue;
		struct unresolved_share share = like;
		share.frame = part->frame;
		share.of = (enum share_of)part->of;
		share.n_samples = 1;
		share.n = part->share;
		share.time = sample->weight * part->share;
		share.time_sq = square * part->share * whole[part->of];
		for (unsigned k = 0; k < UNRESOLVED_BESIDE && part->of == SHARE_TIME; k++)
			share.cross[k] = square * part->share * part_of(sample, &like.beside[k]);
		r = unresolved_add(&tally->unresolved, &share);
	}
	return r;
}

static struct owner_shares *shares_of(struct tally *tally, int64_t kind, uint32_t index)
{
	return kind == OWNER_heap ? &tally->sites[index].shares
				  : &tally->objects.items[index].shares;
}

/* Touches of one owner are one part. */
static void merge_parts(struct tally_sample *sample)
{
	size_t n = 0;

	for (size_t i = 0; i < sample->n; i++) {
		const struct tally_part part = sample->parts[i];
		size_t k = 0;
		while (k < n &&
		       !(sample->parts[k].owner.kind == part.owner.kind &&
			 sample->parts[k].index == part.index && sample->parts[k].of == part.of))
			k++;
		if (k < n)
			sample->parts[k].share += part.share;
		else
			sample->parts[n++] = part;
	}
	sample->n = n;
}

static int find_neighbour(struct tally_sample *sample, struct tally_neighbour **ret_neighbour)
{
	uint64_t number = key_map_get(&sample->threads, (uint64_t)sample->thread_row, 0);

	if (!number) {
		int r = grow_array(&sample->neighbours, sample->n_neighbours,
				   &sample->n_neighbours_allocated, sizeof(*sample->neighbours));
		if (r == 0)
			r = key_map_put(&sample->threads, (uint64_t)sample->thread_row, 0,
					sample->n_neighbours + 1);
		if (r < 0)
			return r;
		number = ++sample->n_neighbours;
		sample->neighbours[number - 1] = (struct tally_neighbour){ 0 };
	}
	*ret_neighbour = &sample->neighbours[number - 1];
	return 0;
}

static double share_in(const struct tally_past *past, const struct past_part *part)
{
	for (unsigned i = 0; i < past->n; i++)
		if (past->parts[i].kind == part->kind && past->parts[i].index == part->index &&
		    past->parts[i].of == part->of)
			return past->parts[i].share;
	return 0;
}

/* How far owners of one of two samples are from what they have in the other one. */
static void add_apart(struct tally *tally, const struct tally_past *of,
		      const struct tally_past *other, enum share_lag lag, bool has_both)
{
	for (unsigned i = 0; i < of->n; i++) {
		const struct past_part *part = &of->parts[i];
		double there = share_in(other, part), apart = part->share - there;

		if (there == 0 || has_both)
			shares_of(tally, part->kind, part->index)->of[part->of].apart[lag] +=
				of->weight * other->weight * apart * apart / 2;
	}
}

static void add_neighbours(struct tally *tally, const struct tally_past *now,
			   const struct tally_past *before, enum share_lag lag)
{
	if (!(before->weight > 0))
		return;
	double weights = now->weight * before->weight;

	tally->design.lag[lag] += weights;
	tally->design.turned_sq += lag == SHARE_LAG_TURNED ? weights * weights : 0;
	add_apart(tally, now, before, lag, true);
	add_apart(tally, before, now, lag, false);
	for (unsigned i = 0; i < TALLY_KINDS * SHARE_COUNT; i++) {
		unsigned kind = i / SHARE_COUNT, of = i % SHARE_COUNT;
		double apart = now->kinds[kind][of] - before->kinds[kind][of];

		tally->kinds[kind].of[of].apart[lag] +=
			now->weight * before->weight * apart * apart / 2;
	}
}

static void keep_parts(const struct tally_sample *sample, struct tally_past *past)
{
	*past = (struct tally_past){ .weight = sample->weight };
	for (size_t i = 0; i < sample->n; i++) {
		const struct tally_part *part = &sample->parts[i];

		if ((uint64_t)part->owner.kind < TALLY_KINDS)
			past->kinds[part->owner.kind][part->of] += part->share;
		if (past->n < NEIGHBOUR_PARTS)
			past->parts[past->n++] = (struct past_part){ part->owner.kind, part->index,
								     part->of, part->share };
	}
}

static void add_kinds(struct tally *tally, const struct tally_past *now)
{
	for (unsigned kind = 0; kind < TALLY_KINDS; kind++)
		for (unsigned of = 0; of < SHARE_COUNT; of++)
			if (now->kinds[kind][of] != 0)
				share_sum_add(&tally->kinds[kind].of[of], now->kinds[kind][of],
					      now->weight);
}

/* ---- Turns ---- */

static void add_turn(struct tally *tally, struct tally_turn *turn)
{
	for (unsigned i = 0; i < turn->n; i++) {
		double time = turn->owners[i].time;
		struct owner_shares *shares =
			turn->owners[i].is_kind
				? &tally->kinds[turn->owners[i].kind]
				: shares_of(tally, turn->owners[i].kind, turn->owners[i].index);
		shares->of[turn->owners[i].of].turn_sq += time * time;
		shares->of[turn->owners[i].of].turn_w += time * turn->time;
	}
	tally->design.turn_sq += turn->time * turn->time;
	tally->design.n_turns += turn->weight > 0;
	turn->weight = turn->time = 0;
	turn->n = 0;
}

/* The turn of a period, moved to the front; the one that was not used for longest makes room. */
static struct tally_turn *turn_of(struct tally *tally, double weight)
{
	struct tally_turn *turns = tally->current.turns, found;
	unsigned i = 0;

	while (i < TALLY_TURNS - 1 && turns[i].weight != weight)
		i++;
	if (turns[i].weight != weight)
		add_turn(tally, &turns[i]);
	found = turns[i];
	found.weight = weight;
	memmove(turns + 1, turns, i * sizeof(*turns));
	turns[0] = found;
	return turns;
}

static void add_to_turn(struct tally_turn *turn, const struct tally_part *part, bool is_kind,
			double time)
{
	uint32_t index = is_kind ? 0 : part->index;
	unsigned i = 0;

	while (i < turn->n &&
	       !(turn->owners[i].kind == part->owner.kind && turn->owners[i].index == index &&
		 turn->owners[i].of == part->of && turn->owners[i].is_kind == is_kind))
		i++;
	if (i == TURN_OWNERS)
		return;
	if (i == turn->n) {
		turn->owners[i].kind = part->owner.kind;
		turn->owners[i].index = index;
		turn->owners[i].of = part->of;
		turn->owners[i].is_kind = is_kind;
		turn->owners[i].time = 0;
		turn->n++;
	}
	turn->owners[i].time += time;
}

static int add_young(struct tally *tally, struct tally_neighbour *neighbour)
{
	struct tally_sample *sample = &tally->current;

	if (neighbour->n_samples == 0)
		neighbour->first_weight = sample->weight;
	if (neighbour->n_samples == YOUNG || neighbour->first_weight != sample->weight ||
	    !(sample->weight > 0))
		return 0;
	neighbour->n_samples++;
	if (!sample->turns && !(sample->turns = calloc(TALLY_TURNS, sizeof(*sample->turns))))
		return -ENOMEM;
	struct tally_turn *turn = turn_of(tally, sample->weight);
	turn->time += sample->weight;
	tally->design.young_sq += sample->weight * sample->weight;
	for (size_t i = 0; i < sample->n; i++) {
		const struct tally_part *part = &sample->parts[i];
		add_to_turn(turn, part, false, sample->weight * part->share);
		if ((uint64_t)part->owner.kind < TALLY_KINDS)
			add_to_turn(turn, part, true, sample->weight * part->share);
	}
	return 0;
}

static int add_sample(struct tally *tally)
{
	struct tally_sample *sample = &tally->current;
	struct tally_neighbour *neighbour = NULL;
	int r = add_unresolved(tally) ?: find_neighbour(sample, &neighbour);
	if (r < 0)
		return r;
	struct tally_past *past = neighbour->past, now;
	enum share_lag lag = past->weight == sample->weight ? SHARE_LAG_SAME : SHARE_LAG_TURNED;
	merge_parts(sample);
	keep_parts(sample, &now);
	for (size_t i = 0; i < sample->n; i++) {
		const struct tally_part *part = &sample->parts[i];
		share_sum_add(&shares_of(tally, part->owner.kind, part->index)->of[part->of],
			      part->share, sample->weight);
	}
	add_kinds(tally, &now);
	add_neighbours(tally, &now, &past[0], lag);
	add_neighbours(tally, &now, &past[1], SHARE_LAG_SECOND);
	past[1] = past[0];
	past[0] = now;
	return add_young(tally, neighbour);
}

static int add_current(struct tally *tally)
{
	int r = tally->current.n ? add_sample(tally) : 0;

	tally->current.n = 0;
	tally->current.sample = 0;
	return r;
}

int tally_settle(struct tally *tally)
{
	int r = add_current(tally);

	for (unsigned i = 0; tally->current.turns && i < TALLY_TURNS; i++)
		add_turn(tally, &tally->current.turns[i]);
	return r;
}

static int add_part(struct tally *tally, const struct touch *touch, uint32_t index)
{
	struct tally_sample *sample = &tally->current;
	int r = sample->sample != touch->sample ? add_current(tally) : 0;

	if (r == 0)
		r = grow_array(&sample->parts, sample->n, &sample->n_allocated,
			       sizeof(*sample->parts));
	if (r < 0)
		return r;
	sample->sample = touch->sample;
	sample->thread_row = touch->thread_row;
	sample->weight = (double)touch->weight;
	sample->parts[sample->n++] = (struct tally_part){
		.owner = { touch->owner.kind, owner_id_of(tally, touch) },
		.index = index,
		.of = touch->role == TRACE_ROLE_STALL ? SHARE_STALL : SHARE_TIME,
		.is_resolved = touch->is_resolved || touch->owner.kind != OWNER_unknown,
		.frame = touch->frame,
		.share = touch->share,
	};
	return 0;
}

int tally_any_touch(struct tally *tally, const struct touch *touch)
{
	bool has_share = touch->role == TRACE_ROLE_WINDOW || touch->role == TRACE_ROLE_STALL;
	uint32_t index = touch->owner.site;
	int r = 0;

	if (touch->owner.kind == OWNER_heap || touch->owner.kind == OWNER_named)
		count_heap(tally, touch);
	/* All accesses to a few bytes: no sample of the program's, which these sums are of. */
	if (touch->measures == MEASURES_WATCH)
		return 0;
	if (touch->owner.kind != OWNER_heap)
		r = object_totals_add(&tally->objects, touch, &index);
	if (r == 0 && has_share && !(touch->owner.kind == OWNER_heap && index == 0))
		r = add_part(tally, touch, index);
	if (r == 0 && !tally->has_no_lines)
		r = tally_line(tally, touch);
	if (r == 0 && touch->is_access && touch->role == TRACE_ROLE_EXACT)
		r = count_access(tally, touch);
	if (r == 0 && touch->node_number && touch->role == TRACE_ROLE_FAULT)
		r = count_node(tally, touch);
	return r;
}
