/* Programs that say hello after exec, and slots that forked children claim by themselves. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "runner/image-proc.h"
#include "runner/store.h"
#include "runner/tracker.h"

/* The image that says hello: the one that perf or the launch announced, or a new one. */
static struct image *image_of_hello(struct tracker *tracker, pid_t pid, uint64_t ticks)
{
	struct image *image = images_find(&tracker->images, pid);
	struct image *parent;

	if (image && image->slot == IMAGE_NO_SLOT && image->birth == RING_BIRTH_EXEC &&
	    !image->is_written)
		return image;
	/* Its predecessor ran untraced or traced; or, without perf, a fork that we knew ended here. */
	if (image)
		return tracker_replace_image(tracker, image, ticks);
	parent = tracker_parent(tracker, pid);
	image = tracker_open_image(tracker, pid, RING_BIRTH_EXEC, ticks);
	if (image && parent)
		image->parent_id = parent->id;
	return image;
}

/* Programs of other users are served only when our command started them (su, setpriv). */
static bool is_one_of_ours(struct tracker *tracker, const struct ucred *peer)
{
	pid_t pid = peer->pid;

	if (peer->uid == geteuid())
		return true;
	for (int depth = 0; pid > 1 && depth < 64; depth++) {
		if (images_find(&tracker->images, pid))
			return true;
		pid = image_parent_pid(pid);
	}
	return false;
}

static enum recording_verdict judge(struct tracker *tracker, const struct recording_hello *hello,
				    const struct ucred *peer)
{
	struct image *image = images_find(&tracker->images, peer->pid);

	if (hello->version != RING_VERSION)
		return RECORDING_WRONG_VERSION;
	if (peer->pid <= 1 || peer->pid == getpid() || !is_one_of_ours(tracker, peer))
		return RECORDING_REFUSED;
	if (tracker->no_alloc)
		return RECORDING_REFUSED;
	if (tracker->no_follow &&
	    !(image && image->id == tracker->command_id && image->slot == IMAGE_NO_SLOT))
		return RECORDING_REFUSED;
	return RECORDING_ACCEPTED;
}

/* processes_used tells which slots were ever claimed; programs raise it too. */
static void raise_used(struct tracker *tracker, uint32_t used)
{
	_Atomic uint32_t *word = &tracker->pool->control->processes_used;
	uint32_t seen = atomic_load(word);

	while (seen < used && !atomic_compare_exchange_weak(word, &seen, used))
		continue;
}

static int claim_slot(struct tracker *tracker, uint32_t *ret_slot)
{
	for (uint32_t slot = 0; slot < tracker->pool->n_processes; slot++) {
		uint32_t expected = RING_PROCESS_FREE;

		if (!tracker->drain->slots[slot].is_attached &&
		    atomic_compare_exchange_strong(&tracker->pool->processes[slot].state, &expected,
						   RING_PROCESS_CLAIMED)) {
			raise_used(tracker, slot + 1);
			*ret_slot = slot;
			return 0;
		}
	}
	return -EUSERS;
}

struct map_writer {
	struct tracker *tracker;
	uint32_t process_id;
	uint64_t ticks;
};

static void write_map(void *user, const struct image_map *map)
{
	struct map_writer *to = user;

	store_map(to->tracker->writer, to->process_id, to->ticks, map);
}

/* While the program waits for its welcome: nothing changes under our eyes. */
static void store_maps(struct tracker *tracker, const struct image *image, uint64_t ticks)
{
	struct map_writer writer = { tracker, image->id, ticks };

	image_each_map(image->pid, write_map, &writer);
}

void tracker_hello(struct tracker *tracker, const struct recording_hello *hello,
		   const struct ucred *peer, struct recording_welcome *ret_welcome)
{
	enum recording_verdict verdict = judge(tracker, hello, peer);
	uint64_t ticks = clock_ticks(tracker->clock);
	struct image *image = NULL;
	uint32_t slot = 0;

	if (verdict == RECORDING_ACCEPTED && claim_slot(tracker, &slot) < 0)
		verdict = RECORDING_NO_SLOT;
	if (verdict == RECORDING_ACCEPTED) {
		image = image_of_hello(tracker, peer->pid, ticks);
		if (!image) {
			atomic_store(&tracker->pool->processes[slot].state, RING_PROCESS_FREE);
			verdict = RECORDING_NO_SLOT;
		}
	}
	*ret_welcome = (struct recording_welcome){
		.magic = RECORDING_MAGIC,
		.verdict = verdict,
		.pool_bytes = tracker->pool->bytes,
	};
	if (!image)
		return;
	ret_welcome->slot = slot;
	ret_welcome->generation = tracker->drain->slots[slot].generation;
	tracker_bind_slot(tracker, image, slot);
	image_inspect(image);
	image->ns_pid = (pid_t)hello->pid;
	tracker_announce(tracker, image); /* definitions of what belongs to it come after it */
	store_maps(tracker, image, ticks);
}

