#include "store/totals/shared-lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "perf/data-source.h"
#include "store/database.h"
#include "store/touch.h"

#define FEW_LINES    4096u
#define TURNS_OF_LOT 8u
#define AHEAD	     8u /* lines whose places are fetched before their turn */

static void finish_line(struct shared_line *line)
{
	free(line->others);
	free(line->pairs);
}

void shared_lines_finish(struct shared_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		finish_line(&lines->items[i]);
	key_map_finish(&lines->numbers);
	free(lines->items);
	*lines = (struct shared_lines){ .n_forgotten = lines->n_forgotten };
}

/* ---- Lines ---- */

static int put_number(struct shared_lines *lines, size_t i)
{
	const struct shared_line *line = &lines->items[i];

	return key_map_put(&lines->numbers, (uint64_t)line->process, line->address, i + 1);
}

/* Those that two threads touch are what is looked for: they stay until nothing else can go. */
static bool is_dispensable(const struct shared_lines *lines, const struct shared_line *line)
{
	return line->n_touches <= lines->least && (line->n_users == 1 || lines->least > UINT32_MAX);
}

/* Drop the lines that were touched least, until half of the room is free. */
static int forget(struct shared_lines *lines)
{
	while (lines->n > SHARED_LINES / 2) {
		size_t n = 0;

		lines->least = lines->least ? 2 * lines->least : 1;
		for (size_t i = 0; i < lines->n; i++) {
			if (!is_dispensable(lines, &lines->items[i])) {
				lines->items[n++] = lines->items[i];
				continue;
			}
			lines->n_forgotten += lines->items[i].n_touches;
			lines->n_pairs -= lines->items[i].n_pairs;
			finish_line(&lines->items[i]);
		}
		lines->n = n;
	}
	lines->least = 0;
	key_map_clear(&lines->numbers);

	int r = 0;
	for (size_t i = 0; i < lines->n && r == 0; i++) {
		const struct shared_line *coming =
			&lines->items[i + AHEAD < lines->n ? i + AHEAD : i];
		key_map_prefetch(&lines->numbers, (uint64_t)coming->process, coming->address);
		r = put_number(lines, i);
	}
	return r;
}

/* Few lines at first, then all that there may be: pages of memory come as they are used. */
static int make_room(struct shared_lines *lines)
{
	size_t n_room = lines->n < FEW_LINES ? FEW_LINES : SHARED_LINES;

	if (lines->n < lines->n_allocated)
		return 0;
	struct shared_line *items = large_room(n_room * sizeof(*items));
	if (!items)
		return -ENOMEM;
	if (lines->n > 0)
		memcpy(items, lines->items, lines->n * sizeof(*items));
	free(lines->items);
	lines->items = items;
	lines->n_allocated = n_room;
	return 0;
}

static int add_line(struct shared_lines *lines, const struct shared_line *line, size_t *ret_i)
{
	int r = lines->n == SHARED_LINES ? forget(lines) : 0;

	r = r ?: make_room(lines);
	if (r < 0)
		return r;
	lines->items[lines->n] = *line;
	*ret_i = lines->n++;
	return put_number(lines, *ret_i);
}

/* ---- Users ---- */

static struct shared_user *user_at(struct shared_line *line, unsigned i)
{
	return i ? &line->others[i - 1] : &line->first;
}

/*
 * The user that was not seen for the longest time, of those that are in no pair that is told;
 * n_users: there is none.
 */
static unsigned find_idle(struct shared_line *line)
{
	unsigned found = line->n_users;
	uint32_t told = 0;

	for (unsigned i = 0; i < line->n_pairs; i++) {
		const struct shared_pair *pair = &line->pairs[i];
		if (pair->n_changes >= SHARED_CHANGES)
			told |= 1u << pair->users[0] | 1u << pair->users[1];
	}
	for (unsigned i = 0; i < line->n_users; i++) {
		if (!(told >> i & 1) &&
		    (found == line->n_users || user_at(line, i)->last < user_at(line, found)->last))
			found = i;
	}
	return found;
}

