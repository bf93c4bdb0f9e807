#include "analyze/process/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/call-texts.h"
#include "analyze/process/user-frames.h"
#include "analyze/symbols/ahead.h"
#include "analyze/symbols/symbols.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "schemas/ring.h"
#include "store/database.h"
#include "store/library-frames.h"
#include "store/row-writer.h"
#include "store/statement.h"

#define STACKS_STOP_LOST  (TRACE_STOP_BEFORE + 1u) /* the node's definition is lost */
#define STACKS_STOP_COUNT (STACKS_STOP_LOST + 1u)
#define STACKS_MAX_NODES  (UINT32_C(1) << 26) /* of a thread: more is damage */

/* A node of a thread, and what it was resolved to last. */
struct stack_node {
	uint64_t pc;
	int64_t row; /* 0: not yet */
	int64_t valid_until; /* its code is unloaded then */
	uint32_t parent;
	uint32_t generation : 31; /* of modules_n_changes() */
	uint32_t is_told : 1;
};

struct stack_thread {
	struct stack_node *nodes; /* by id */
	size_t n;
	size_t n_allocated;
};

/* New rows. */
struct stack_frame {
	struct object *object;
	uint64_t offset;
};

struct stack_row {
	int64_t parent;
	int64_t frame;
	unsigned stop;
	unsigned depth;
};

struct stacks {
	struct tasks *tasks;
	struct modules *modules;
	struct objects *objects;
	struct symbols_ahead *ahead; /* NULL: there is none */
	struct object *nowhere; /* of code in no module */
	struct object *kernel;
	const uint64_t *n_changes;
	struct stack_thread *threads; /* by number - 1 */
	size_t n_threads;
	size_t n_threads_allocated;
	struct key_map frame_rows; /* (object, offset) -> row */
	struct key_map stack_rows; /* (parent row, frame row or stop) -> row */
	struct key_map depths; /* of the rows that the database had */
	struct stack_frame *frames; /* row - first_frame */
	size_t n_frames;
	size_t n_frames_allocated;
	int64_t first_frame;
	struct stack_row *stacks; /* row - first_stack */
	size_t n_stacks;
	size_t n_stacks_allocated;
	int64_t first_stack;
	uint64_t n_lost;
};

/* A chain of callers is at most this long; longer is damage. */
#define MAX_CHAIN (RING_MAX_FRAMES + 8u)
#define KERNEL	  "[kernel]"

/* In the order of enum trace_stop, then our own. Values of stack.stop. */
static const char *const stop_names[STACKS_STOP_COUNT] = {
	[TRACE_STOP_NONE] = "unknown reason",
	[TRACE_STOP_NO_FRAME_POINTER] = "no frame pointer",
	[TRACE_STOP_DEPTH] = "depth",
	[TRACE_STOP_NO_RULE] = "no unwind rule",
	[TRACE_STOP_BAD_STACK] = "outside the stack",
	[TRACE_STOP_TABLE_FULL] = "stack table full",
	[TRACE_STOP_BEFORE] = "before the attach",
	[STACKS_STOP_LOST] = "definition lost",
};

/* stack.stop of a reason. */
static const char *stacks_stop_name(unsigned stop)
{
	return stop_names[stop < STACKS_STOP_COUNT ? stop : TRACE_STOP_NONE];
}

static unsigned stop_of(const char *name)
{
	for (unsigned i = 0; i < STACKS_STOP_COUNT; i++) {
		if (strcmp(stop_names[i], name) == 0)
			return i;
	}
	return TRACE_STOP_NONE;
}

struct stacks *stacks_destroy(struct stacks *stacks)
{
	if (!stacks)
		return NULL;
	array_free(stacks->threads, stacks->n_threads, it, free(it->nodes));
	symbols_ahead_close(stacks->ahead);
	free_all(stacks->frames, stacks->stacks);
	key_map_finish(&stacks->frame_rows);
	key_map_finish(&stacks->stack_rows);
	key_map_finish(&stacks->depths);
	free(stacks);
	return NULL;
}

