#include "runner/processes/image.h"

#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "common/cleanup.h"

struct image *images_find(const struct images *images, pid_t pid)
{
	struct image *image = images->first;

	while (image && image->pid != pid)
		image = image->next;
	return image;
}

struct image *images_find_id(const struct images *images, uint32_t id)
{
	struct image *image = images->first;

	while (image && image->id != id)
		image = image->next;
	return image;
}

bool images_has_known(const struct images *images)
{
	for (const struct image *image = images->first; image; image = image->next) {
		if (image->pid > 0)
			return true;
	}
	return false;
}

struct image *images_add(struct images *images, pid_t pid)
{
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	image->id = ++images->next_id;
	image->pid = pid;
	image->ns_pid = pid;
	image->slot = IMAGE_NO_SLOT;
	image->pidfd = -1;
	image->writes = PAGE_WRITES_NONE;
	image->touches.table = -1;
	image->rank = IMAGE_RANK_UNKNOWN;
	image->sampler.pid = pid;
	image->next = images->first;
	images->first = image;
	images->n_live++;
	return image;
}

uint64_t image_cpu_ns(const struct image *image)
{
	struct timespec now;
	clockid_t clock;

	if (image->pid <= 0 || clock_getcpuclockid(image->pid, &clock) != 0 ||
	    clock_gettime(clock, &now) < 0)
		return 0;
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void images_remove(struct images *images, struct image *image)
{
	struct image **link = &images->first;

	while (*link != image)
		link = &(*link)->next;
	*link = image->next;
	images->n_live--;
	cleanup_close(&image->pidfd);
	cleanup_close(&image->touches.table);
	page_writes_finish(&image->writes);
	free_all(image->command, image->last_exec, image->threads, image);
}

void images_finish(struct images *images)
{
	while (images->first)
		images_remove(images, images->first);
}

void image_add_thread(struct image *image, const struct image_thread *thread)
{
	if (grow_one(&image->threads, image->n_threads, &image->threads_allocated) < 0)
		return;
	image->threads[image->n_threads++] = *thread;
}

/* All but the last IMAGE_ENDED_THREADS of those that have ended. */
static void forget_ended_threads(struct image *image)
{
	size_t n_forgotten = image->n_ended_threads - IMAGE_ENDED_THREADS, n_kept = 0;

	image->n_ended_threads = IMAGE_ENDED_THREADS;
	for (size_t i = 0; i < image->n_threads; i++) {
		if (image->threads[i].has_ended && n_forgotten > 0)
			n_forgotten--;
		else
			image->threads[n_kept++] = image->threads[i];
	}
	image->n_threads = n_kept;
}

void image_end_thread(struct image *image, uint32_t id)
{
	size_t i = image->n_threads;

	while (i > 0 && image->threads[i - 1].id != id)
		i--;
	if (i == 0 || image->threads[i - 1].has_ended)
		return;
	image->threads[i - 1].has_ended = true;
	if (++image->n_ended_threads == 2 * IMAGE_ENDED_THREADS)
		forget_ended_threads(image);
}

uint32_t image_thread_id(const struct image *image, uint32_t ns_tid)
{
	for (size_t i = image->n_threads; i-- > 0;) {
		if (image->threads[i].ns_tid == ns_tid)
			return image->threads[i].id;
	}
	return 0;
}

uint64_t image_fs_base(const struct image *image, uint32_t tid)
{
	for (size_t i = image->n_threads; i-- > 0;) {
		if (image->threads[i].tid == tid)
			return image->threads[i].fs_base;
	}
	return 0;
}
