/*
 * Slots that forked children claim by themselves, and which process each belongs to. A slot says
 * only what getpid() says in its program: in another pid namespace that is a number of its own.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/tracker.h"
#include "runner/trace-records-write.h"

/* A slot that a forked child has claimed and nobody drains yet. */
static bool is_new(const struct tracker *tracker, uint32_t slot)
{
	/* Pairs with the program's store of READY: the slot is filled. */
	uint32_t state =
		atomic_load_explicit(&tracker->pool->processes[slot].state, memory_order_acquire);

	return !tracker->drain->slots[slot].is_attached &&
	       !tracker->drain->slots[slot].is_awaited &&
	       (state == RING_PROCESS_READY || state == RING_PROCESS_ENDED);
}

static uint32_t n_used_slots(const struct tracker *tracker)
{
	uint32_t used = atomic_load(&tracker->pool->control->processes_used);

	return used < tracker->pool->n_processes ? used : tracker->pool->n_processes;
}

void tracker_find_slots(struct tracker *tracker, struct tracker_slots *ret_slots)
{
	uint32_t used = n_used_slots(tracker);

	ret_slots->n = 0;
	for (uint32_t slot = 0; slot < used; slot++) {
		if (!is_new(tracker, slot))
			continue;
		ret_slots->found[ret_slots->n].slot = slot;
		ret_slots->found[ret_slots->n++].generation =
			tracker->drain->slots[slot].generation;
	}
}

static struct image *image_of_slot(struct tracker *tracker, uint32_t slot)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	uint32_t n_slots = tracker->pool->n_processes, parent_slot = process->parent_slot;

	if (parent_slot >= n_slots || !tracker->drain->slots[parent_slot].is_attached)
		return NULL;
	return tracker->drain->slots[parent_slot].image;
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

/* The pools of all recordings have the same name. What maps tell of a file may not be what stat tells. */
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

/* Threads have numbers of the same kind: one of our own maps the pool as well, and ends after the recording. */
static bool is_of_ours(struct tracker *tracker, pid_t pid)
{
	return image_is_process(pid) &&
	       (tracker_parent(tracker, pid) || tracker_maps_pool(tracker, pid));
}

/*
 * A slot can name any process of this machine, and the recording would then wait for its end: it must
 * be the child of one of ours, or map the pool, or end by itself, or be gone. What may happen while we
 * look comes last.
 */
static bool is_plausible_fork(struct tracker *tracker, pid_t pid)
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
static pid_t pid_of_slot(struct tracker *tracker, const struct image *parent, uint32_t slot)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	pid_t ns_pid = (pid_t)process->pid;
	struct candidates found = find_candidates(tracker, parent, ns_pid, process->start_ticks);
	bool is_foreign = parent && parent->pid != parent->ns_pid;

	if (found.same)
		return found.same;
	if (!is_foreign &&
	    (images_find(&tracker->images, ns_pid) || is_plausible_fork(tracker, ns_pid)))
		return ns_pid;
	if (found.youngest)
		return found.youngest;
	return image_find_ns_pid(tracker->command_pid, ns_pid);
}

void tracker_adopt_slot(struct tracker *tracker, struct image *image, uint64_t ticks)
{
	uint32_t used = n_used_slots(tracker);

	if (image->slot != IMAGE_NO_SLOT || image->birth != RING_BIRTH_FORK)
		return;
	for (uint32_t slot = 0; slot < used; slot++) {
		const volatile struct ring_process *process = &tracker->pool->processes[slot];

		if (!is_new(tracker, slot) || process->start_ticks >= ticks ||
		    pid_of_slot(tracker, image_of_slot(tracker, slot), slot) != image->pid)
			continue;
		image->ns_pid = (pid_t)process->pid;
		tracker_bind_slot(tracker, image, slot);
		return;
	}
}

/* When the child was forked, within what a program may say and COMMIT has not passed. */
static uint64_t birth_of_slot(const struct tracker *tracker, uint32_t slot)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	uint64_t start = process->start_ticks, fork = process->fork_ticks;
	uint64_t now = clock_ticks(tracker->clock), safe = tracker->drain->safe_ticks;
	uint64_t born = fork && fork < start ? fork : start;

	return born > now ? now : born < safe ? safe : born;
}

/* Let an image that was opened for a slot have it. COMMIT should not have passed its birth. */
static void bind_claimed(struct tracker *tracker, struct image *image, uint32_t slot)
{
	uint64_t fork = tracker->pool->processes[slot].fork_ticks;

	tracker_bind_slot(tracker, image, slot);
	tracker->drain->slots[slot].losses.n_late_forks = fork && fork < image->start_ticks;
}