static int load_frames(struct stacks *stacks, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db, "SELECT id, object, path, offset FROM frame", &statement);

	while (r == 0 && (r = statement_step(statement)) > 0) {
		int64_t row = sqlite3_column_int64(statement, 0);
		struct object *object =
			objects_get_named(stacks->objects, statement_string(statement, 1),
					  statement_string(statement, 2));

		if (!object)
			return -ENOMEM;
		r = key_map_put(&stacks->frame_rows, object->number,
				(uint64_t)sqlite3_column_int64(statement, 3), (uint64_t)row);
		stacks->first_frame = row >= stacks->first_frame ? row + 1 : stacks->first_frame;
	}
	return r;
}

/* What tells stacks with the same parent apart. */
static uint64_t frame_key(int64_t frame, unsigned stop)
{
	return frame ? (uint64_t)frame : UINT64_C(1) << 63 | stop;
}

static int load_stacks(struct stacks *stacks, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db, "SELECT id, parent_id, frame_id, coalesce(stop, ''), depth FROM stack",
		&statement);

	while (r == 0 && (r = statement_step(statement)) > 0) {
		int64_t row = sqlite3_column_int64(statement, 0);
		uint64_t parent = (uint64_t)sqlite3_column_int64(statement, 1);
		unsigned stop = stop_of(statement_string(statement, 3));
		uint64_t key = frame_key(sqlite3_column_int64(statement, 2), stop);

		r = key_map_put(&stacks->stack_rows, parent, key, (uint64_t)row);
		if (r == 0)
			r = key_map_put(&stacks->depths, (uint64_t)row, 0,
					(uint64_t)sqlite3_column_int64(statement, 4));
		stacks->first_stack = row >= stacks->first_stack ? row + 1 : stacks->first_stack;
	}
	return r;
}

int stacks_create(sqlite3 *db, struct tasks *tasks, struct modules *modules,
		  struct objects *objects, struct stacks **ret_stacks)
{
	auto_stacks struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	*stacks = (struct stacks){
		.tasks = tasks,
		.modules = modules,
		.objects = objects,
		.n_changes = modules_n_changes(modules),
		.first_frame = 1,
		.first_stack = 1,
	};

	int r = load_frames(stacks, db) ?: load_stacks(stacks, db);
	if (r < 0)
		return r;
	stacks->nowhere = objects_get_named(objects, "", "");
	stacks->kernel = objects_get_named(objects, KERNEL, KERNEL);
	if (!stacks->nowhere || !stacks->kernel)
		return -ENOMEM;
	*ret_stacks = stacks;
	stacks = NULL;
	return 0;
}

static int64_t intern_frame(struct stacks *stacks, struct object *object, uint64_t offset)
{
	int64_t row = (int64_t)key_map_get(&stacks->frame_rows, object->number, offset);

	if (row)
		return row;
	if (grow_one(&stacks->frames, stacks->n_frames, &stacks->n_frames_allocated) < 0)
		return -ENOMEM;
	row = stacks->first_frame + (int64_t)stacks->n_frames;
	if (key_map_put(&stacks->frame_rows, object->number, offset, (uint64_t)row) < 0)
		return -ENOMEM;
	stacks->frames[stacks->n_frames++] = (struct stack_frame){ object, offset };
	if (stacks->n_frames == 1)
		stacks->ahead = symbols_ahead_open(stacks->objects);
	symbols_ahead_expect(stacks->ahead, object, offset);
	return row;
}

static unsigned depth_of(const struct stacks *stacks, int64_t row)
{
	if (row >= stacks->first_stack)
		return stacks->stacks[row - stacks->first_stack].depth;
	return (unsigned)key_map_get(&stacks->depths, (uint64_t)row, 0);
}

