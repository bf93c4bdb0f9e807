#include "analyze/samples/instruction-owners.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/database.h"
#include "store/statement.h"

#define LEAST_NEXT 8u

static const struct owner nothing;

void instruction_owners_finish(struct instruction_owners *owners)
{
	key_map_finish(&owners->numbers);
	free(owners->items);
	*owners = (struct instruction_owners){ 0 };
}

static uint64_t id_of(const struct owner *owner)
{
	return owner->kind == OWNER_heap ? owner->site : (uint64_t)owner->id;
}

static uint64_t key_of(const struct owner *owner)
{
	return (uint64_t)owner->kind << 56 ^ id_of(owner);
}

bool instruction_owners_is_same(const struct owner *a, const struct owner *b)
{
	return key_of(a) == key_of(b);
}

static int find(struct instruction_owners *owners, int64_t frame, const struct owner *beside,
		struct instruction_seen **ret)
{
	uint64_t key = key_of(beside);
	uint64_t number = key_map_get(&owners->numbers, (uint64_t)frame, key);
	int r = 0;

	if (!number) {
		r = grow_array(&owners->items, owners->n, &owners->n_allocated,
			       sizeof(*owners->items));
		r = r ?: key_map_put(&owners->numbers, (uint64_t)frame, key, owners->n + 1);
		if (r < 0)
			return r;
		owners->items[owners->n++] =
			(struct instruction_seen){ .frame = frame, .beside = *beside };
		number = owners->n;
	}
	*ret = &owners->items[number - 1];
	return r;
}

static void add_owner(struct instruction_seen *seen, const struct owner *owner, unsigned n,
		      double time)
{
	uint64_t key = key_of(owner);
	unsigned i = 0;

	while (i < seen->n_owners && seen->keys[i] != key)
		i++;
	if (i == INSTRUCTION_OWNERS) {
		seen->n_others += n ? n : 1;
		if (n) /* what a fault does not look at */
			seen->others_time += time;
		return;
	}
	if (i == seen->n_owners) {
		seen->keys[i] = key;
		seen->owners[seen->n_owners++].owner = *owner;
	}
	if (!n) /* nothing is added */
		return;
	seen->owners[i].n += n;
	seen->owners[i].time += time;
}

/*
 * The same memory that a sample accesses by one instruction is one answer of it, whatever roles
 * tell it.
 */
void instruction_owners_take(struct instruction_owners *owners,
			     const struct instruction_access *access)
{
	for (unsigned i = 0; i < owners->n_pending; i++) {
		struct instruction_access *known = &owners->pending[i];
		if (known->frame == access->frame && known->is_resolved == access->is_resolved &&
		    instruction_owners_is_same(&known->owner, &access->owner)) {
			known->share += known->role == access->role ? access->share : 0;
			return;
		}
	}
	if (owners->n_pending < INSTRUCTION_ACCESSES)
		owners->pending[owners->n_pending++] = *access;
}

static int add_access(struct instruction_owners *owners, const struct instruction_access *access,
		      const struct owner *beside, double weight)
{
	struct instruction_seen *seen;
	int r = find(owners, access->frame, beside, &seen);

	if (r < 0)
		return r;
	if (access->is_resolved)
		add_owner(seen, &access->owner, 1, weight * access->share);
	else
		seen->n_unresolved++;
	return 0;
}

/* As is_beside() of store/totals/add-touch.c: what conclusions are looked up by. */
static bool is_beside(const struct instruction_access *access)
{
	enum owner_kind kind = access->owner.kind;

	return access->is_resolved && access->role == TRACE_ROLE_WINDOW &&
	       (kind == OWNER_heap || kind == OWNER_named || kind == OWNER_mapping ||
		kind == OWNER_global);
}

/* The accesses of a sample that tell others apart: few of many. */
struct beside {
	const struct instruction_access *items[INSTRUCTION_ACCESSES];
	unsigned n;
};

static bool is_first(const struct beside *beside, unsigned at, int64_t frame)
{
	return !array_find(
		beside->items, at, it,
		(*it)->frame != frame &&
			instruction_owners_is_same(&(*it)->owner, &beside->items[at]->owner));
}

static int add_pending(struct instruction_owners *owners, const struct beside *beside,
		       const struct instruction_access *access, double weight)
{
	int r = add_access(owners, access, &nothing, weight);

	for (unsigned i = 0; r == 0 && i < beside->n; i++)
		if (beside->items[i]->frame != access->frame && is_first(beside, i, access->frame))
			r = add_access(owners, access, &beside->items[i]->owner, weight);
	return r;
}

