#include "analyze/process/module-list.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct module_list *module_list_create(void)
{
	struct module_list *list = calloc(1, sizeof(*list));

	if (list)
		list->first_announce_ns = INT64_MAX;
	return list;
}

struct module_list *module_list_destroy(struct module_list *list)
{
	if (!list)
		return NULL;
	free(list->items);
	free(list->max_ends);
	free(list->ends);
	free(list);
	return NULL;
}

/* How many items start at or before an address. */
static size_t count_up_to(const struct module_list *list, uint64_t address)
{
	size_t low = 0;
	size_t high = list->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list->items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void module_list_settle(struct module_list *list)
{
	uint64_t max_end = 0;

	for (size_t i = 0; i < list->n; i++) {
		max_end = list->items[i].end > max_end ? list->items[i].end : max_end;
		list->max_ends[i] = max_end;
	}
}

struct module *module_list_add(struct module_list *list, const struct module *module)
{
	if (grow_array(&list->items, list->n, &list->n_allocated, sizeof(*list->items)) < 0 ||
	    grow_array(&list->max_ends, list->n, &list->n_max_ends_allocated,
		       sizeof(*list->max_ends)) < 0)
		return NULL;

	size_t at = count_up_to(list, module->start);
	while (at > 0 && list->items[at - 1].start == module->start &&
	       list->items[at - 1].load_ns > module->load_ns)
		at--;
	memmove(list->items + at + 1, list->items + at, (list->n - at) * sizeof(*list->items));
	list->items[at] = *module;
	list->items[at].order = list->n_told++;
	list->n++;
	list->tls_bytes = 0; /* to be found again */
	list->last_epoch.until_ns = 0;
	module_list_settle(list);
	return &list->items[at];
}

static bool holds(const struct module *module, uint64_t address, int64_t time_ns)
{
	return address - module->start < module->end - module->start &&
	       module->load_ns <= time_ns && time_ns < module->unload_ns;
}

struct module *module_list_find(struct module_list *list, uint64_t address, int64_t time_ns)
{
	if (list->last < list->n && holds(&list->items[list->last], address, time_ns))
		return &list->items[list->last];

	for (size_t i = count_up_to(list, address); i > 0 && list->max_ends[i - 1] > address; i--) {
		if (holds(&list->items[i - 1], address, time_ns)) {
			list->last = i - 1;
			return &list->items[i - 1];
		}
	}
	return NULL;
}
