#include "store/losses.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"

void losses_finish(struct losses *losses)
{
	array_free(losses->items, losses->n, it, free(it->source), free(it->reason));
	*losses = (struct losses){ 0 };
}

static bool is_equal(const struct losses_item *a, const struct losses_item *b)
{
	return a->process_row == b->process_row && a->thread_row == b->thread_row &&
	       strcmp(a->source, b->source) == 0 && strcmp(a->reason, b->reason) == 0;
}

static void add_up(struct losses_item *sum, const struct losses_item *item)
{
	sum->count += item->count;
	if (sum->from_ns == INT64_MIN ||
	    (item->from_ns != INT64_MIN && item->from_ns < sum->from_ns))
		sum->from_ns = item->from_ns;
	if (item->to_ns > sum->to_ns)
		sum->to_ns = item->to_ns;
}

static int append(struct losses *losses, const struct losses_item *item)
{
	if (grow_array_of(&losses->items, losses->n, 1, sizeof(*losses->items)) < 0)
		return -ENOMEM;

	auto_free char *source = strdup(item->source);
	auto_free char *reason = strdup(item->reason);
	if (!source || !reason)
		return -ENOMEM;
	struct losses_item *added = &losses->items[losses->n++];
	*added = *item;
	added->source = steal_ptr(&source);
	added->reason = steal_ptr(&reason);
	return 0;
}

int losses_add(struct losses *losses, const struct losses_item *item)
{
	if (item->count == 0)
		return 0;
	losses->total += item->count;
	for (size_t i = losses->n; i-- > 0;) { /* equal ones mostly follow each other */
		if (is_equal(&losses->items[i], item)) {
			add_up(&losses->items[i], item);
			return 0;
		}
	}
	return append(losses, item);
}

int losses_count(struct losses *losses, const char *source, const char *reason, uint64_t count)
{
	struct losses_item item = {
		.process_row = INT64_MIN,
		.thread_row = INT64_MIN,
		.from_ns = INT64_MIN,
		.to_ns = INT64_MIN,
		.count = count,
		.source = (char *)source,
		.reason = (char *)reason,
	};

	return losses_add(losses, &item);
}

int losses_count_each(struct losses *losses, const struct losses_row *rows, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = losses_count(losses, rows[i].source, rows[i].reason, rows[i].count);
	return r;
}

int losses_write(const struct losses *losses, struct db *db, int64_t run_id)
{
	int r = 0;

	for (size_t i = 0; i < losses->n && r == 0; i++) {
		const struct losses_item *item = &losses->items[i];
		r = db_insert(db,
			      "loss(run_id, process_id, thread_id, source, reason, count, from_ns,"
			      " to_ns)",
			      "niittnii", run_id, item->process_row, item->thread_row, item->source,
			      item->reason, (int64_t)item->count, item->from_ns, item->to_ns);
	}
	return r;
}