/* A user goes, and the pairs that it is in. */
static void drop_pairs(struct shared_lines *lines, struct shared_line *line, unsigned user)
{
	unsigned n = 0;

	for (unsigned i = 0; i < line->n_pairs; i++) {
		const struct shared_pair *pair = &line->pairs[i];
		if (pair->users[0] != user && pair->users[1] != user)
			line->pairs[n++] = *pair;
	}
	lines->n_pairs -= line->n_pairs - n;
	line->n_pairs = n;
	for (unsigned i = 0; i < line->n_users; i++)
		user_at(line, i)->paired &= ~(1u << user);
}

/* Returns the new user's number, -ENOSPC, or -ENOMEM. */
static int add_user(struct shared_lines *lines, struct shared_line *line,
		    const struct shared_user *user)
{
	unsigned i = line->n_users;

	if (i == SHARED_USERS) {
		i = find_idle(line);
		if (i == line->n_users)
			return -ENOSPC;
		drop_pairs(lines, line, i);
	} else if (i > 0) {
		struct shared_user *more = reallocarray(line->others, i, sizeof(*more));
		if (!more)
			return -ENOMEM;
		line->others = more;
	}
	*user_at(line, i) = *user;
	line->n_users += i == line->n_users;
	return (int)i;
}

static int find_user(struct shared_lines *lines, struct shared_line *line,
		     const struct touch *touch, int64_t stack_id)
{
	const struct shared_user user = { .thread = touch->thread_row,
					  .owner_kind = (int32_t)touch->owner.kind,
					  .owner_id = touch->owner.id,
					  .stack_id = stack_id };

	for (unsigned i = 0; i < line->n_users; i++) {
		const struct shared_user *known = user_at(line, i);
		if (known->thread == user.thread && known->owner_id == user.owner_id &&
		    known->owner_kind == user.owner_kind)
			return (int)i;
	}
	return add_user(lines, line, &user);
}

/* ---- Pairs ---- */

static bool do_meet(const struct shared_bytes *a, const struct shared_bytes *b)
{
	return (a->written & b->touched) | (b->written & a->touched);
}

static void join(struct shared_bytes *to, const struct shared_bytes *from)
{
	to->touched |= from->touched;
	to->written |= from->written;
}

static void keep_bytes(struct shared_side *side, const struct shared_bytes *bytes)
{
	if (side->n_turns++ == TURNS_OF_LOT) {
		side->lots[1] = side->lots[0];
		side->lots[0] = (struct shared_bytes){ 0 };
		side->n_turns = 1;
	}
	join(&side->lots[0], bytes);
	join(&side->all, bytes);
}

/* A turn is over, and lay between two of the other. */
static void end_turn(struct shared_pair *pair)
{
	struct shared_turn *turn = &pair->turn, *sum = &pair->sum;
	const struct shared_side *other = &pair->sides[!pair->turn_of];
	struct shared_bytes theirs = other->lots[0];

	join(&theirs, &other->lots[1]);
	if (do_meet(&turn->bytes, &theirs))
		pair->n_same++;
	else if (turn->bytes.written | theirs.written)
		pair->n_apart++;
	keep_bytes(&pair->sides[pair->turn_of], &turn->bytes);
	share_total_settle(&turn->share);
	sum->share.n += turn->share.n;
	sum->share.n_sq += turn->share.n_sq;
	sum->time_ns += turn->time_ns;
	if (sum->n_touches == 0)
		sum->first_ns = turn->first_ns;
	if (turn->last_ns > sum->last_ns)
		sum->last_ns = turn->last_ns;
	sum->n_touches += turn->n_touches;
	sum->n_writes += turn->n_writes;
	*turn = (struct shared_turn){ 0 };
}

