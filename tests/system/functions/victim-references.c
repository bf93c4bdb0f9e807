/*
 * Objects with counts of references, in memory that is never freed, and is taken again: what ends
 * them is known by the counts alone. Prints how many have ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#define API static __attribute__((noinline, optnone))
#else
#define API static __attribute__((noinline, noclone, noipa))
#endif

struct object {
	atomic_int n;
	int is_self_kept; /* its destructor takes it once more, for a while */
	size_t size;
	struct object *child;
	struct object *next; /* that has ended */
};

static _Alignas(16) char memory[400000];
static size_t used;
static struct object *ended[32]; /* by size / 8 */
static unsigned n_ended;

API struct object *object_new(size_t size)
{
	struct object *object = ended[size / 8];

	if (object) {
		ended[size / 8] = object->next;
	} else {
		object = (struct object *)(memory + used);
		used += (size + 15) & ~(size_t)15;
	}
	*object = (struct object){ .n = 1, .size = size };
	return object;
}

API struct object *object_ref(struct object *object)
{
	atomic_fetch_add(&object->n, 1);
	return object;
}

API void object_dispose(struct object *object)
{
	object->next = ended[object->size / 8];
	ended[object->size / 8] = object;
	n_ended++;
}

static void object_unref(struct object *object);

API void object_unref_full(struct object *object)
{
	if (atomic_fetch_sub(&object->n, 1) != 1)
		return;
	if (object->is_self_kept) {
		object_ref(object);
		object_unref(object->child);
		object->is_self_kept = 0;
		atomic_fetch_sub(&object->n, 1);
	} else if (object->child) {
		object_unref(object->child);
	}
	object_dispose(object);
}

/* Jumps to, or calls, another one of them: one reference. */
API void object_unref(struct object *object)
{
	object_unref_full(object);
}

/* What is left. */
API int object_release(struct object *object)
{
	int left = atomic_fetch_sub(&object->n, 1) - 1;

	if (left == 0)
		object_dispose(object);
	return left;
}

static void *share(void *objects)
{
	for (int i = 0; i < 1000; i++) {
		struct object *object = ((struct object **)objects)[i % 10];

		object_ref(object);
		object_unref(object);
	}
	for (int i = 0; i < 10; i++)
		object_unref(((struct object **)objects)[i]);
	return NULL;
}

static void threads(void)
{
	struct object *objects[10];
	pthread_t ids[4];

	for (int i = 0; i < 10; i++) {
		objects[i] = object_new(144);
		for (int k = 0; k < 3; k++)
			object_ref(objects[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&ids[i], NULL, share, objects);
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
}

int main(void)
{
	struct object *list = NULL;

	for (int i = 0; i < 100; i++) {
		struct object *object = object_new(104);

		for (int k = 0; k < 3; k++)
			object_ref(object);
		for (int k = 0; k < 4; k++)
			object_unref(object);
		object_unref(object_ref(object_new(112))); /* stays */
	}
	for (int i = 0; i < 50; i++) {
		struct object *object = object_new(120);

		object->is_self_kept = 1;
		object->child = object_new(128);
		object_unref(object);
	}
	for (int i = 0; i < 100; i++) { /* destructors in destructors */
		struct object *object = object_new(136);

		object->child = list;
		list = object;
	}
	object_unref(list);
	list = NULL;
	threads();
	for (int i = 0; i < 40; i++) { /* references are taken by nobody's call: "left" knows */
		struct object *object = object_new(152);

		atomic_fetch_add(&object->n, 2);
		object_release(object);
		object_release(object);
		if (i < 30)
			object_release(object);
	}
	for (int i = 0; i < 20; i++) { /* one is given back by nobody's call: "free" knows */
		struct object *object = object_ref(object_new(160));

		atomic_fetch_sub(&object->n, 1);
		object->next = list;
		list = object;
	}
	for (int i = 0; i < 20; i++) {
		struct object *object = list;

		list = object->next;
		object_unref(object);
	}
	printf("%u\n", n_ended);
	return 0;
}
