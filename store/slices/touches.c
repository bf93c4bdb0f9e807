#include "store/slices/touches.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "store/touch.h"

int slice_touches_init(struct slice_touches *touches, int64_t first_thread)
{
	int r = tally_init(&touches->tally);

	touches->tally.has_no_timeline = touches->tally.has_no_lines = true;
	touches->tally.threads.first_row = first_thread;
	touches->n_clock = 0;
	return r;
}

void slice_touches_finish(struct slice_touches *touches)
{
	tally_finish(&touches->tally);
	*touches = (struct slice_touches){ 0 };
}

size_t slice_touches_n_rows(const struct slice_touches *touches)
{
	const struct tally *tally = &touches->tally;

	return tally->n_sites + tally->objects.n + tally->accesses.n + tally->fault_nodes.n +
	       tally->unresolved.n;
}

/* ---- As bytes ---- */

#define SHARE_COLUMNS 20 /* of an owner */

/* The shares of an owner: those of time, then those of stalls. */
static void pack_shares(const struct owner_shares *shares, int64_t *values)
{
	for (int of = 0; of < SHARE_COUNT; of++) {
		const struct share_sum *sum = &shares->of[of];
		const double reals[] = { sum->n,       sum->n_sq,   sum->time,	 sum->time_sq,
					 sum->time_w,  sum->lag[0], sum->lag[1], sum->turned,
					 sum->turn_sq, sum->turn_w };
		for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
			*values++ = slice_of_real(reals[i]);
	}
}

static void add_shares(struct owner_shares *shares, const int64_t *values)
{
	for (int of = 0; of < SHARE_COUNT; of++) {
		struct share_sum *sum = &shares->of[of];
		double *reals[] = { &sum->n,	   &sum->n_sq,	 &sum->time,   &sum->time_sq,
				    &sum->time_w,  &sum->lag[0], &sum->lag[1], &sum->turned,
				    &sum->turn_sq, &sum->turn_w };
		for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
			*reals[i] += slice_real(*values++);
	}
}

static int pack_site(const struct tally_site *site, struct slice_blob *blob)
{
	bool is_touched = site->first_touch_ns != INT64_MAX;
	int64_t values[5 + SHARE_COLUMNS] = {
		site->stack_id,
		is_touched,
		is_touched ? site->first_touch_ns : 0,
		is_touched ? site->last_touch_ns : 0,
		(int64_t)site->n_faults,
	};

	pack_shares(&site->shares, values + 5);
	return slice_blob_row(blob, SLICE_HEAP, values, sizeof(values) / sizeof(values[0]));
}

static int pack_object(const struct object_total *item, struct slice_blob *blob)
{
	int64_t values[5 + SHARE_COLUMNS] = {
		item->owner_kind,    item->owner_id,	      item->first_touch_ns,
		item->last_touch_ns, (int64_t)item->n_faults,
	};

	pack_shares(&item->shares, values + 5);
	return slice_blob_row(blob, SLICE_OBJECTS, values, sizeof(values) / sizeof(values[0]));
}

static int pack_kinds(const struct tally *tally, struct slice_blob *blob)
{
	int r = 0;

	for (int64_t kind = 0; kind < (int64_t)TALLY_KINDS && r == 0; kind++) {
		int64_t values[1 + SHARE_COLUMNS] = { kind };
		const struct owner_shares *shares = &tally->kinds[kind];
		pack_shares(shares, values + 1);
		if (shares->of[SHARE_TIME].n + shares->of[SHARE_STALL].n > 0)
			r = slice_blob_row(blob, SLICE_KINDS, values,
					   sizeof(values) / sizeof(values[0]));
	}
	return r;
}

static int pack_accesses(const struct access_totals *totals, enum slice_section section,
			 struct slice_blob *blob)
{
	int r = 0;

	for (size_t i = 0; i < totals->n && r == 0; i++) {
		const struct access_total *item = &totals->items[i];
		const int64_t values[] = {
			item->source_row,
			item->owner_kind,
			item->owner_id,
			item->data_src,
			(int64_t)item->n,
			(int64_t)item->n_writes,
			(int64_t)item->n_latencies,
			(int64_t)item->latency,
			slice_of_real(item->latency_sq),
		};
		r = slice_blob_row(blob, section, values, sizeof(values) / sizeof(values[0]));
	}
	return r;
}