/* The bytes of the line that an access covers; what reaches beyond it is cut. */
static uint64_t bytes_of(const struct touch *touch)
{
	unsigned first = (unsigned)(touch->address % SHARED_LINE_BYTES);
	uint64_t size = touch->size > 0 ? (uint64_t)touch->size : 1;

	if (size > SHARED_LINE_BYTES - first)
		size = SHARED_LINE_BYTES - first;
	return (size == 64 ? UINT64_MAX : (UINT64_C(1) << size) - 1) << first;
}

static void add_to_turn(struct shared_turn *turn, const struct touch *touch)
{
	uint64_t bytes = bytes_of(touch);

	if (turn->n_touches == 0)
		turn->first_ns = touch->time_ns;
	if (touch->time_ns > turn->last_ns)
		turn->last_ns = touch->time_ns;
	turn->n_touches++;
	turn->n_writes += touch->is_write > 0;
	turn->bytes.touched |= bytes;
	turn->bytes.written |= touch->is_write > 0 ? bytes : 0;
	if (touch->role != TRACE_ROLE_WINDOW)
		return;
	turn->time_ns += touch->share * (double)touch->weight;
	share_total_add(&turn->share, touch->sample, touch->share);
}

static int add_pair(struct shared_lines *lines, struct shared_line *line, unsigned user,
		    unsigned other)
{
	struct shared_pair *pairs =
		reallocarray(line->pairs, line->n_pairs + 1, sizeof(*line->pairs));

	if (!pairs)
		return -ENOMEM;
	line->pairs = pairs;
	/* The other came, and now this one comes back: two changes. */
	pairs[line->n_pairs++] = (struct shared_pair){
		.users = { (uint8_t)user, (uint8_t)other },
		.n_changes = 2,
	};
	user_at(line, user)->paired |= 1u << other;
	user_at(line, other)->paired |= 1u << user;
	lines->n_pairs++;
	return 0;
}

/* Pairs begin where a thread comes back after another one, and one of both has written. */
static int begin_pairs(struct shared_lines *lines, struct shared_line *line, unsigned number)
{
	const struct shared_user user = *user_at(line, number);
	int r = 0;

	for (unsigned i = 0; i < line->n_users && r == 0 && user.last; i++) {
		const struct shared_user *other = user_at(line, i);
		if (other->thread == user.thread || other->last <= user.last ||
		    user.paired >> i & 1 || !(user.has_written | other->has_written))
			continue;
		if (lines->n_pairs < SHARED_PAIRS)
			r = add_pair(lines, line, number, i);
		else
			lines->n_forgotten++;
	}
	return r;
}

static void count(struct shared_line *line, unsigned number, const struct touch *touch)
{
	for (unsigned i = 0; i < line->n_pairs; i++) {
		struct shared_pair *pair = &line->pairs[i];
		if (pair->users[0] != number && pair->users[1] != number)
			continue;
		if (pair->users[pair->turn_of] != number) {
			end_turn(pair);
			pair->turn_of = !pair->turn_of;
			pair->n_changes++;
		}
		add_to_turn(&pair->turn, touch);
	}
}

static uint64_t line_address(const struct touch *touch)
{
	return touch->address & ~(uint64_t)(SHARED_LINE_BYTES - 1);
}

static int add_touch(struct shared_lines *lines, const struct touch *touch, int64_t stack_id)
{
	const struct shared_line new_line = {
		.address = line_address(touch),
		.process = touch->process_row,
	};
	uint64_t number =
		key_map_get(&lines->numbers, (uint64_t)new_line.process, new_line.address);
	size_t i = number - 1;
	int r = number ? 0 : add_line(lines, &new_line, &i);

	if (r < 0)
		return r;
	struct shared_line *line = &lines->items[i];
	int user = find_user(lines, line, touch, stack_id);
	line->n_touches++;
	line->n_hitm += data_source_is_hitm((uint64_t)touch->data_src);
	if (user == -ENOSPC)
		lines->n_forgotten++;
	if (user < 0)
		return user == -ENOSPC ? 0 : user;
	user_at(line, (unsigned)user)->has_written |= touch->is_write > 0;
	r = begin_pairs(lines, line, (unsigned)user);
	if (r == 0)
		count(line, (unsigned)user, touch);
	user_at(line, (unsigned)user)->last = (uint32_t)line->n_touches;
	return r;
}