static int64_t intern_stack(struct stacks *stacks, int64_t parent, int64_t frame, unsigned stop)
{
	uint64_t key = frame_key(frame, stop);
	int64_t row = (int64_t)key_map_get(&stacks->stack_rows, (uint64_t)parent, key);

	if (row)
		return row;
	if (grow_one(&stacks->stacks, stacks->n_stacks, &stacks->n_stacks_allocated) < 0)
		return -ENOMEM;
	row = stacks->first_stack + (int64_t)stacks->n_stacks;
	if (key_map_put(&stacks->stack_rows, (uint64_t)parent, key, (uint64_t)row) < 0)
		return -ENOMEM;
	stacks->stacks[stacks->n_stacks++] = (struct stack_row){
		.parent = parent,
		.frame = frame,
		.stop = stop,
		.depth = parent ? depth_of(stacks, parent) + 1 : 1,
	};
	return row;
}

static struct stack_thread *thread_of(struct stacks *stacks, uint32_t thread)
{
	if (thread == 0 || thread >= TASKS_UNSEEN)
		return NULL;
	while (stacks->n_threads < thread) {
		if (grow_one(&stacks->threads, stacks->n_threads, &stacks->n_threads_allocated) < 0)
			return NULL;
		stacks->threads[stacks->n_threads++] = (struct stack_thread){ 0 };
	}
	return &stacks->threads[thread - 1];
}

/* Make room for node id; those in between are lost until they are told. */
static int reach(struct stack_thread *thread, uint32_t id)
{
	if (id >= STACKS_MAX_NODES)
		return -EBADMSG;
	while (thread->n <= id) {
		int r = grow_one(&thread->nodes, thread->n, &thread->n_allocated);
		if (r < 0)
			return r;
		thread->nodes[thread->n++] = (struct stack_node){ 0 };
	}
	return 0;
}

int stacks_nodes(struct stacks *stacks, uint32_t thread, const struct trace_node *nodes, size_t n)
{
	/* A thread whose record is lost has no frames, and a made-up number takes no memory. */
	if (!tasks_thread(stacks->tasks, thread))
		return 0;

	struct stack_thread *own = thread_of(stacks, thread);
	if (!own)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct trace_node *node = &nodes[i];

		if (node->id == 0 || node->parent_id >= node->id)
			continue;
		int r = reach(own, node->id);
		if (r == -EBADMSG)
			continue;
		if (r < 0)
			return r;
		own->nodes[node->id] = (struct stack_node){
			.pc = node->pc,
			.parent = node->parent_id,
			.is_told = true,
		};
	}
	return 0;
}

static uint32_t generation(const struct stacks *stacks)
{
	return (uint32_t)*stacks->n_changes & INT32_MAX;
}

static int64_t resolve(struct stacks *stacks, const struct task_thread *thread,
		       struct stack_node *node, int64_t parent, int64_t time_ns)
{
	int64_t frame = 0;
	unsigned stop = STACKS_STOP_LOST;

	node->valid_until = INT64_MAX;
	if (node->is_told && node->pc < TRACE_STOP_MAX) {
		stop = node->pc <= TRACE_STOP_BEFORE ? (unsigned)node->pc : TRACE_STOP_NONE;
	} else if (node->is_told) {
		const struct module *module =
			modules_find(stacks->modules, thread->image->number, node->pc - 1, time_ns);

		node->valid_until = modules_valid_until(module);
		frame = intern_frame(stacks, module ? module->object : stacks->nowhere,
				     node->pc - 1 - (module ? module->bias : 0));
		if (frame < 0)
			return frame;
	}
	node->row = intern_stack(stacks, parent, frame, stop);
	node->generation = generation(stacks);
	return node->row;
}

static bool is_valid(const struct stacks *stacks, const struct stack_node *node, int64_t time_ns)
{
	return node->row > 0 && time_ns < node->valid_until &&
	       node->generation == generation(stacks);
}

/* From the outermost node that is not known up to this one. */
static int64_t resolve_chain(struct stacks *stacks, const struct task_thread *thread,
			     struct stack_thread *own, uint32_t node, int64_t time_ns)
{
	uint32_t chain[MAX_CHAIN];
	size_t n = 0;
	int64_t row = 0;

