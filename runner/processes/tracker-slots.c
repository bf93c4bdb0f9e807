/*
 * Slots that forked children claim by themselves, and which process each belongs to. A slot says
 * only what getpid() says in its program: in another pid namespace that is a number of its own.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runner/processes/image-proc.h"
#include "runner/processes/tracker.h"

/* A slot that a forked child has claimed and nobody drains yet. */
bool tracker_slot_is_new(const struct tracker *tracker, uint32_t slot)
{
	/* Pairs with the program's store of READY: the slot is filled. */
	uint32_t state =
		atomic_load_explicit(&tracker->pool->processes[slot].state, memory_order_acquire);

	return !tracker->drain->slots[slot].is_attached &&
	       !tracker->drain->slots[slot].is_awaited &&
	       (state == RING_PROCESS_READY || state == RING_PROCESS_ENDED);
}

uint32_t tracker_slots_used(const struct tracker *tracker)
{
	uint32_t used = atomic_load(&tracker->pool->control->processes_used);

	return used < tracker->pool->n_processes ? used : tracker->pool->n_processes;
}

void tracker_find_slots(struct tracker *tracker, struct tracker_slots *ret_slots)
{
	uint32_t used = tracker_slots_used(tracker);

	ret_slots->n = 0;
	for (uint32_t slot = 0; slot < used; slot++) {
		if (!tracker_slot_is_new(tracker, slot))
			continue;
		ret_slots->found[ret_slots->n].slot = slot;
		ret_slots->found[ret_slots->n++].generation =
			tracker->drain->slots[slot].generation;
	}
}

struct image *tracker_slot_parent(struct tracker *tracker, uint32_t slot)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	uint32_t n_slots = tracker->pool->n_processes, parent_slot = process->parent_slot;

	if (parent_slot >= n_slots || !tracker->drain->slots[parent_slot].is_attached)
		return NULL;
	return tracker->drain->slots[parent_slot].image;
}

struct image *tracker_parent(struct tracker *tracker, pid_t pid)
{
	pid_t parent = image_parent_pid(pid);

	return parent > 0 ? images_find(&tracker->images, parent) : NULL;
}

void tracker_bind_slot(struct tracker *tracker, struct image *image, uint32_t slot)
{
	image->slot = slot;
	image->is_traced = true;
	drain_attach(tracker->drain, slot, image);
}

struct pool_search {
	uintptr_t start; /* of a map; 0: wherever it lies */
	uint64_t inode; /* 0: found out here */
	bool is_found;
};

static void look_for_pool(void *user, const struct image_map *map)
{
	struct pool_search *search = user;
	bool is_pool = strncmp(map->path, POOL_MAP_PATH, sizeof(POOL_MAP_PATH) - 1) == 0 ||
		       strstr(map->path, POOL_FILE_NAME);

	if (!is_pool || (search->start && map->start != search->start) ||
	    (search->inode && map->inode != search->inode))
		return;
	search->inode = map->inode;
	search->is_found = true;
}

/*
 * The pools of all recordings have the same name. What maps tell of a file may not be what stat
 * tells.
 */
static uint64_t pool_inode(struct tracker *tracker)
{
	struct pool_search search = { .start = (uintptr_t)tracker->pool->control };

	if (tracker->pool_inode == 0)
		image_each_map(getpid(), look_for_pool, &search);
	if (search.is_found)
		tracker->pool_inode = search.inode;
	return tracker->pool_inode;
}

bool tracker_maps_pool(struct tracker *tracker, pid_t pid)
{
	struct pool_search search = { .inode = pool_inode(tracker) };

	if (search.inode)
		image_each_map(pid, look_for_pool, &search);
	return search.is_found;
}

/*
 * Threads have numbers of the same kind: one of our own maps the pool as well, and ends after the
 * recording.
 */
static bool is_of_ours(struct tracker *tracker, pid_t pid)
{
	return image_is_process(pid) &&
	       (tracker_parent(tracker, pid) || tracker_maps_pool(tracker, pid));
}

/*
 * A slot can name any process of this machine, and the recording would then wait for its end: it
 * must be the child of one of ours, or map the pool, or end by itself, or be gone. What may happen
 * while we look comes last.
 */
bool tracker_is_plausible_fork(struct tracker *tracker, pid_t pid)
{
	return pid > 1 && pid != getpid() &&
	       (is_of_ours(tracker, pid) || image_is_ending(pid) ||
		(kill(pid, 0) < 0 && errno == ESRCH));
}

/* Both are 0 or the pid that perf told of, for a slot whose program calls itself ns_pid. */
struct candidates {
	pid_t same; /* it is known under that number */
	pid_t youngest; /* the last child of the parent that was born before and has no slot */
};

static struct candidates find_candidates(const struct tracker *tracker, const struct image *parent,
					 pid_t ns_pid, uint64_t start)
{
	struct candidates found = { 0 };
	uint64_t born = 0;

	for (const struct image *image = tracker->images.first; image; image = image->next) {
		if (image->slot != IMAGE_NO_SLOT || image->birth != RING_BIRTH_FORK ||
		    (parent && image->parent_id != parent->id))
			continue;
		if (image->ns_pid == ns_pid)
			found.same = image->pid;
		if (parent && image->pid == image->ns_pid && image->start_ticks <= start &&
		    image->start_ticks > born) {
			found.youngest = image->pid;
			born = image->start_ticks;
		}
	}
	return found;
}

/* The number that we know the process of a slot by; 0: it cannot be told. */
pid_t tracker_slot_pid(struct tracker *tracker, const struct image *parent, uint32_t slot)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	pid_t ns_pid = (pid_t)process->pid;
	struct candidates found = find_candidates(tracker, parent, ns_pid, process->start_ticks);
	bool is_foreign = parent && parent->pid != parent->ns_pid;

	if (found.same)
		return found.same;
	if (!is_foreign &&
	    (images_find(&tracker->images, ns_pid) || tracker_is_plausible_fork(tracker, ns_pid)))
		return ns_pid;
	return found.youngest ? found.youngest : image_find_ns_pid(tracker->command_pid, ns_pid);
}

void tracker_adopt_slot(struct tracker *tracker, struct image *image, uint64_t ticks)
{
	uint32_t used = tracker_slots_used(tracker);

	if (image->slot != IMAGE_NO_SLOT || image->birth != RING_BIRTH_FORK)
		return;
	for (uint32_t slot = 0; slot < used; slot++) {
		const volatile struct ring_process *process = &tracker->pool->processes[slot];

		if (!tracker_slot_is_new(tracker, slot) || process->start_ticks >= ticks ||
		    tracker_slot_pid(tracker, tracker_slot_parent(tracker, slot), slot) !=
			    image->pid)
			continue;
		image->ns_pid = (pid_t)process->pid;
		tracker_bind_slot(tracker, image, slot);
		return;
	}
}