static int add_waiting(struct shared_lines *lines)
{
	const struct shared_waiting *next = &lines->waiting[lines->n_added++ % SHARED_WAITING];

	return add_touch(lines, &next->touch, next->stack_id);
}

/* Lines of random addresses are in no cache: first where the line is found, then the line. */
int shared_lines_add(struct shared_lines *lines, const struct touch *touch, int64_t stack_id)
{
	int r = lines->n_came - lines->n_added == SHARED_WAITING ? add_waiting(lines) : 0;

	lines->waiting[lines->n_came++ % SHARED_WAITING] =
		(struct shared_waiting){ *touch, stack_id };
	key_map_prefetch(&lines->numbers, (uint64_t)touch->process_row, line_address(touch));
	const struct touch *half =
		&lines->waiting[(lines->n_came + SHARED_WAITING / 2) % SHARED_WAITING].touch;
	uint64_t number =
		key_map_get(&lines->numbers, (uint64_t)half->process_row, line_address(half));
	if (number) {
		__builtin_prefetch(&lines->items[number - 1]);
		__builtin_prefetch((const char *)&lines->items[number - 1] + 64);
	}
	return r;
}

int shared_lines_settle(struct shared_lines *lines)
{
	int r = 0;

	while (lines->n_added < lines->n_came && r == 0)
		r = add_waiting(lines);
	return r;
}

/* ---- Writing ---- */

static int write_pair(struct shared_line *line, const struct shared_pair *pair, struct db *db,
		      int64_t run_id)
{
	const struct shared_turn *sum = &pair->sum;
	const struct shared_user *a = user_at(line, pair->users[0]);
	const struct shared_user *b = user_at(line, pair->users[1]);

	return db_insert(
		db,
		"shared_line(run_id, process_id, address, n_touches, n_writes,"
		" n_changes, n_same, n_apart, time_ns, n_samples, n_samples_sq, n_hitm, thread_id,"
		" other_thread_id, bytes, other_bytes, written, other_written, owner_kind,"
		" owner_id, stack_id, other_owner_kind, other_owner_id, other_stack_id, first_ns,"
		" last_ns)",
		"nnnnnnnnrrrnnnnnnniiiniinn", run_id, line->process, (int64_t)line->address,
		(int64_t)sum->n_touches, (int64_t)sum->n_writes, (int64_t)pair->n_changes,
		(int64_t)pair->n_same, (int64_t)pair->n_apart, sum->time_ns, sum->share.n,
		sum->share.n_sq, (int64_t)line->n_hitm, a->thread, b->thread,
		(int64_t)pair->sides[0].all.touched, (int64_t)pair->sides[1].all.touched,
		(int64_t)pair->sides[0].all.written, (int64_t)pair->sides[1].all.written,
		(int64_t)a->owner_kind, a->owner_id ? a->owner_id : INT64_MIN,
		a->stack_id ? a->stack_id : INT64_MIN, (int64_t)b->owner_kind,
		b->owner_id ? b->owner_id : INT64_MIN, b->stack_id ? b->stack_id : INT64_MIN,
		sum->first_ns, sum->last_ns);
}

int shared_lines_write(struct shared_lines *lines, struct db *db, int64_t run_id)
{
	int r = shared_lines_settle(lines);

	for (size_t i = 0; i < lines->n; i++) {
		struct shared_line *line = &lines->items[i];
		for (unsigned k = 0; k < line->n_pairs && r == 0; k++) {
			const struct shared_pair *pair = &line->pairs[k];
			if (pair->n_changes >= SHARED_CHANGES && pair->n_same + pair->n_apart > 0)
				r = write_pair(line, pair, db, run_id);
		}
	}
	return r;
}