	while (node && n < MAX_CHAIN) {
		if (is_valid(stacks, &own->nodes[node], time_ns)) {
			row = own->nodes[node].row;
			break;
		}
		chain[n++] = node;
		node = own->nodes[node].parent;
	}
	while (n > 0 && row >= 0)
		row = resolve(stacks, thread, &own->nodes[chain[--n]], row, time_ns);
	for (size_t i = 0; i < n; i++)
		own->nodes[chain[i]].row = 0;
	return row;
}

void stacks_fetch(const struct stacks *stacks, uint32_t thread, uint32_t node)
{
	if (thread - 1 < stacks->n_threads && node < stacks->threads[thread - 1].n)
		__builtin_prefetch(&stacks->threads[thread - 1].nodes[node]);
}

int64_t stacks_row(struct stacks *stacks, uint32_t thread, uint32_t node, int64_t time_ns)
{
	if (node == 0)
		return 0;

	struct stack_thread *own =
		thread - 1 < stacks->n_threads ? &stacks->threads[thread - 1] : NULL;
	if (own && node < own->n && is_valid(stacks, &own->nodes[node], time_ns))
		return own->nodes[node].row;

	const struct task_thread *task = tasks_thread(stacks->tasks, thread);
	if (!own || !task || !task->image || node >= own->n || !own->nodes[node].is_told) {
		stacks->n_lost++;
		return intern_stack(stacks, 0, 0, STACKS_STOP_LOST);
	}
	return resolve_chain(stacks, task, own, node, time_ns);
}

int64_t stacks_frame(struct stacks *stacks, uint32_t process, uint64_t ip, int64_t time_ns)
{
	const struct module *module = modules_find(stacks->modules, process, ip, time_ns);

	return intern_frame(stacks, module ? module->object : stacks->nowhere,
			    ip - (module ? module->bias : 0));
}

int64_t stacks_path(struct stacks *stacks, const struct stacks_path *path)
{
	int64_t row = path->stop ? intern_stack(stacks, 0, 0, path->stop) : 0;

	for (size_t i = path->n; i-- > 0 && row >= 0;) {
		uint64_t pc = path->pcs[i] - (i > 0);
		int64_t frame = stacks_frame(stacks, path->process, pc, path->time_ns);

		row = frame < 0 ? frame : intern_stack(stacks, row, frame, STACKS_STOP_LOST);
	}
	return row;
}

int64_t stacks_kernel_frame(struct stacks *stacks, uint64_t ip)
{
	return intern_frame(stacks, stacks->kernel, ip);
}

uint64_t stacks_n_lost(const struct stacks *stacks)
{
	return stacks->n_lost;
}

/* The tables frame, frame_line and stack; the only place where frames are given names. */

static int prepare_lines(sqlite3 *db, sqlite3_stmt **ret_statement)
{
	return statement_insert(
		db, "frame_line(frame_id, depth, function, file, line, line_column, call)", 7,
		ret_statement);
}

/* Of a static initialiser the variable: the line table has the line that declares it. */
static const char *variable_of(const struct stack_frame *frame, const struct symbol_line *line)
{
	return frame_is_initialiser(line->function)
		       ? symbols_declared(frame->object, frame->offset, line)
		       : NULL;
}

static int write_lines(sqlite3_stmt *statement, int64_t row, const struct stack_frame *frame,
		       const struct symbol_line *lines, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		r = statement_put(statement, "nnttiit", row, (int64_t)i, lines[i].function,
				  lines[i].file, lines[i].line > 0 ? lines[i].line : INT64_MIN,
				  lines[i].column > 0 ? lines[i].column : INT64_MIN,
				  variable_of(frame, &lines[i]));
	}
	return r;
}

/* ---- The program's first calls ---- */

static void finish_users(struct user_frames *users)
{
	free_all(users->frames, users->stacks);
}
#define auto_users __attribute__((cleanup(finish_users)))

