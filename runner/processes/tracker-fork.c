/* Images of forked children that their slots tell of, and slots of images that perf told of. */
#include <signal.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "runner/processes/tracker.h"
#include "runner/trace-records-write.h"

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

	if (!image || image->pidfd < 0 || tracker_is_plausible_fork(tracker, pid))
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
	uint32_t used = tracker_slots_used(tracker);

	for (uint32_t slot = 0; slot < used; slot++) {
		if (tracker_slot_is_new(tracker, slot) &&
		    (pid_t)tracker->pool->processes[slot].pid == ns_pid)
			return open_forked(tracker, slot, pid, tracker_slot_parent(tracker, slot));
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
	struct image *parent = tracker_slot_parent(tracker, slot);
	/*
	 * Of an unknown process the records are read all the same, but its end is not waited for.
	 */
	pid_t pid = tracker_slot_pid(tracker, parent, slot);
	uint64_t now = clock_ticks(tracker->clock), start = process->start_ticks;
	struct image *image = pid > 0 ? images_find(&tracker->images, pid) : NULL;
	uint32_t parent_id = parent ? parent->id : 0;

	if (image && image->slot != IMAGE_NO_SLOT && start < image->start_ticks) {
		attach_predecessor(tracker, slot, image, parent);
		return;
	}
	/*
	 * perf may have told of the fork already; an image with a slot is one whose end we missed.
	 */
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
		/*
		 * One that was found after its exec, and before this slot, was taken for a program.
		 */
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
		if (tracker_slot_is_new(tracker, slot) &&
		    tracker->drain->slots[slot].generation == slots->found[i].generation)
			attach_slot(tracker, slot);
	}
}
