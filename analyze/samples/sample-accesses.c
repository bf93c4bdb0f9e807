#include "analyze/samples/sample-accesses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/samples-internal.h"
#include "common/array.h"

/* Whether their shares are of one sum: of a role, an owner and a direction. */
static bool is_alike(const struct sample_access *a, const struct sample_access *b)
{
	return a->role == b->role && a->role != TRACE_ROLE_EXACT && !a->is_open && !b->is_open &&
	       a->owner.kind == b->owner.kind && a->owner.id == b->owner.id &&
	       a->owner.phase == b->owner.phase && a->is_write == b->is_write &&
	       a->is_resolved == b->is_resolved && (a->is_resolved || a->frame == b->frame);
}

/*
 * From 0 up to below 1, the same for the same sample and access. splitmix64's mixing, as in
 * statistics.c.
 */
static double draw(uint64_t time_ns, const struct sample_access *access, size_t i)
{
	uint64_t z =
		time_ns + (access->ip ^ access->address << 20 ^ i) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/*
 * One too many is alike: one goes, and the others stand for it, such that each address has its
 * share on the average (Cohen, Duffield, Kaplan, Lund, Thorup: Stream sampling for variance-optimal
 * estimation of subset sums, 2009). Those below a threshold go with a probability of what they
 * lack, and have the threshold's share when they stay. alike: of them, from the smallest share up.
 * Returns which one goes.
 */
static size_t pick_one(struct sample_access *const *alike, size_t n, double u)
{
	double threshold = alike[0]->share + alike[1]->share;
	size_t n_small = 2, gone = 0;

	if (threshold <= 0)
		return 0;
	while (n_small < n && alike[n_small]->share < threshold) {
		double sum = threshold * (double)(n_small - 1) + alike[n_small]->share;
		threshold = sum / (double)n_small++;
	}
	for (size_t i = 0; i + 1 < n_small && u >= 0; i++) {
		u -= 1 - alike[i]->share / threshold;
		gone = u < 0 ? i : i + 1;
	}
	for (size_t i = 0; i < n_small; i++)
		alike[i]->share = threshold;
	return gone;
}

static void put_in_order(struct sample_access **alike, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		for (size_t k = i; k > 0 && alike[k]->share < alike[k - 1]->share; k--) {
			struct sample_access *other = alike[k];
			alike[k] = alike[k - 1];
			alike[k - 1] = other;
		}
	}
}

/* Take accesses[i] to the n_left that stay, which lie before it. Returns how many stay. */
static size_t take(struct sample_access *accesses, size_t n_left, size_t i, uint64_t time_ns)
{
	struct sample_access *alike[SAMPLE_MAX_ALIKE + 1];
	const struct sample_access access = accesses[i];
	const size_t n_most = access.role == TRACE_ROLE_WINDOW ? SAMPLE_MAX_ALIKE : 1;
	size_t n = 0;

	for (size_t k = 0; k < n_left; k++) {
		if (!is_alike(&accesses[k], &access))
			continue;
		if (accesses[k].address == access.address && accesses[k].frame == access.frame) {
			accesses[k].share += access.share;
			return n_left;
		}
		alike[n++] = &accesses[k];
	}
	accesses[n_left] = access;
	if (n < n_most)
		return n_left + 1;
	alike[n] = &accesses[n_left];
	put_in_order(alike, n + 1);
	*alike[pick_one(alike, n + 1, draw(time_ns, &access, i))] = accesses[n_left];
	return n_left;
}

size_t sample_touches_merge(struct sample_access *accesses, size_t n, int64_t time_ns)
{
	size_t n_left = n > 0;

	for (size_t i = 1; i < n; i++)
		n_left = take(accesses, n_left, i, (uint64_t)time_ns);
	return n_left;
}

bool sample_touches_are_open(const struct pending_sample *item)
{
	for (size_t i = 0; i < item->n; i++) {
		if (item->accesses[i].is_open)
			return true;
	}
	return false;
}

static void close_access(struct owners *owners, const struct pending_sample *item,
			 struct sample_access *access, const struct owner_block *block,
			 bool is_realloc)
{
	const struct owner_question question = {
		.process = item->process,
		.thread = item->thread,
		.address = access->address,
		.ip = access->ip,
		.time_ns = item->time_ns,
	};

	if (block && owners_allocating(owners, &question, block, &access->owner))
		return;
	if (is_realloc && item->has_freed)
		owners_moving(owners, &question, &item->freed, &access->owner);
}

/*
 * The next event of the item's thread made block (NULL: made none, or there is no next): decide
 * what is open, and merge.
 */
static void sample_touches_close(struct owners *owners, struct pending_sample *item,
				 const struct owner_block *block, bool is_realloc)
{
	for (size_t i = 0; i < item->n; i++) {
		struct sample_access *access = &item->accesses[i];

		if (access->is_open)
			close_access(owners, item, access, block, is_realloc);
		access->is_open = false;
	}
	item->n = sample_touches_merge(item->accesses, item->n, item->time_ns);
}

static bool is_code(const struct sample_code *code, const struct pending_sample *item, uint64_t ip)
{
	return code->frame > 0 && code->ip == ip && code->space == item->space;
}