static int init_users(const struct stacks *stacks, struct user_frames *users)
{
	size_t n_frames = (size_t)stacks->first_frame + stacks->n_frames;
	size_t n_stacks = (size_t)stacks->first_stack + stacks->n_stacks;

	*users = (struct user_frames){
		.frames = calloc(n_frames, sizeof(*users->frames)),
		.n_frames = n_frames,
		.stacks = calloc(n_stacks, sizeof(*users->stacks)),
		.n_stacks = n_stacks,
	};
	return users->frames && users->stacks ? 0 : -ENOMEM;
}

/* What the database had stays as it was decided then. */
static int load_users(struct user_frames *users, sqlite3 *db)
{
	auto_statement sqlite3_stmt *frames = NULL, *stacks = NULL;
	int r = statement_prepare(db, "SELECT id, user_depth FROM frame", &frames);

	while (r == 0 && (r = statement_step(frames)) > 0) {
		size_t row = (size_t)sqlite3_column_int64(frames, 0);
		bool is_library = sqlite3_column_type(frames, 1) == SQLITE_NULL;
		r = 0;
		if (row > 0 && row < users->n_frames)
			users->frames[row] = (struct user_frame){
				.n_depth =
					is_library ? 0 : (uint8_t)sqlite3_column_int(frames, 1) + 1,
				.is_fixed = true,
			};
	}
	if (r == 0)
		r = statement_prepare(db, "SELECT id, parent_id, frame_id, user_id FROM stack",
				      &stacks);
	while (r == 0 && (r = statement_step(stacks)) > 0) {
		size_t row = (size_t)sqlite3_column_int64(stacks, 0);
		r = 0;
		if (row > 0 && row < users->n_stacks)
			users->stacks[row] = (struct user_stack){
				.parent = (uint32_t)sqlite3_column_int64(stacks, 1),
				.frame = (uint32_t)sqlite3_column_int64(stacks, 2),
				.user = (uint32_t)sqlite3_column_int64(stacks, 3),
				.is_fixed = true,
			};
	}
	return r;
}

struct frame_writing {
	sqlite3_stmt *frames;
	sqlite3_stmt *lines;
	struct user_frames *users;
	struct symbols_ahead *ahead;
};

static int write_frame(const struct stack_frame *frame, int64_t row,
		       const struct frame_writing *writing)
{
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];
	struct user_frame *user = &writing->users->frames[row];
	const struct stack_frame named = { symbols_ahead_take(writing->ahead, frame->object),
					   frame->offset };
	size_t n = symbols_lines(named.object, named.offset, lines, SYMBOLS_MAX_DEPTH);
	const char *function = n ? lines[0].function : symbols_function(named.object, named.offset);

	frame->object->debug = symbols_debug(named.object); /* for module.debug_info */
	*user = user_frame_of(lines, n, function, frame->object->path);
	int r = statement_put(writing->frames, "nttnti", row, frame->object->name,
			      frame->object->path, (int64_t)frame->offset, function,
			      user->n_depth ? (int64_t)user->n_depth - 1 : INT64_MIN);
	return r ?: write_lines(writing->lines, row, &named, lines, n);
}

struct order {
	uint32_t object;
	uint32_t frame;
};

DEFINE_ORDER(compare_order, struct order, BY(object) ?: BY(frame));

/* Object by object: so that only one file's debug information is in memory at a time. */
static struct order *order_frames(const struct stacks *stacks)
{
	struct order *order = calloc(stacks->n_frames + 1, sizeof(*order));

	if (!order)
		return NULL;
	for (size_t i = 0; i < stacks->n_frames; i++)
		order[i] = (struct order){ stacks->frames[i].object->number, (uint32_t)i };
	qsort(order, stacks->n_frames, sizeof(*order), compare_order);
	return order;
}

static void forget(struct symbols_ahead *ahead, struct object *object)
{
	object_forget(symbols_ahead_take(ahead, object));
	object_forget(object);
}

