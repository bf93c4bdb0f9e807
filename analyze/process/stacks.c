#include "analyze/process/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/stacks-internal.h"
#include "common/array.h"
#include "schemas/ring.h"
#include "store/statement.h"

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
	[STACKS_STOP_LOST] = "definition lost",
};

const char *stacks_stop_name(unsigned stop)
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
	for (size_t i = 0; i < stacks->n_threads; i++)
		free(stacks->threads[i].nodes);
	free(stacks->threads);
	free(stacks->frames);
	free(stacks->stacks);
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

	int r = load_frames(stacks, db);
	if (r == 0)
		r = load_stacks(stacks, db);
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
	if (grow_array(&stacks->frames, stacks->n_frames, &stacks->n_frames_allocated,
		       sizeof(*stacks->frames)) < 0)
		return -ENOMEM;
	row = stacks->first_frame + (int64_t)stacks->n_frames;
	if (key_map_put(&stacks->frame_rows, object->number, offset, (uint64_t)row) < 0)
		return -ENOMEM;
	stacks->frames[stacks->n_frames++] = (struct stack_frame){ object, offset };
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
	if (grow_array(&stacks->stacks, stacks->n_stacks, &stacks->n_stacks_allocated,
		       sizeof(*stacks->stacks)) < 0)
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
		if (grow_array(&stacks->threads, stacks->n_threads, &stacks->n_threads_allocated,
			       sizeof(*stacks->threads)) < 0)
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
		int r = grow_array(&thread->nodes, thread->n, &thread->n_allocated,
				   sizeof(*thread->nodes));
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
		stop = node->pc < TRACE_STOP_TABLE_FULL + 1 ? (unsigned)node->pc : TRACE_STOP_NONE;
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
