#include "analyze/symbols/allocator-code.h"

#include <string.h>

#include "analyze/symbols/symbol-table.h"
#include "common/text.h"
#include "schemas/agent.h"

/* Functions of the family under any prefix, as __libc_memalign or je_malloc. */
static const char *const family_parts[] = { "malloc",  "calloc",	"memalign",
					    "realloc", "valloc",	"mallinfo",
					    "mallopt", "aligned_alloc", "morecore" };
static const char *const family_names[] = { "free", "cfree", "reallocarray", "free_sized",
					    "free_aligned_sized" };

static bool is_family(const char *name)
{
	for (size_t i = 0; i < sizeof(family_parts) / sizeof(*family_parts); i++) {
		if (strstr(name, family_parts[i]))
			return true;
	}
	for (size_t i = 0; i < sizeof(family_names) / sizeof(*family_names); i++) {
		if (strcmp(name, family_names[i]) == 0)
			return true;
	}
	return false;
}

/* Static functions lie beside the global ones of their source file. */
static bool belongs(const struct symbol_entry *entry)
{
	return entry->is_local || is_family(entry->name);
}

/* From the end of the foreign function before to the start of the one behind. */
static void surround(struct object *object, const struct symbol_list *functions, size_t at)
{
	size_t first = at;
	size_t last = at;

	while (first > 0 && belongs(&functions->items[first - 1]))
		first--;
	while (last + 1 < functions->n && belongs(&functions->items[last + 1]))
		last++;
	object->allocator_start =
		first > 0 ? functions->items[first - 1].end : functions->items[first].address;
	object->allocator_end = last + 1 < functions->n ? functions->items[last + 1].address
							: functions->items[last].end;
}

static void find_range(struct object *object)
{
	const struct symbol_table *table = symbol_table_of(object);

	object->has_allocator_range = true;
	if (!table)
		return;

	const struct symbol_list *functions = &table->functions;
	const struct symbol_entry *entry = symbol_list_named(functions, "malloc");
	if (!entry)
		return;
	if (!symbol_list_named(functions, "printf") && !symbol_list_named(functions, "main") &&
	    !symbol_list_named(functions, "_start")) {
		object->allocator_end = UINT64_MAX;
		return;
	}
	surround(object, functions, (size_t)(entry - functions->items));
}

bool allocator_holds(struct object *object, uint64_t address)
{
	if (!object->has_allocator_range)
		find_range(object);
	return object->allocator_start <= address && address < object->allocator_end;
}

bool allocator_is_in(struct object *object)
{
	if (!object->has_allocator_range)
		find_range(object);
	return object->allocator_end > 0;
}

bool allocator_is_tool(const struct object *object)
{
	const char *name = text_base_name(object->path);

	name += strncmp(name, "memfd:", 6) == 0 ? 6 : 0; /* of a container that was attached to */
	return strncmp(name, "libtracealloc", 13) == 0 || strcmp(name, AGENT_LIBRARY) == 0;
}