int instruction_owners_end(struct instruction_owners *owners, double weight)
{
	struct beside beside = { .n = 0 };
	int r = 0;

	for (unsigned i = 0; i < owners->n_pending; i++)
		if (is_beside(&owners->pending[i]))
			beside.items[beside.n++] = &owners->pending[i];
	for (unsigned i = 0; r == 0 && i < owners->n_pending; i++)
		r = add_pending(owners, &beside, &owners->pending[i], weight);
	owners->n_pending = 0;
	return r;
}

/* Whether other turns alone show who is accessed, and that it is one owner. */
static bool is_by_next(const struct instruction_seen *seen)
{
	return seen->n_owners == 0 && !seen->n_others && seen->n_next >= LEAST_NEXT &&
	       !seen->is_next_mixed;
}

bool instruction_owners_is_only(const struct instruction_owners *owners, int64_t frame,
				const struct owner *owner)
{
	uint64_t number = key_map_get(&owners->numbers, (uint64_t)frame, 0);
	const struct instruction_seen *seen = number ? &owners->items[number - 1] : NULL;

	if (!seen || seen->n_others)
		return false;
	if (is_by_next(seen))
		return instruction_owners_is_same(&seen->next, owner);
	return seen->n_owners == 1 && seen->owners[0].n > 0 &&
	       instruction_owners_is_same(&seen->owners[0].owner, owner);
}

int instruction_owners_next(struct instruction_owners *owners, int64_t frame,
			    const struct owner *owner)
{
	struct instruction_seen *seen;
	int r = find(owners, frame, &nothing, &seen);

	if (r < 0)
		return r;
	if (seen->n_next++ == 0)
		seen->next = *owner;
	seen->is_next_mixed |= !instruction_owners_is_same(&seen->next, owner);
	return 0;
}

int instruction_owners_fault(struct instruction_owners *owners, int64_t frame,
			     const struct owner *owner, uint32_t *seen)
{
	struct instruction_seen *found = owners->items;
	int r = *seen ? 0 : find(owners, frame, &nothing, &found);

	if (r < 0)
		return r;
	*seen = *seen ? *seen : (uint32_t)(found - owners->items) + 1;
	add_owner(&owners->items[*seen - 1], owner, 0, 0);
	return 0;
}

/* ---- Rows ---- */

struct writer {
	sqlite3_stmt *statement;
	instruction_stack_of stack_of;
	void *user;
};

static void bind_owner(const struct writer *writer, int at, const struct owner *owner)
{
	statement_integer(writer->statement, at, owner->kind);
	statement_integer(writer->statement, at + 1,
			  owner->kind == OWNER_heap ? writer->stack_of(writer->user, owner->site)
						    : owner->id);
}

static int write_row(const struct writer *writer, const struct owner *owner, uint64_t n,
		     double time)
{
	bind_owner(writer, 6, owner);
	statement_integer(writer->statement, 8, (int64_t)n);
	statement_real(writer->statement, 9, time);
	return statement_run(writer->statement);
}

static int write_seen(const struct writer *writer, const struct instruction_seen *seen)
{
	static const struct owner others = { .kind = OWNER_unknown };
	int r = 0;

	statement_integer(writer->statement, 2, seen->frame);
	bind_owner(writer, 3, &seen->beside);
	statement_integer(writer->statement, 5, (int64_t)seen->n_unresolved);
	for (unsigned i = 0; r == 0 && i < seen->n_owners; i++)
		r = write_row(writer, &seen->owners[i].owner, seen->owners[i].n,
			      seen->owners[i].time);
	if (r == 0 && is_by_next(seen))
		r = write_row(writer, &seen->next, seen->n_next, 0);
	return r < 0 || !seen->n_others
		       ? r
		       : write_row(writer, &others, seen->n_others, seen->others_time);
}

int instruction_owners_write(const struct instruction_owners *owners, struct db *db, int64_t run_id,
			     instruction_stack_of stack_of, void *user)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db_handle(db),
		"INSERT INTO instruction_owner(run_id, frame_id, beside_kind, beside_id,"
		" n_unresolved, owner_kind, owner_id, n, time_ns) VALUES(?1, ?2, ?3, ?4, ?5, ?6,"
		" ?7, ?8, ?9) ON CONFLICT DO UPDATE SET n = n + excluded.n, time_ns = time_ns +"
		" excluded.time_ns, n_unresolved = max(n_unresolved, excluded.n_unresolved)",
		&statement);
	const struct writer writer = { statement, stack_of, user };

	if (r == 0)
		statement_integer(statement, 1, run_id);
	for (size_t i = 0; r == 0 && i < owners->n; i++)
		if (owners->items[i].n_unresolved > 0)
			r = write_seen(&writer, &owners->items[i]);
	return r;
}