static int pack_unresolved(const struct unresolved_shares *shares, struct slice_blob *blob)
{
	int r = 0;

	for (size_t i = 0; i < shares->n && r == 0; i++) {
		const struct unresolved_share *share = &shares->items[i];
		int64_t values[6 + 3 * UNRESOLVED_BESIDE] = {
			share->frame,
			share->of,
			(int64_t)share->n_samples,
			slice_of_real(share->n),
			slice_of_real(share->time),
			slice_of_real(share->time_sq),
		};
		for (unsigned k = 0; k < UNRESOLVED_BESIDE; k++) {
			values[6 + 3 * k] = share->beside[k].kind;
			values[7 + 3 * k] = share->beside[k].id;
			values[8 + 3 * k] = slice_of_real(share->cross[k]);
		}
		r = slice_blob_row(blob, SLICE_UNRESOLVED, values, 6 + 3 * UNRESOLVED_BESIDE);
	}
	return r;
}

static int pack_threads(const struct thread_totals *threads, struct slice_blob *blob)
{
	static const struct thread_total nothing;
	int r = 0;

	for (size_t i = 0; i < threads->n && r == 0; i++) {
		const struct thread_total *thread = &threads->items[i];
		const int64_t values[] = { threads->first_row + (int64_t)i,
					   (int64_t)thread->n_samples, thread->time_ns,
					   (int64_t)thread->n_faults };
		if (memcmp(thread, &nothing, sizeof(nothing)) != 0)
			r = slice_blob_row(blob, SLICE_SAMPLE_THREADS, values, 4);
	}
	return r;
}

int slice_touches_pack(struct slice_touches *touches, struct slice_blob *blob)
{
	const struct tally *tally = &touches->tally;
	int r = tally_settle(&touches->tally);
	const int64_t values[] = {
		(int64_t)tally->total.samples,
		(int64_t)tally->total.faults,
		touches->n_clock,
		slice_of_real(tally->design.n),
		slice_of_real(tally->design.time),
		slice_of_real(tally->design.time_sq),
		slice_of_real(tally->design.lag[0]),
		slice_of_real(tally->design.lag[1]),
		slice_of_real(tally->design.young_sq),
		slice_of_real(tally->design.turn_sq),
		slice_of_real(tally->design.n_turns),
	};

	if (r == 0)
		r = slice_blob_row(blob, SLICE_SAMPLES, values, 11);
	if (r == 0)
		r = pack_kinds(tally, blob);
	for (size_t i = 1; i < tally->n_sites && r == 0; i++)
		r = pack_site(&tally->sites[i], blob);
	for (size_t i = 0; i < tally->objects.n && r == 0; i++)
		r = pack_object(&tally->objects.items[i], blob);
	if (r == 0)
		r = pack_accesses(&tally->accesses, SLICE_ACCESSES, blob);
	if (r == 0)
		r = pack_accesses(&tally->fault_nodes, SLICE_NODES, blob);
	if (r == 0)
		r = pack_unresolved(&tally->unresolved, blob);
	return r < 0 ? r : pack_threads(&tally->threads, blob);
}

/* ---- Adding ---- */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int add_site(const struct slice_touches_sum *sum, const int64_t *values)
{
	uint32_t number;

	if (values[0] < 0 || values[0] > sum->last_stack)
		return -EBADMSG;
	int r = tally_site(sum->tally, values[0], &number);
	if (r < 0)
		return r;
	struct tally_site *site = &sum->tally->sites[number];
	if (values[1]) {
		site->first_touch_ns =
			least(site->first_touch_ns, slice_minus(values[2], sum->from_ns));
		site->last_touch_ns =
			most(site->last_touch_ns, slice_minus(values[3], sum->from_ns));
	}
	site->n_faults += (uint64_t)values[4];
	add_shares(&site->shares, values + 5);
	return 0;
}

