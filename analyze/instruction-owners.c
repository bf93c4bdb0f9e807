#include "analyze/instruction-owners.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "analyze/db.h"
#include "analyze/grow.h"
#include "analyze/statement.h"

void instruction_owners_finish(struct instruction_owners *owners)
{
	key_map_finish(&owners->numbers);
	free(owners->items);
	*owners = (struct instruction_owners){ 0 };
}

static int find(struct instruction_owners *owners, int64_t frame, struct instruction_seen **ret)
{
	uint64_t number = key_map_get(&owners->numbers, (uint64_t)frame, 0);
	int r = 0;

	if (!number) {
		r = grow_array(&owners->items, owners->n, &owners->n_allocated,
			       sizeof(*owners->items));
		if (r == 0)
			r = key_map_put(&owners->numbers, (uint64_t)frame, 0, owners->n + 1);
		if (r < 0)
			return r;
		owners->items[owners->n++] = (struct instruction_seen){ .frame = frame };
		number = owners->n;
	}
	*ret = &owners->items[number - 1];
	return r;
}

/* Blocks of one site are one owner here: which of them it was can no longer be told. */
static bool is_same(const struct owner *a, const struct owner *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == OWNER_heap ? a->site == b->site : a->id == b->id;
}

int instruction_owners_add(struct instruction_owners *owners, int64_t frame,
			   const struct owner *owner)
{
	struct instruction_seen *seen;
	int r = find(owners, frame, &seen);

	if (r < 0)
		return r;
	seen->n++;
	for (unsigned i = 0; i < seen->n_owners; i++) {
		if (is_same(&seen->owners[i].owner, owner)) {
			seen->owners[i].n++;
			return 0;
		}
	}
	if (seen->n_owners < INSTRUCTION_OWNERS) {
		seen->owners[seen->n_owners].owner = *owner;
		seen->owners[seen->n_owners++].n = 1;
	}
	return 0;
}

int instruction_owners_need(struct instruction_owners *owners, int64_t frame)
{
	struct instruction_seen *seen;
	int r = find(owners, frame, &seen);

	if (r == 0)
		seen->is_needed = true;
	return r;
}

static int write_seen(const struct instruction_seen *seen, sqlite3_stmt *statement,
		      instruction_stack_of stack_of, void *user)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < seen->n_owners; i++) {
		const struct owner *owner = &seen->owners[i].owner;

		statement_integer(statement, 2, seen->frame);
		statement_integer(statement, 3, owner->kind);
		statement_integer(statement, 4,
				  owner->kind == OWNER_heap ? stack_of(user, owner->site)
							    : owner->id);
		statement_real(statement, 5, seen->owners[i].n / seen->n);
		r = statement_run(statement);
	}
	return r;
}

int instruction_owners_write(const struct instruction_owners *owners, struct db *db, int64_t run_id,
			     instruction_stack_of stack_of, void *user)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db_handle(db),
				  "INSERT INTO instruction_owner(run_id, frame_id, owner_kind,"
				  " owner_id, share) VALUES(?1, ?2, ?3, ?4, ?5)"
				  " ON CONFLICT DO UPDATE SET share = share + excluded.share",
				  &statement);

	if (r == 0)
		statement_integer(statement, 1, run_id);
	for (size_t i = 0; r == 0 && i < owners->n; i++) {
		const struct instruction_seen *seen = &owners->items[i];

		if (seen->is_needed && seen->n >= INSTRUCTION_MIN_SEEN)
			r = write_seen(seen, statement, stack_of, user);
	}
	return r;
}