static int write_frames(struct stacks *stacks, sqlite3 *db, struct user_frames *users)
{
	auto_statement sqlite3_stmt *frames = NULL;
	auto_statement sqlite3_stmt *lines = NULL;
	struct order *order = order_frames(stacks);
	int r = order ? 0 : -ENOMEM;

	if (r == 0)
		r = statement_insert(db, "frame(id, object, path, offset, function, user_depth)", 6,
				     &frames);
	r = r ?: prepare_lines(db, &lines);
	const struct frame_writing writing = { frames, lines, users, stacks->ahead };
	for (size_t i = 0; r == 0 && i < stacks->n_frames; i++) {
		const struct stack_frame *frame = &stacks->frames[order[i].frame];

		if (i > 0 && order[i].object != order[i - 1].object)
			forget(stacks->ahead, stacks->frames[order[i - 1].frame].object);
		r = write_frame(frame, stacks->first_frame + order[i].frame, &writing);
	}
	free(order);
	return r;
}

/* A row that the database had. */
struct old_frame {
	int64_t row;
	struct stack_frame frame;
};

struct old_frames {
	struct old_frame *items; /* owned; object by object */
	size_t n;
	size_t n_allocated;
};

static int read_old(const struct stacks *stacks, sqlite3 *db, struct old_frames *old)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db, "SELECT id, object, path, offset FROM frame WHERE id < ? ORDER BY object",
		&statement);

	if (r == 0)
		statement_integer(statement, 1, stacks->first_frame);
	while (r == 0 && (r = statement_step(statement)) > 0) {
		const struct old_frame frame = {
			.row = sqlite3_column_int64(statement, 0),
			.frame = {
				objects_get_named(stacks->objects,
						  statement_string(statement, 1),
						  statement_string(statement, 2)),
				(uint64_t)sqlite3_column_int64(statement, 3),
			},
		};

		r = frame.frame.object ? grow_one(&old->items, old->n, &old->n_allocated) : -ENOMEM;
		if (r == 0)
			old->items[old->n++] = frame;
	}
	return r;
}

struct rename {
	sqlite3_stmt *name; /* frame.function, by id */
	sqlite3_stmt *forget; /* lines of a frame */
	sqlite3_stmt *lines;
	struct user_frames *users;
};

/* What is found now takes the place of what was there; what is not found any more stays. */
static int rename_frame(const struct rename *statements, const struct old_frame *old)
{
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];
	struct object *object = old->frame.object;
	size_t n = symbols_lines(object, old->frame.offset, lines, SYMBOLS_MAX_DEPTH);
	const char *function = n ? lines[0].function : symbols_function(object, old->frame.offset);
	int r = function ? statement_put(statements->name, "nt", old->row, function) : 0;

	if (function)
		statements->users->frames[old->row] =
			user_frame_of(lines, n, function, object->path);
	if (r < 0 || n == 0)
		return r;
	r = statement_put(statements->forget, "n", old->row);
	return r < 0 ? r : write_lines(statements->lines, old->row, &old->frame, lines, n);
}

static int rename_all(const struct old_frames *old, sqlite3 *db, struct user_frames *users)
{
	auto_statement sqlite3_stmt *name = NULL;
	auto_statement sqlite3_stmt *forget = NULL;
	auto_statement sqlite3_stmt *lines = NULL;
	int r = statement_prepare(db, "UPDATE frame SET function = ?2 WHERE id = ?1", &name);

	r = r ?: statement_prepare(db, "DELETE FROM frame_line WHERE frame_id = ?", &forget);
	r = r ?: prepare_lines(db, &lines);
	const struct rename statements = { name, forget, lines, users };
	for (size_t i = 0; r == 0 && i < old->n; i++) {
		if (i > 0 && old->items[i].frame.object != old->items[i - 1].frame.object)
			object_forget(old->items[i - 1].frame.object);
		r = rename_frame(&statements, &old->items[i]);
	}
	return r;
}