static int add_object(const struct slice_touches_sum *sum, const int64_t *values)
{
	struct object_total *item;
	int r = object_totals_at(&sum->tally->objects, values[0], values[1], &item);

	if (r < 0)
		return r;
	item->first_touch_ns = least(item->first_touch_ns, slice_minus(values[2], sum->from_ns));
	item->last_touch_ns = most(item->last_touch_ns, slice_minus(values[3], sum->from_ns));
	item->n_faults += (uint64_t)values[4];
	add_shares(&item->shares, values + 5);
	return 0;
}

static int add_access(struct access_totals *totals, const int64_t *values)
{
	const struct access_total like = { .source_row = values[0],
					   .owner_kind = values[1],
					   .owner_id = values[2],
					   .data_src = values[3] };
	struct access_total *item;
	int r = access_totals_at(totals, &like, &item);

	if (r < 0)
		return r;
	item->n += (uint64_t)values[4];
	item->n_writes += (uint64_t)values[5];
	item->n_latencies += (uint64_t)values[6];
	item->latency += (uint64_t)values[7];
	item->latency_sq += slice_real(values[8]);
	return 0;
}

static int add_thread(const struct slice_touches_sum *sum, const int64_t *values)
{
	struct thread_totals *threads = &sum->tally->threads;

	if (values[0] < threads->first_row || values[0] > sum->last_thread)
		return -EBADMSG;
	struct thread_total *thread = thread_totals_at(threads, values[0]);
	if (!thread)
		return -ENOMEM;
	thread->n_samples += (uint64_t)values[1];
	thread->time_ns = (int64_t)((uint64_t)thread->time_ns + (uint64_t)values[2]);
	thread->n_faults += (uint64_t)values[3];
	return 0;
}

static int add_unresolved(struct tally *tally, const int64_t *values)
{
	struct unresolved_share share = {
		.frame = values[0],
		.of = (enum share_of)values[1],
		.n_samples = (uint64_t)values[2],
		.n = slice_real(values[3]),
		.time = slice_real(values[4]),
		.time_sq = slice_real(values[5]),
	};

	if ((uint64_t)values[1] >= SHARE_COUNT)
		return -EBADMSG;
	for (unsigned i = 0; i < UNRESOLVED_BESIDE; i++) {
		share.beside[i] = (struct owner_name){ values[6 + 3 * i], values[7 + 3 * i] };
		share.cross[i] = slice_real(values[8 + 3 * i]);
	}
	return unresolved_add(&tally->unresolved, &share);
}

static int add_samples(const struct slice_touches_sum *sum, const int64_t *values)
{
	sum->tally->total.samples += (uint64_t)values[0];
	sum->tally->total.faults += (uint64_t)values[1];
	*sum->n_clock = (int64_t)((uint64_t)*sum->n_clock + (uint64_t)values[2]);
	struct share_design *design = &sum->tally->design;
	design->n += slice_real(values[3]);
	design->time += slice_real(values[4]);
	design->time_sq += slice_real(values[5]);
	design->lag[0] += slice_real(values[6]);
	design->lag[1] += slice_real(values[7]);
	design->young_sq += slice_real(values[8]);
	design->turn_sq += slice_real(values[9]);
	design->n_turns += slice_real(values[10]);
	return 0;
}

int slice_touches_add(void *context, enum slice_section section, const int64_t *values)
{
	const struct slice_touches_sum *sum = context;

	switch (section) {
	case SLICE_HEAP:
		return add_site(sum, values);
	case SLICE_OBJECTS:
		return add_object(sum, values);
	case SLICE_ACCESSES:
		return add_access(&sum->tally->accesses, values);
	case SLICE_NODES:
		return add_access(&sum->tally->fault_nodes, values);
	case SLICE_KINDS:
		if ((uint64_t)values[0] >= TALLY_KINDS)
			return -EBADMSG;
		add_shares(&sum->tally->kinds[values[0]], values + 1);
		return 0;
	case SLICE_UNRESOLVED:
		return add_unresolved(sum->tally, values);
	case SLICE_SAMPLE_THREADS:
		return add_thread(sum, values);
	case SLICE_SAMPLES:
		return add_samples(sum, values);
	default:
		return 0;
	}
}