/* Two share two places: the one that was found out longest ago gives way. */
struct sample_code *sample_code_at(struct samples *samples, const struct pending_sample *item,
				   uint64_t ip)
{
	size_t hash = (size_t)((ip ^ ip >> 13) + item->space * UINT64_C(7919));
	struct sample_code *code = &samples->codes[hash % SAMPLE_CODES & ~(size_t)1];
	struct sample_code *other = code + 1;

	if (is_code(code, item, ip))
		return code;
	if (is_code(other, item, ip))
		return other;
	*other = *code;
	*code = (struct sample_code){
		.ip = ip,
		.space = item->space,
		.frame = stacks_frame(samples->context.stacks, item->process, ip, item->time_ns),
		.is_tool =
			owners_is_tool(samples->context.owners, item->process, ip, item->time_ns),
	};
	return code->frame > 0 ? code : NULL;
}

void sample_add_access(struct pending_sample *item, const struct sample_access *access)
{
	if (item->n == SAMPLE_MAX_ACCESSES)
		item->n = sample_touches_merge(item->accesses, item->n, item->time_ns);
	if (item->n < SAMPLE_MAX_ACCESSES)
		item->accesses[item->n++] = *access;
}

void sample_add_plain(struct pending_sample *item, enum trace_role role, enum owner_kind kind,
		      double share)
{
	const struct sample_access access = {
		.role = role,
		.share = share,
		.size = -1,
		.is_write = -1,
		.owner = { .kind = kind },
	};

	if (share > 0)
		sample_add_access(item, &access);
}

/* Only a traced thread has a next event. */
static bool may_wait(const struct samples *samples, const struct pending_sample *item)
{
	const struct task_process *process = tasks_process(samples->context.tasks, item->process);

	return process && process->why_not == TRACE_TRACED && item->thread &&
	       item->thread < TASKS_UNSEEN;
}

int sample_find_owner(struct samples *samples, struct pending_sample *item,
		      struct sample_access *access)
{
	const struct sample_code *code = sample_code_at(samples, item, access->ip);
	const struct owner_question question = {
		.process = item->process,
		.thread = item->thread,
		.address = access->address,
		.ip = access->ip,
		.time_ns = item->time_ns,
		.is_not_tool = code && !code->is_tool,
	};

	if (!code)
		return -ENOMEM;
	access->frame = code->frame;
	access->owner = owners_find(samples->context.owners, &question, &access->is_open);
	access->is_open = access->is_open && may_wait(samples, item);
	return 0;
}

static struct sample_list *list_of(struct sample_waiting *waiting, uint32_t thread)
{
	while (waiting->n_threads < thread) {
		if (grow_array(&waiting->threads, waiting->n_threads, &waiting->n_threads_allocated,
			       sizeof(*waiting->threads)) < 0)
			return NULL;
		waiting->threads[waiting->n_threads++] = (struct sample_list){ 0 };
	}
	return &waiting->threads[thread - 1];
}

static int settle_list(struct sample_waiting *waiting, struct sample_list *list,
		       const struct owner_block *block, bool is_realloc)
{
	int r = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct pending_sample *item = list->items[i];

		sample_touches_close(waiting->owners, item, block, is_realloc);
		r = r ?: waiting->settle(waiting->user, item);
		free(item);
	}
	waiting->n -= list->n;
	list->n = 0;
	return r;
}

int sample_waiting_add(struct sample_waiting *waiting, const struct pending_sample *item)
{
	size_t n_bytes = sizeof(*item) + item->n * sizeof(item->accesses[0]);
	struct sample_list *list = list_of(waiting, item->thread);
	struct pending_sample *copy = malloc(n_bytes);
	int r = 0;

	if (list && list->n >= SAMPLE_MAX_WAITING)
		r = settle_list(waiting, list, NULL, false);
	else if (waiting->n >= SAMPLE_MAX_WAITING_ALL)
		r = sample_waiting_settle(waiting);
	if (r < 0 || !list || !copy ||
	    grow_array(&list->items, list->n, &list->n_allocated, sizeof(*list->items)) < 0)
		return free(copy), r < 0 ? r : -ENOMEM;
	memcpy(copy, item, n_bytes);
	list->items[list->n++] = copy;
	waiting->n++;
	return 0;
}

bool sample_waiting_has(const struct sample_waiting *waiting, uint32_t thread)
{
	return thread - 1 < waiting->n_threads && waiting->threads[thread - 1].n > 0;
}

int sample_waiting_event(struct sample_waiting *waiting, uint32_t thread,
			 const struct owner_block *block, bool is_realloc)
{
	if (!sample_waiting_has(waiting, thread))
		return 0;
	return settle_list(waiting, &waiting->threads[thread - 1], block, is_realloc);
}

int sample_waiting_settle(struct sample_waiting *waiting)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < waiting->n_threads; i++)
		r = settle_list(waiting, &waiting->threads[i], NULL, false);
	return r;
}

void sample_waiting_finish(struct sample_waiting *waiting)
{
	for (size_t i = 0; i < waiting->n_threads; i++) {
		for (size_t k = 0; k < waiting->threads[i].n; k++)
			free(waiting->threads[i].items[k]);
		free(waiting->threads[i].items);
	}
	free(waiting->threads);
	waiting->threads = NULL;
	waiting->n_threads = 0;
	waiting->n = 0;
}
