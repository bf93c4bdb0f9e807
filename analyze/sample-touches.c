#include "analyze/sample-touches.h"

static bool is_same_touch(const struct sample_access *a, const struct sample_access *b)
{
	return a->role == b->role && a->role != TRACE_ROLE_EXACT && !a->is_open && !b->is_open &&
	       a->owner.kind == b->owner.kind && a->owner.id == b->owner.id &&
	       a->owner.phase == b->owner.phase && a->is_write == b->is_write &&
	       (a->is_resolved || b->is_resolved || a->frame == b->frame);
}

size_t sample_touches_merge(struct sample_access *accesses, size_t n)
{
	size_t n_left = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < n_left && !is_same_touch(&accesses[k], &accesses[i]))
			k++;
		if (k < n_left)
			accesses[k].share += accesses[i].share;
		else
			accesses[n_left++] = accesses[i];
	}
	return n_left;
}

bool sample_touches_are_open(const struct sample_item *item)
{
	for (size_t i = 0; i < item->n; i++) {
		if (item->accesses[i].is_open)
			return true;
	}
	return false;
}

static void close_access(struct owners *owners, const struct sample_item *item,
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

void sample_touches_close(struct owners *owners, struct sample_item *item,
			  const struct owner_block *block, bool is_realloc)
{
	for (size_t i = 0; i < item->n; i++) {
		struct sample_access *access = &item->accesses[i];

		if (access->is_open)
			close_access(owners, item, access, block, is_realloc);
		access->is_open = false;
	}
	item->n = sample_touches_merge(item->accesses, item->n);
}
