/* How much static TLS an image has below its thread pointer, by glibc's layout of its modules. */
#include <stdlib.h>

#include "analyze/process/modules-internal.h"

/* glibc 2.36: rtld_static_tls_surplus with default tunables, for IE libraries loaded later. */
#define TLS_SURPLUS_BYTES 1664u

static uint64_t round_up(uint64_t value, uint64_t align)
{
	return align > 1 ? (value + align - 1) / align * align : value;
}

static int compare_order(const void *a, const void *b)
{
	const struct module *left = *(const struct module *const *)a;
	const struct module *right = *(const struct module *const *)b;

	return left->order < right->order ? -1 : left->order > right->order;
}

/* The static TLS modules of an image in the order of its link map, allocated; n of them. */
static const struct module **tls_modules(const struct module_list *list, size_t *ret_n)
{
	const struct module **modules = calloc(list->n + 1, sizeof(*modules));
	size_t n = 0;

	for (size_t i = 0; modules && i < list->n; i++) {
		const struct module *module = &list->items[i];

		if (module->is_announced && module->load_ns <= list->first_announce_ns &&
		    object_open(module->object) && module->object->tls_bytes)
			modules[n++] = module;
	}
	if (modules)
		qsort(modules, n, sizeof(*modules), compare_order);
	*ret_n = n;
	return modules;
}

/*
 * glibc's _dl_determine_tlsoffset for TLS_TCB_AT_TP (elf/dl-tls.c), without its reuse of gaps,
 * which can only make the block smaller.
 */
static uint64_t tls_layout(const struct module **modules, size_t n)
{
	uint64_t offset = 0;
	uint64_t max_align = 64; /* TCB_ALIGNMENT */

	for (size_t i = 0; i < n; i++) {
		const struct object *object = modules[i]->object;
		uint64_t align = object->tls_align ? object->tls_align : 1;
		uint64_t first_byte = -object->tls_address & (align - 1);

		offset = round_up(offset + object->tls_bytes - first_byte, align) + first_byte;
		max_align = align > max_align ? align : max_align;
	}
	return round_up(offset + TLS_SURPLUS_BYTES, max_align);
}

uint64_t module_tls_bytes(const struct module_list *list)
{
	size_t n;
	const struct module **ordered = tls_modules(list, &n);
	uint64_t n_bytes = ordered ? tls_layout(ordered, n) : 0;

	free(ordered);
	return n_bytes;
}