/* New names may make others the program's. */
static int write_users(const struct user_frames *users, sqlite3 *db)
{
	auto_statement sqlite3_stmt *frame = NULL, *stack = NULL;
	int r = statement_prepare(db,
				  "UPDATE frame SET user_depth = ?2 WHERE id = ?1 AND user_depth"
				  " IS NOT ?2",
				  &frame);

	for (size_t i = 1; r == 0 && i < users->n_frames; i++) {
		unsigned n_depth = users->frames[i].n_depth;
		r = statement_put(frame, "ni", (int64_t)i,
				  n_depth ? (int64_t)n_depth - 1 : INT64_MIN);
	}
	if (r == 0)
		r = statement_prepare(db,
				      "UPDATE stack SET user_id = ?2 WHERE id = ?1 AND user_id IS"
				      " NOT ?2",
				      &stack);
	for (size_t i = 1; r == 0 && i < users->n_stacks; i++) {
		uint32_t user = users->stacks[i].user;
		r = statement_put(stack, "ni", (int64_t)i, user ? (int64_t)user : INT64_MIN);
	}
	return r;
}

int stacks_rename(struct stacks *stacks, sqlite3 *db)
{
	auto_users struct user_frames users = { 0 };
	struct old_frames old = { 0 };
	int r = read_old(stacks, db, &old);

	r = r ?: init_users(stacks, &users);
	r = r ?: load_users(&users, db);
	r = r ?: rename_all(&old, db, &users);
	for (size_t i = 1; r == 0 && i < users.n_stacks; i++)
		users.stacks[i].is_fixed = false;
	r = r ?: user_frames_decide(&users) ?: write_users(&users, db);
	free(old.items);
	return r;
}

/* Frames were written as their names say; those that hand on turned out to be a library's. */
static int write_hands_on(struct user_frames *users, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db, "UPDATE frame SET user_depth = NULL WHERE id = ?",
				  &statement);

	for (size_t i = 1; r == 0 && i < users->n_frames; i++)
		if (users->frames[i].may_hand_on && !users->frames[i].n_depth)
			r = statement_put(statement, "n", (int64_t)i);
	return r;
}

static int decide_users(const struct stacks *stacks, struct user_frames *users, sqlite3 *db)
{
	for (size_t i = 0; i < stacks->n_stacks; i++)
		users->stacks[(size_t)stacks->first_stack + i] = (struct user_stack){
			.parent = (uint32_t)stacks->stacks[i].parent,
			.frame = (uint32_t)stacks->stacks[i].frame,
		};
	return user_frames_decide(users) ?: write_hands_on(users, db);
}

static const struct rows_table stack_table = {
	.name = "stack",
	.columns = "id, parent_id, frame_id, stop, depth, user_id",
	.types = "niitni",
};

static int write_stacks(const struct stacks *stacks, struct db *db, const struct user_frames *users)
{
	struct rows *rows = NULL;
	int r = rows_open(db, &stack_table, &rows);

	for (size_t i = 0; r == 0 && i < stacks->n_stacks; i++) {
		const struct stack_row *row = &stacks->stacks[i];
		int64_t id = stacks->first_stack + (int64_t)i;
		uint32_t user = users->stacks[id].user;

		r = rows_put(rows, CELL(id), CELL(row->parent ?: ROWS_NULL),
			     CELL(row->frame ?: ROWS_NULL),
			     CELL(row->frame ? NULL : stacks_stop_name(row->stop)),
			     CELL((int64_t)row->depth), CELL(user ? (int64_t)user : ROWS_NULL));
	}
	r = r ?: rows_flush(rows);
	rows_close(rows);
	/* Made behind the rows: a third of the time that it takes with each. */
	return r ?: db_run(db, "CREATE INDEX IF NOT EXISTS stack_parent ON stack(parent_id)", "");
}

int stacks_write(struct stacks *stacks, struct db *database)
{
	sqlite3 *db = db_handle(database);
	auto_users struct user_frames users = { 0 };
	int r = init_users(stacks, &users);

	r = r ?: load_users(&users, db);
	r = r ?: write_frames(stacks, db, &users);
	r = r ?: decide_users(stacks, &users, db);
	r = r ?: call_texts_write(db);
	return r ?: write_stacks(stacks, database, &users);
}