/* A slot that a forked child has claimed and nobody drains yet. */
static bool is_new(const struct tracker *tracker, uint32_t slot)
{
	/* Pairs with the program's store of READY: the slot is filled. */
	uint32_t state =
		atomic_load_explicit(&tracker->pool->processes[slot].state, memory_order_acquire);

	return !tracker->drain->slots[slot].is_attached &&
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
	for (uint32_t slot = 0; slot < used && ret_slots->n < TRACKER_MAX_NEW_SLOTS; slot++) {
		if (is_new(tracker, slot))
			ret_slots->slots[ret_slots->n++] = slot;
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

/* The number that we know the process by; its own when there is only one pid namespace. */
static pid_t pid_of_slot(struct tracker *tracker, const struct image *parent, pid_t ns_pid)
{
	pid_t pid;

	if (!parent || parent->pid == parent->ns_pid)
		return ns_pid;
	pid = image_find_ns_pid(tracker->command_pid, ns_pid);
	return pid > 0 ? pid : ns_pid;
}

void tracker_adopt_slot(struct tracker *tracker, struct image *image, uint64_t ticks)
{
	uint32_t used = n_used_slots(tracker);

	if (image->slot != IMAGE_NO_SLOT || image->birth != RING_BIRTH_FORK)
		return;
	for (uint32_t slot = 0; slot < used; slot++) {
		const volatile struct ring_process *process = &tracker->pool->processes[slot];

		if (!is_new(tracker, slot) || process->start_ticks >= ticks ||
		    pid_of_slot(tracker, image_of_slot(tracker, slot), (pid_t)process->pid) !=
			    image->pid)
			continue;
		image->ns_pid = (pid_t)process->pid;
		tracker_bind_slot(tracker, image, slot);
		return;
	}
}

/*
 * The slot of a forked child whose exec and hello came before we saw it: an image that is over.
 */
static void attach_predecessor(struct tracker *tracker, uint32_t slot, struct image *successor,
			       const struct image *parent)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	struct image *image =
		tracker_open_image(tracker, successor->pid, RING_BIRTH_FORK, process->start_ticks);

	if (!image)
		return;
	if (parent)
		image->parent_id = parent->id;
	tracker_inspect_fork(image, parent);
	image->ns_pid = (pid_t)process->pid;
	tracker_bind_slot(tracker, image, slot);
	if (!successor->is_written) {
		successor->parent_id = image->id;
		successor->exec_seq = 1;
	}
	tracker_end_image(tracker, image, STORE_STATUS_REPLACED, successor->start_ticks);
}

static void look_for_pool(void *user, const struct image_map *map)
{
	if (strncmp(map->path, POOL_MAP_PATH, sizeof(POOL_MAP_PATH) - 1) == 0)
		*(bool *)user = true;
}

/*
 * A slot can name any process of this machine, and the recording would then wait for its end: perf
 * told of its birth, or it maps the pool, or it is gone already.
 */
static bool is_plausible_fork(const struct tracker *tracker, pid_t pid)
{
	bool maps_pool = false;

	if (pid <= 1 || pid == getpid())
		return false;
	if (images_find(&tracker->images, pid))
		return true;
	return image_each_map(pid, look_for_pool, &maps_pool) == -ENOENT || maps_pool ||
	       image_is_zombie(pid);
}

static void attach_slot(struct tracker *tracker, uint32_t slot)
{
	const volatile struct ring_process *process = &tracker->pool->processes[slot];
	struct image *parent = image_of_slot(tracker, slot);
	pid_t ns_pid = (pid_t)process->pid;
	pid_t pid = pid_of_slot(tracker, parent, ns_pid);
	uint64_t now = clock_ticks(tracker->clock), start = process->start_ticks;
	struct image *image = images_find(&tracker->images, pid);

	if (!is_plausible_fork(tracker, pid))
		return; /* nonsense of a hostile program: its records will never be read */
	if (image && image->slot != IMAGE_NO_SLOT && start < image->start_ticks) {
		attach_predecessor(tracker, slot, image, parent);
		return;
	}
	if (start > now || start < tracker->drain->safe_ticks)
		start = now;
	/* perf may have told of the fork already; an image with a slot is one whose end we missed. */
	if (image && image->slot != IMAGE_NO_SLOT) {
		tracker_end_image(tracker, image, STORE_STATUS_UNKNOWN, now);
		image = NULL;
	}
	if (!image)
		image = tracker_open_image(tracker, pid, RING_BIRTH_FORK, start);
	if (!image)
		return;
	if (image->parent_id == 0 && parent)
		image->parent_id = parent->id;
	image->ns_pid = ns_pid;
	tracker_bind_slot(tracker, image, slot);
	if (parent)
		tracker_announce(tracker, parent);
	if (!image->is_written)
		tracker_inspect_fork(image, parent);
	tracker_announce(tracker, image);
}

void tracker_attach_slots(struct tracker *tracker, const struct tracker_slots *slots)
{
	for (uint32_t i = 0; i < slots->n; i++)
		attach_slot(tracker, slots->slots[i]);
}
