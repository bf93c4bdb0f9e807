#include "analyze/symbols/ahead.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "analyze/symbols/objects.h"
#include "analyze/symbols/symbols.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/worker-thread.h"

/*
 * Of files, whose debug information may be packed: at the end of an import it is read object by
 * object, so that only one is in memory at a time.
 */
#define MOST_BYTES (32 << 20)

struct expected {
	struct object *object; /* of the twins */
	uint64_t address;
};

struct symbols_ahead {
	struct objects *objects;
	struct object **twins; /* by object.number; NULL: not expected yet */
	size_t n_twins;
	pthread_t thread;
	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t changed;
	struct expected *items;
	size_t n;
	size_t n_allocated;
	bool is_running;
	bool ends;
};

/* Of the file that has its debug information, if there is any. */
static int64_t bytes_of(struct object *object)
{
	const char *path = object->debug_file ? object->debug_file : object->path;
	struct stat status;

	return symbols_debug(object) == OBJECT_LINES && stat(path, &status) == 0 ? status.st_size
										 : 0;
}

static void *look_ahead(void *context)
{
	struct symbols_ahead *ahead = context;
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];
	int64_t n_bytes = 0;

	pthread_mutex_lock(&ahead->mutex);
	for (size_t i = 0; !ahead->ends;) {
		if (i == ahead->n) {
			pthread_cond_wait(&ahead->changed, &ahead->mutex);
			continue;
		}
		struct expected next = ahead->items[i++];
		bool is_first = !next.object->is_opened;
		pthread_mutex_unlock(&ahead->mutex);
		if ((!is_first || n_bytes < MOST_BYTES) &&
		    !symbols_lines(next.object, next.address, lines, SYMBOLS_MAX_DEPTH))
			symbols_function(next.object, next.address);
		if (is_first && next.object->is_opened)
			n_bytes += bytes_of(next.object);
		pthread_mutex_lock(&ahead->mutex);
	}
	pthread_mutex_unlock(&ahead->mutex);
	return NULL;
}

struct symbols_ahead *symbols_ahead_open(const struct objects *objects)
{
	struct symbols_ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead || objects_create_twins(objects, &ahead->objects) < 0)
		return free(ahead), NULL;
	pthread_mutex_init(&ahead->mutex, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	ahead->is_running = quiet_thread_start(&ahead->thread, look_ahead, ahead) == 0;
	return ahead;
}

static void stop(struct symbols_ahead *ahead)
{
	if (!ahead->is_running)
		return;
	pthread_mutex_lock(&ahead->mutex);
	ahead->ends = true;
	pthread_cond_signal(&ahead->changed);
	pthread_mutex_unlock(&ahead->mutex);
	pthread_join(ahead->thread, NULL);
	ahead->is_running = false;
}

struct symbols_ahead *symbols_ahead_close(struct symbols_ahead *ahead)
{
	if (!ahead)
		return NULL;
	stop(ahead);
	objects_destroy(ahead->objects);
	pthread_cond_destroy(&ahead->changed);
	pthread_mutex_destroy(&ahead->mutex);
	free_all(ahead->twins, ahead->items, ahead);
	return NULL;
}

/* The thread reads what an object has, and nobody else does; none is made for the second time. */
static struct object *twin_of(struct symbols_ahead *ahead, const struct object *object)
{
	if (grow_array_to(&ahead->twins, object->number, &ahead->n_twins, sizeof(*ahead->twins)) <
	    0)
		return NULL;
	struct object **twin = &ahead->twins[object->number];
	if (!*twin)
		*twin = objects_get_named(ahead->objects, object->name, object->path);
	return *twin;
}

void symbols_ahead_expect(struct symbols_ahead *ahead, const struct object *object,
			  uint64_t address)
{
	struct object *twin = ahead && ahead->is_running ? twin_of(ahead, object) : NULL;

	if (!twin)
		return;
	pthread_mutex_lock(&ahead->mutex);
	/* Without memory there is one less to be read ahead. */
	(void)!array_add(ahead->items, ahead->n, ahead->n_allocated,
			 (struct expected){ twin, address });
	pthread_cond_signal(&ahead->changed);
	pthread_mutex_unlock(&ahead->mutex);
}

struct object *symbols_ahead_take(struct symbols_ahead *ahead, struct object *object)
{
	if (!ahead)
		return object;
	stop(ahead);
	struct object *twin = object->number < ahead->n_twins ? ahead->twins[object->number] : NULL;
	return twin && twin->elf ? twin : object;
}