/*
 * An image that only a slot tells of. Between the look at its process and the pidfd that its end is
 * waited for by, the number may have become another's. NULL: no memory.
 */
static struct image *open_claimed(struct tracker *tracker, uint32_t slot, pid_t pid)
{
	struct image *image =
		tracker_open_image(tracker, pid, RING_BIRTH_FORK, birth_of_slot(tracker, slot));

	if (!image || image->pidfd < 0 || is_plausible_fork(tracker, pid))
		return image;
	cleanup_close(&image->pidfd);
	image->pidfd = -1;
	image->pid = image->sampler.pid = 0;
	return image;
}

/* The image of a forked child that only its slot tells of. NULL: no memory. */
static struct image *open_forked(struct tracker *tracker, uint32_t slot, pid_t pid,
				 const struct image *parent)
{
	struct image *image =
		tracker_open_image(tracker, pid, RING_BIRTH_FORK, birth_of_slot(tracker, slot));

	if (!image)
		return NULL;
	if (parent)
		image->parent_id = parent->id;
	tracker_inspect_fork(image, parent);
	image->ns_pid = (pid_t)tracker->pool->processes[slot].pid;
	bind_claimed(tracker, image, slot);
	return image;
}

struct image *tracker_adopt_forked(struct tracker *tracker, pid_t pid, pid_t ns_pid)
{
	uint32_t used = n_used_slots(tracker);

	for (uint32_t slot = 0; slot < used; slot++) {
		if (is_new(tracker, slot) && (pid_t)tracker->pool->processes[slot].pid == ns_pid)
			return open_forked(tracker, slot, pid, image_of_slot(tracker, slot));
	}
	return NULL;
}

/*
 * The slot of a forked child whose exec and hello came before we saw it: an image that is over.
 */
static void attach_predecessor(struct tracker *tracker, uint32_t slot, struct image *successor,
			       const struct image *parent)
{
	struct image *image = open_forked(tracker, slot, successor->pid, parent);

	if (!image)
		return;
	if (!successor->is_written) {
		successor->parent_id = image->id;
		successor->exec_seq = 1;
	}
	tracker_end_image(tracker, image, STORE_STATUS_REPLACED, successor->start_ticks);
}

static void attach_slot(struct tracker *tracker, uint32_t slot)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	struct image *parent = image_of_slot(tracker, slot);
	/* Of an unknown process the records are read all the same, but its end is not waited for. */
	pid_t pid = pid_of_slot(tracker, parent, slot);
	uint64_t now = clock_ticks(tracker->clock), start = process->start_ticks;
	struct image *image = pid > 0 ? images_find(&tracker->images, pid) : NULL;
	uint32_t parent_id = parent ? parent->id : 0;

	if (image && image->slot != IMAGE_NO_SLOT && start < image->start_ticks) {
		attach_predecessor(tracker, slot, image, parent);
		return;
	}
	/* perf may have told of the fork already; an image with a slot is one whose end we missed. */
	if (image && image->slot != IMAGE_NO_SLOT) {
		tracker_end_image(tracker, image, STORE_STATUS_UNKNOWN, now);
		if (parent == image) /* that claims a second slot, as its own child */
			parent = NULL;
		image = NULL;
	}
	if (!image)
		image = open_claimed(tracker, slot, pid);
	if (!image)
		return;
	if (image->parent_id == 0)
		image->parent_id = parent_id;
	image->ns_pid = (pid_t)process->pid;
	if (image->is_written) {
		tracker_bind_slot(tracker, image, slot);
	} else {
		/* One that was found after its exec, and before this slot, was taken for a program. */
		image->birth = RING_BIRTH_FORK;
		image->start_ticks = birth_of_slot(tracker, slot);
		bind_claimed(tracker, image, slot);
	}
	if (parent)
		tracker_announce(tracker, parent);
	if (!image->is_written)
		tracker_inspect_fork(image, parent);
	tracker_announce(tracker, image);
}

void tracker_attach_slots(struct tracker *tracker, const struct tracker_slots *slots)
{
	for (uint32_t i = 0; i < slots->n; i++) {
		uint32_t slot = slots->found[i].slot;

		/* perf's word of the fork may have bound it since, and its image may have ended. */
		if (is_new(tracker, slot) &&
		    tracker->drain->slots[slot].generation == slots->found[i].generation)
			attach_slot(tracker, slot);
	}
}
