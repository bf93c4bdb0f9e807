/* Programs that say hello after exec, and slots that forked children claim by themselves. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/tracker.h"
#include "runner/run-options.h"
#include "runner/trace-records-write.h"
#include "runner/watch/entry.h"

/* The image that says hello: the one that perf or the launch announced, or a new one. */
static struct image *image_of_hello(struct tracker *tracker, pid_t pid, pid_t ns_pid,
				    uint64_t ticks)
{
	struct image *image = images_find(&tracker->images, pid);

	if (!image)
		image = tracker_adopt_forked(tracker, pid, ns_pid);
	if (image && image->slot == IMAGE_NO_SLOT && image->birth == RING_BIRTH_EXEC &&
	    !image->is_written)
		return image;
	/*
	 * Its predecessor ran untraced or traced; or, without perf, a fork that we knew ended here.
	 */
	if (image)
		return tracker_replace_image(tracker, image, ticks);
	struct image *parent = tracker_parent(tracker, pid);
	image = tracker_open_image(tracker, pid, RING_BIRTH_EXEC, ticks);
	if (image && parent)
		image->parent_id = parent->id;
	return image;
}

/*
 * Without perf a static program that another one spawns is met twice, as what that runs and by its
 * hello, in any order.
 */
static void know_spawned(struct tracker *tracker, struct image *image)
{
	struct image *parent = tracker_parent(tracker, image->pid);
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)image->pid);
	if (!parent || image_file_why_not(path) != TRACE_NOT_STATIC)
		return;
	parent->n_spawned_static += !parent->untraced_id;
	tracker_know_untraced(tracker, image, parent->untraced_id);
	parent->untraced_id = 0;
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
	if (tracker->no_follow && !(image && image->is_wanted && image->slot == IMAGE_NO_SLOT))
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

bool tracker_is_plain(const struct tracker *tracker, const struct tracker_visit *visit)
{
	const struct recording_hello *hello = &visit->greeting.hello;

	return hello->version == RING_VERSION && hello->command_bytes && hello->maps_bytes &&
	       visit->peer.uid == geteuid() && !tracker->no_follow && !tracker->entry;
}

void tracker_admit(struct tracker *tracker, struct tracker_visit *visit)
{
	enum recording_verdict verdict = judge(tracker, &visit->greeting.hello, &visit->peer);
	uint32_t slot = 0;

	visit->ticks = clock_ticks(tracker->clock);
	visit->exe_fd = image_open_exe(visit->peer.pid);
	if (verdict == RECORDING_ACCEPTED && claim_slot(tracker, &slot) < 0)
		verdict = RECORDING_NO_SLOT;
	visit->welcome = (struct recording_welcome){
		.magic = RECORDING_MAGIC,
		.verdict = verdict,
		.pool_bytes = tracker->pool->shared_bytes,
		.plan_bytes = tracker->functions ? tracker->functions->plan_bytes : 0,
		.ticks = clock_ticks(tracker->clock),
		.raw_ns = clock_ticks(RING_CLOCK_RAW),
	};
	if (verdict != RECORDING_ACCEPTED)
		return;
	visit->welcome.slot = slot;
	visit->welcome.generation = tracker->drain->slots[slot].generation;
	tracker->drain->slots[slot].is_awaited = true;
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

/* As they were before its welcome: told by itself, or read while it waits for it. */
static void store_maps(struct tracker *tracker, const struct image *image,
		       struct tracker_visit *visit)
{
	const struct recording_hello *hello = &visit->greeting.hello;
	struct map_writer writer = { tracker, image->id, visit->ticks };
	char *maps = visit->greeting.text + hello->command_bytes;

	if (!hello->maps_bytes) {
		image_each_map(image->pid, write_map, &writer);
		return;
	}
	maps[hello->maps_bytes - 1] = '\0'; /* the end of the last line */
	image_each_map_of(maps, write_map, &writer);
}

/*
 * Blocks of an allocator in the executable itself cannot be counted; that there is one can be told.
 */
static void tell_own_malloc(struct tracker *tracker, const struct image *image, int exe_fd)
{
	struct store_loss loss = {
		.process_id = image->id,
		.count = 1,
		.source = "tracealloc",
		.reason = "malloc of its own",
	};

	if (image_has_malloc(image, exe_fd))
		store_loss(tracker->writer, &loss);
}

/* Texts are those of all images; a program with functions that has no event yet has told none. */
static void store_names(struct tracker *tracker, const struct image *image)
{
	const struct run_functions *functions = tracker->functions;

	for (size_t i = 0; functions && !tracker->has_names && i < functions->n; i++)
		store_text(tracker->writer, image->id, text_name_id(functions->names[i]),
			   functions->names[i], strlen(functions->names[i]));
	tracker->has_names = true;
}

void tracker_hello(struct tracker *tracker, struct tracker_visit *visit)
{
	const struct recording_hello *hello = &visit->greeting.hello;
	const struct image_told told = { visit->exe_fd, visit->greeting.text,
					 hello->command_bytes };
	uint32_t slot = visit->welcome.slot;

	if (visit->welcome.verdict != RECORDING_ACCEPTED)
		return;
	tracker->last_untraced_id = 0;
	struct image *image =
		image_of_hello(tracker, visit->peer.pid, (pid_t)hello->pid, visit->ticks);
	if (image && !tracker->has_task_records && !tracker->last_untraced_id)
		know_spawned(tracker, image);
	tracker->drain->slots[slot].is_awaited = false;
	if (!image) { /* no memory; one that has its welcome is found by its slot */
		uint32_t claimed = RING_PROCESS_CLAIMED;

		visit->welcome.verdict = RECORDING_NO_SLOT;
		atomic_compare_exchange_strong(&tracker->pool->processes[slot].state, &claimed,
					       RING_PROCESS_FREE);
		return;
	}
	tracker->hello_ticks = visit->ticks;
	tracker_bind_slot(tracker, image, slot);
	image_inspect_program(image, &told);
	image->ns_pid = (pid_t)hello->pid;
	tracker_announce(tracker, image); /* definitions of what belongs to it come after it */
	store_maps(tracker, image, visit);
	tell_own_malloc(tracker, image, visit->exe_fd);
	store_names(tracker, image);
	tracker->pool->processes[slot].entry_address =
		tracker->entry ? entry_find(tracker->entry, image->pid) : 0;
}

void tracker_unattached(struct tracker *tracker, const struct tracker_visit *visit)
{
	const struct recording_hello *hello = &visit->greeting.hello;
	struct image *image = images_find(&tracker->images, visit->peer.pid);

	if (judge(tracker, hello, &visit->peer) != RECORDING_ACCEPTED)
		return;
	/* One that was waited for in vain stands in the trace already. */
	if (!image || image->is_traced || image->birth != RING_BIRTH_EXEC)
		image = image_of_hello(tracker, visit->peer.pid, (pid_t)hello->pid,
				       clock_ticks(tracker->clock));
	if (!image)
		return;
	image_inspect(image);
	image->ns_pid = (pid_t)hello->pid;
	tracker_note_unattached(tracker, image, TRACKER_TOO_LATE);
}
