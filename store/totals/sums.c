#include "store/totals/sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/columns/column.h"
#include "store/row-limit.h"
#include "store/totals/totals.h"

#define MAX_COLUMNS 12u

void sums_finish(struct sums *sums)
{
	free(sums->values);
	free(sums->bytes);
	chunk_encoder_close(sums->encoder);
	chunk_decoder_close(sums->decoder);
	*sums = (struct sums){ 0 };
}

/* INT64_MAX and INT64_MIN stand for none. */
static int64_t shifted(const struct sums *sums, int64_t time_ns)
{
	return time_ns == INT64_MAX || time_ns == INT64_MIN
		       ? time_ns
		       : (int64_t)((uint64_t)time_ns + (uint64_t)sums->shift_ns);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* ---- Blocks ---- */

static size_t one(const struct tally *tally)
{
	(void)tally;
	return 1;
}

static bool get_peak(const struct tally *tally, size_t i, int64_t *values)
{
	(void)i;
	values[0] = (int64_t)tally->total.peak_bytes;
	values[1] = tally->total.peak_ns;
	return true;
}

/* Before the sites, who say what they held at it. */
static int add_peak(struct sums *sums, const int64_t *values)
{
	struct tally *tally = sums->tally;

	sums->has_peak = sums->is_first || (uint64_t)values[0] > tally->total.peak_bytes;
	if (!sums->has_peak)
		return 0;
	tally->total.peak_bytes = (uint64_t)values[0];
	tally->total.peak_ns = shifted(sums, values[1]);
	tally->n_peaks++;
	for (size_t i = 1; i < tally->n_sites; i++)
		tally_keep_peak(tally, &tally->sites[i]); /* which holds nothing, in between */
	return 0;
}

static size_t n_sites(const struct tally *tally)
{
	return tally->n_sites;
}

/* What blocks did is whole where none was picked. */
static bool get_site(const struct tally *tally, size_t i, int64_t *values)
{
	const struct tally_site *site = &tally->sites[i];
	const struct site_ends ends = tally_ends_of(&tally->ends, i);
	const int64_t all[] = {
		site->stack_id,
		(int64_t)ends.n_blocks,
		(int64_t)ends.bytes,
		(int64_t)ends.n_frees,
		(int64_t)ends.unfreed_bytes,
		ends.first_ns,
		ends.last_ns,
		(int64_t)ends.byte_ns,
		(int64_t)(ends.byte_ns >> 64),
		(int64_t)site->peak_bytes,
		site->peak_ns,
	};

	memcpy(values, all, sizeof(all));
	return i > 0 && ends.first_ns != INT64_MAX;
}

static int add_site(struct sums *sums, const int64_t *values)
{
	struct tally *tally = sums->tally;
	struct tally_ends *ends = &tally->ends;
	uint32_t number;
	int r = row_is_below(values[0], sums->max_stacks) ? tally_site(tally, values[0], &number)
							  : -EBADMSG;

	r = r ?: tally_ends_live(ends, number, 0, shifted(sums, values[5]));
	if (r < 0)
		return r;
	tally_ends_left(ends, number, 0, shifted(sums, values[6]));
	struct site_ends *site = &ends->sites[number];
	site->n_blocks += (double)values[1];
	site->bytes += (uint64_t)values[2];
	site->n_frees += (double)values[3];
	site->unfreed_bytes += (uint64_t)values[4];
	site->byte_ns += (unsigned __int128)(uint64_t)values[8] << 64 | (uint64_t)values[7];
	ends->allocations += (double)values[1];
	ends->bytes += (uint64_t)values[2];
	ends->frees += (double)values[3];
	ends->live_blocks += (double)values[1] - (double)values[3];
	ends->live_bytes += (uint64_t)values[4];
	if ((uint64_t)values[9] > tally->sites[number].peak_bytes) {
		tally->sites[number].peak_bytes = (uint64_t)values[9];
		tally->sites[number].peak_ns = shifted(sums, values[10]);
	}
	return 0;
}

/* What was live at the peak. */
static bool get_kept(const struct tally *tally, size_t i, int64_t *values)
{
	struct tally_site site = tally->sites[i];

	tally_keep_peak(tally, &site);
	values[0] = site.stack_id;
	values[1] = (int64_t)site.kept_blocks;
	values[2] = (int64_t)site.kept_bytes;
	return i > 0 && site.kept_blocks > 0;
}

static int add_kept(struct sums *sums, const int64_t *values)
{
	struct tally *tally = sums->tally;
	uint32_t number;
	int r = row_is_below(values[0], sums->max_stacks) ? tally_site(tally, values[0], &number)
							  : -EBADMSG;

	if (r < 0 || !sums->has_peak)
		return r;
	tally->sites[number].kept = tally->n_peaks;
	tally->sites[number].kept_blocks = (double)values[1];
	tally->sites[number].kept_bytes = (uint64_t)values[2];
	tally->sites[number].kept_variance = 0;
	return 0;
}

static size_t n_block_threads(const struct tally *tally)
{
	return tally->ends.threads.n;
}

static bool get_block_thread(const struct tally *tally, size_t i, int64_t *values)
{
	const struct thread_total *thread = &tally->ends.threads.items[i];
	const int64_t all[] = {
		tally->ends.threads.first_row + (int64_t)i,
		(int64_t)thread->n_blocks,
		(int64_t)thread->bytes,
		(int64_t)thread->n_frees,
		(int64_t)thread->n_foreign,
		(int64_t)thread->live_blocks,
		(int64_t)thread->live_bytes,
	};

	memcpy(values, all, sizeof(all));
	return thread->n_blocks > 0 || thread->n_frees > 0;
}

static int find_thread(const struct sums *sums, struct thread_totals *totals, int64_t row,
		       struct thread_total **ret_thread)
{
	if (!row_is_below(row, sums->max_threads))
		return -EBADMSG;
	*ret_thread = thread_totals_at(totals, row);
	return *ret_thread ? 0 : -ENOMEM;
}

static int add_block_thread(struct sums *sums, const int64_t *values)
{
	struct thread_total *thread;
	int r = find_thread(sums, &sums->tally->ends.threads, values[0], &thread);

	if (r < 0)
		return r;
	thread->n_blocks += (double)values[1];
	thread->bytes += (uint64_t)values[2];
	thread->n_frees += (double)values[3];
	thread->n_foreign += (double)values[4];
	thread->live_blocks += (double)values[5];
	thread->live_bytes += (uint64_t)values[6];
	return 0;
}

static size_t n_cells(const struct tally *tally)
{
	(void)tally;
	return (size_t)HISTOGRAM_BUCKETS * HISTOGRAM_BUCKETS;
}

static bool get_cell(const struct tally *tally, size_t i, int64_t *values)
{
	const struct histogram_cell *cell =
		&tally->ends.histogram.cells[i / HISTOGRAM_BUCKETS][i % HISTOGRAM_BUCKETS];

	values[0] = (int64_t)i;
	values[1] = (int64_t)cell->n_blocks;
	values[2] = (int64_t)cell->bytes;
	return cell->n_blocks > 0;
}

static int add_cell(struct sums *sums, const int64_t *values)
{
	if (values[0] < 0 || (uint64_t)values[0] >= n_cells(sums->tally))
		return -EBADMSG;
	struct histogram_cell *cell =
		&sums->tally->ends.histogram
			 .cells[values[0] / HISTOGRAM_BUCKETS][values[0] % HISTOGRAM_BUCKETS];
	cell->n_blocks += (double)values[1];
	cell->bytes += (uint64_t)values[2];
	return 0;
}

/* ---- Touches ---- */

static bool get_samples(const struct tally *tally, size_t i, int64_t *values)
{
	(void)i;
	values[0] = (int64_t)tally->total.samples;
	values[1] = (int64_t)tally->total.faults;
	return true;
}

static int add_samples(struct sums *sums, const int64_t *values)
{
	sums->tally->total.samples += (uint64_t)values[0];
	sums->tally->total.faults += (uint64_t)values[1];
	return 0;
}

static bool get_touched(const struct tally *tally, size_t i, int64_t *values)
{
	const struct tally_site *site = &tally->sites[i];

	values[0] = site->stack_id;
	values[1] = (int64_t)site->n_faults;
	values[2] = site->first_touch_ns;
	values[3] = site->last_touch_ns;
	return i > 0 && (site->n_faults > 0 || site->first_touch_ns != INT64_MAX);
}

static int add_touched(struct sums *sums, const int64_t *values)
{
	uint32_t number;
	int r = row_is_below(values[0], sums->max_stacks)
			? tally_site(sums->tally, values[0], &number)
			: -EBADMSG;

	if (r < 0)
		return r;
	struct tally_site *site = &sums->tally->sites[number];
	site->n_faults += (uint64_t)values[1];
	site->first_touch_ns = least(site->first_touch_ns, shifted(sums, values[2]));
	site->last_touch_ns = most(site->last_touch_ns, shifted(sums, values[3]));
	return 0;
}

static size_t n_sample_threads(const struct tally *tally)
{
	return tally->threads.n;
}

static bool get_sample_thread(const struct tally *tally, size_t i, int64_t *values)
{
	values[0] = tally->threads.first_row + (int64_t)i;
	values[1] = (int64_t)tally->threads.items[i].n_faults;
	return values[1] > 0;
}

static int add_sample_thread(struct sums *sums, const int64_t *values)
{
	struct thread_total *thread;
	int r = find_thread(sums, &sums->tally->threads, values[0], &thread);

	if (r == 0)
		thread->n_faults += (uint64_t)values[1];
	return r;
}

static size_t n_objects(const struct tally *tally)
{
	return tally->objects.n;
}

static bool get_object(const struct tally *tally, size_t i, int64_t *values)
{
	const struct object_total *object = &tally->objects.items[i];
	const int64_t all[] = { object->owner_kind, object->owner_id, (int64_t)object->n_faults,
				object->first_touch_ns, object->last_touch_ns };

	memcpy(values, all, sizeof(all));
	return true;
}

static int add_object(struct sums *sums, const int64_t *values)
{
	struct object_total *object = object_totals_at(&sums->tally->objects, values[0], values[1]);

	if (!object)
		return -ENOMEM;
	object->n_faults += (uint64_t)values[2];
	object->first_touch_ns = least(object->first_touch_ns, shifted(sums, values[3]));
	object->last_touch_ns = most(object->last_touch_ns, shifted(sums, values[4]));
	return 0;
}

static size_t n_accesses(const struct tally *tally)
{
	return tally->accesses.n;
}

static size_t n_nodes(const struct tally *tally)
{
	return tally->fault_nodes.n;
}

static bool get_total(const struct access_total *total, int64_t *values)
{
	const int64_t all[] = {
		total->source_row,
		total->owner_kind,
		total->owner_id,
		total->data_src,
		(int64_t)total->n,
		(int64_t)total->n_writes,
		(int64_t)total->n_latencies,
		(int64_t)total->latency,
	};

	memcpy(values, all, sizeof(all));
	memcpy(&values[8], &total->latency_sq, sizeof(values[8]));
	return true;
}

static bool get_access(const struct tally *tally, size_t i, int64_t *values)
{
	return get_total(&tally->accesses.items[i], values);
}

static bool get_node(const struct tally *tally, size_t i, int64_t *values)
{
	return get_total(&tally->fault_nodes.items[i], values);
}

static int add_total(struct access_totals *totals, const int64_t *values)
{
	const struct access_total like = { values[0], values[1], values[2], values[3] };
	struct access_total *total = access_totals_at(totals, &like);
	double latency_sq;

	if (!total)
		return -ENOMEM;
	memcpy(&latency_sq, &values[8], sizeof(latency_sq));
	total->n += (uint64_t)values[4];
	total->n_writes += (uint64_t)values[5];
	total->n_latencies += (uint64_t)values[6];
	total->latency += (uint64_t)values[7];
	total->latency_sq += latency_sq;
	return 0;
}

static int add_access(struct sums *sums, const int64_t *values)
{
	return add_total(&sums->tally->accesses, values);
}

static int add_node(struct sums *sums, const int64_t *values)
{
	return add_total(&sums->tally->fault_nodes, values);
}

static size_t n_stacks(const struct tally *tally)
{
	return tally->stacks.n;
}

static bool get_stack(const struct tally *tally, size_t i, int64_t *values)
{
	const struct stack_total *stack = &tally->stacks.items[i];

	values[0] = stack->measures;
	values[1] = stack->stack_id;
	values[2] = (int64_t)stack->n;
	values[3] = stack->weight;
	return true;
}

static int add_stack(struct sums *sums, const int64_t *values)
{
	if (values[0] < 0 || values[0] > MEASURES_PAGES)
		return -EBADMSG;
	struct stack_total *stack =
		stack_totals_at(&sums->tally->stacks, (enum source_measures)values[0], values[1]);
	if (!stack)
		return -ENOMEM;
	stack->n += (uint64_t)values[2];
	stack->weight = (int64_t)((uint64_t)stack->weight + (uint64_t)values[3]);
	return 0;
}

/* ---- Tables ---- */

static const struct table {
	enum sums_of of;
	unsigned n_columns;
	size_t (*n)(const struct tally *tally);
	bool (*get)(const struct tally *tally, size_t i, int64_t *values); /* false: no row */
	int (*add)(struct sums *sums, const int64_t *values);
} tables[] = {
	{ SUMS_OF_BLOCKS, 2, one, get_peak, add_peak },
	{ SUMS_OF_BLOCKS, 11, n_sites, get_site, add_site },
	{ SUMS_OF_BLOCKS, 3, n_sites, get_kept, add_kept },
	{ SUMS_OF_BLOCKS, 7, n_block_threads, get_block_thread, add_block_thread },
	{ SUMS_OF_BLOCKS, 3, n_cells, get_cell, add_cell },
	{ SUMS_OF_TOUCHES, 2, one, get_samples, add_samples },
	{ SUMS_OF_TOUCHES, 4, n_sites, get_touched, add_touched },
	{ SUMS_OF_TOUCHES, 2, n_sample_threads, get_sample_thread, add_sample_thread },
	{ SUMS_OF_TOUCHES, 5, n_objects, get_object, add_object },
	{ SUMS_OF_TOUCHES, 9, n_accesses, get_access, add_access },
	{ SUMS_OF_TOUCHES, 9, n_nodes, get_node, add_node },
	{ SUMS_OF_TOUCHES, 4, n_stacks, get_stack, add_stack },
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

static int append(struct sums *sums, const void *bytes, size_t n)
{
	int r = grow_array_by(&sums->bytes, sums->n, n, &sums->n_allocated, 1);

	if (r == 0)
		memcpy(sums->bytes + sums->n, bytes, n);
	sums->n += r == 0 ? n : 0;
	return r;
}

/* Columns lie CHUNK_FRAME_ROWS apart. */
static int write_columns(struct sums *sums, unsigned n_columns, uint32_t n_rows)
{
	int r = append(sums, &n_rows, sizeof(n_rows));

	for (unsigned i = 0; i < n_columns && n_rows > 0 && r == 0; i++) {
		const struct chunk_values values = { .values = sums->values + i * CHUNK_FRAME_ROWS,
						     .n = n_rows };
		const void *bytes;
		size_t n;
		r = chunk_column_encode(sums->encoder, &values,
					(struct chunk_plan){ .coding = CHUNK_PLAIN }, &bytes, &n);
		uint32_t n_bytes = (uint32_t)n;
		r = r ?: append(sums, &n_bytes, sizeof(n_bytes));
		r = r ?: append(sums, bytes, n);
	}
	return r;
}

/* As many groups of rows as it takes; one that is not full is the last one. */
static int write_table(struct sums *sums, const struct table *table)
{
	size_t n = table->n(sums->tally);
	int64_t row[MAX_COLUMNS];
	uint32_t n_rows = 0;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (!table->get(sums->tally, i, row))
			continue;
		for (unsigned k = 0; k < table->n_columns; k++)
			sums->values[k * CHUNK_FRAME_ROWS + n_rows] = row[k];
		if (++n_rows < CHUNK_FRAME_ROWS)
			continue;
		r = write_columns(sums, table->n_columns, n_rows);
		n_rows = 0;
	}
	return r < 0 ? r : write_columns(sums, table->n_columns, n_rows);
}

static int make_room(struct sums *sums)
{
	if (!sums->values)
		sums->values = malloc(MAX_COLUMNS * CHUNK_FRAME_ROWS * sizeof(*sums->values));
	return sums->values ? 0 : -ENOMEM;
}

/* Those of the tally, in place of the bytes that are there. 0 or a negative errno. */
static int write_sums(struct sums *sums, enum sums_of of)
{
	int r = make_room(sums);

	if (r == 0 && !sums->encoder && !(sums->encoder = chunk_encoder_open()))
		r = -ENOMEM;
	sums->n = 0;
	for (size_t i = 0; i < N_TABLES && r == 0; i++) {
		if (tables[i].of == of)
			r = write_table(sums, &tables[i]);
	}
	return r;
}

struct bytes {
	const uint8_t *at;
	size_t n; /* left */
};

static int read_number(struct bytes *bytes, uint32_t *ret_number)
{
	if (bytes->n < sizeof(*ret_number))
		return -EBADMSG;
	memcpy(ret_number, bytes->at, sizeof(*ret_number));
	bytes->at += sizeof(*ret_number);
	bytes->n -= sizeof(*ret_number);
	return 0;
}

static int read_column(struct sums *sums, struct bytes *bytes, int64_t *values, uint32_t n_rows)
{
	const struct chunk_wanted wanted = { .values = values, .n = n_rows };
	struct chunk_outline outline;
	uint32_t n;
	int r = read_number(bytes, &n);

	if (r == 0 && n > bytes->n)
		r = -EBADMSG;
	r = r ?: chunk_column_check(bytes->at, n, &outline);
	if (r == 0 && (outline.other >= 0 || outline.n_rows != n_rows))
		r = -EBADMSG;
	r = r ?: chunk_column_values(sums->decoder, bytes->at, n, &wanted);
	if (r < 0)
		return r;
	bytes->at += n;
	bytes->n -= n;
	return 0;
}

static int add_rows(struct sums *sums, const struct table *table, uint32_t n_rows)
{
	int64_t row[MAX_COLUMNS];
	int r = 0;

	for (uint32_t i = 0; i < n_rows && r == 0; i++) {
		for (unsigned k = 0; k < table->n_columns; k++)
			row[k] = sums->values[k * CHUNK_FRAME_ROWS + i];
		r = table->add(sums, row);
	}
	return r;
}

static int add_table(struct sums *sums, const struct table *table, struct bytes *bytes)
{
	uint32_t n_rows = CHUNK_FRAME_ROWS;
	int r = 0;

	while (n_rows == CHUNK_FRAME_ROWS && r == 0) {
		r = read_number(bytes, &n_rows);
		if (r == 0 && n_rows > CHUNK_FRAME_ROWS)
			r = -EBADMSG;
		for (unsigned i = 0; i < table->n_columns && n_rows > 0 && r == 0; i++)
			r = read_column(sums, bytes, sums->values + i * CHUNK_FRAME_ROWS, n_rows);
		r = r ?: add_rows(sums, table, n_rows);
	}
	return r;
}

int sums_add(struct sums *sums, enum sums_of of, const void *at, size_t n)
{
	struct bytes bytes = { at, n };
	int r = make_room(sums);

	if (r == 0 && !sums->decoder && !(sums->decoder = chunk_decoder_open()))
		r = -ENOMEM;
	for (size_t i = 0; i < N_TABLES && r == 0; i++) {
		if (tables[i].of == of)
			r = add_table(sums, &tables[i], &bytes);
	}
	sums->is_first = false;
	return r == 0 && bytes.n > 0 ? -EBADMSG : r;
}

/* ---- From one stretch to the next ---- */

static int clear_blocks(struct tally *tally, int64_t time_ns)
{
	struct tally_ends *ends = &tally->ends;
	int r = 0;

	memset(&ends->histogram, 0, sizeof(ends->histogram));
	for (size_t i = 0; i < ends->threads.n; i++)
		ends->threads.items[i] = (struct thread_total){ 0 };
	ends->n_sites = 0;
	for (size_t i = 1; i < tally->n_sites && r == 0; i++) {
		struct tally_site *site = &tally->sites[i];
		site->peak_bytes = site->live_bytes;
		site->peak_ns = time_ns;
		if (site->n_live > 0)
			r = tally_ends_live(ends, (uint32_t)i, site->live_bytes, time_ns);
	}
	tally->total.peak_bytes = tally->live_bytes;
	tally->total.peak_ns = time_ns;
	tally->n_peaks++;
	return r;
}

static void clear_touches(struct tally *tally)
{
	for (size_t i = 1; i < tally->n_sites; i++) {
		tally->sites[i].n_faults = 0;
		tally->sites[i].first_touch_ns = INT64_MAX;
		tally->sites[i].last_touch_ns = INT64_MIN;
	}
	for (size_t i = 0; i < tally->threads.n; i++)
		tally->threads.items[i] = (struct thread_total){ 0 };
	tally->total.samples = tally->total.faults = 0;
	object_totals_finish(&tally->objects);
	access_totals_finish(&tally->accesses);
	access_totals_finish(&tally->fault_nodes);
	stack_totals_finish(&tally->stacks);
}

int sums_clear(struct tally *tally, enum sums_of of, int64_t time_ns)
{
	if (of == SUMS_OF_BLOCKS)
		return clear_blocks(tally, time_ns);
	clear_touches(tally);
	return 0;
}

/* ---- Parts ---- */

void sums_parts_finish(struct sums_parts *parts)
{
	array_free(parts->items, parts->n, it, free(it->bytes));
	*parts = (struct sums_parts){ 0 };
}

int sums_keep(struct sums *sums, enum sums_of of, int64_t from_ns, struct sums_parts *parts)
{
	int r = write_sums(sums, of);
	struct sums_part part = { from_ns, r < 0 ? NULL : malloc(sums->n), sums->n };

	if (r < 0)
		return r;
	if (!part.bytes || grow_one(&parts->items, parts->n, &parts->n_allocated) < 0)
		return free(part.bytes), -ENOMEM;
	memcpy(part.bytes, sums->bytes, part.n);
	parts->items[parts->n++] = part;
	return 0;
}

int sums_join(struct sums *sums, enum sums_of of, const struct sums_parts *parts, int64_t to_ns,
	      size_t *at)
{
	int r = 0;

	sums->is_first = true;
	for (; *at < parts->n && parts->items[*at].from_ns < to_ns && r == 0; ++*at)
		r = sums_add(sums, of, parts->items[*at].bytes, parts->items[*at].n);
	return r ?: write_sums(sums, of);
}
