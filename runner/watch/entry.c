#include "runner/watch/entry.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/parse.h"
#include "common/text.h"
#include "runner/processes/image-proc.h"
#include "runner/watch/symbol.h"
#include "schemas/agent.h"
#include "schemas/recording.h"

#define MAX_NEAREST 8 /* images whose names are compared: it takes their time */

struct search {
	const char *symbol;
	const char *module; /* NULL: any */
	size_t n_module;
	bool has_module; /* it is mapped */
	uint64_t address;
	uint64_t n_bytes;
	bool wants_nearest; /* of the first file that is looked into */
	char nearest[64];
};

/* libfoo, libfoo.so and libfoo.so.1 are the same; or it is all of the path. */
static bool is_module(const struct search *search, const char *path)
{
	const char *name = text_base_name(path);

	if (strncmp(path, search->module, search->n_module) == 0 && !path[search->n_module])
		return true;
	return strncmp(name, search->module, search->n_module) == 0 &&
	       (!name[search->n_module] || name[search->n_module] == '.');
}

static void offer_names(struct search *search, struct watch_file *file)
{
	struct parse_nearest nearest = { .word = search->symbol };

	if (!search->wants_nearest)
		return;
	search->wants_nearest = false;
	watch_file_offer(file, &nearest);
	if (nearest.name)
		snprintf(search->nearest, sizeof(search->nearest), "%s", nearest.name);
}

/* A compiler may have made a function anew for the arguments that it has, and called it so. */
static bool find_function(struct watch_file *file, const char *name,
			  struct watch_symbol *ret_symbol)
{
	static const char *const suffixes[] = { "", ".constprop.0", ".isra.0", ".lto_priv.0" };
	char full[256];

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(full, sizeof(full), "%s%s", name, suffixes[i]);
		if (watch_file_find(file, full, ret_symbol) &&
		    ret_symbol->kind == WATCH_SYMBOL_FUNCTION)
			return true;
	}
	return false;
}

static void look_into(void *user, const struct image_map *map)
{
	struct search *search = user;
	auto_watch_file struct watch_file *file = NULL;
	struct watch_symbol symbol;
	uint64_t bias;

	if (search->address || !(map->prot & PROT_EXEC) || map->path[0] != '/' ||
	    strstr(map->path, RECORDING_LIBRARY) || strstr(map->path, AGENT_LIBRARY) ||
	    (search->module && !is_module(search, map->path)))
		return;
	search->has_module = true;
	if (watch_file_open(map->path, &file) < 0)
		return;
	if (!find_function(file, search->symbol, &symbol) ||
	    !watch_file_bias(file, map->start, map->file_offset, &bias)) {
		offer_names(search, file);
		return;
	}
	search->address = symbol.value + bias;
	search->n_bytes = symbol.n_bytes;
}

static uint64_t judge(struct entry *entry, const struct search *search)
{
	char why[sizeof(entry->problem)];
	size_t n = sizeof(why);

	if (!search->address && search->module && !search->has_module)
		snprintf(why, n, "%.*s is not loaded when the program starts",
			 (int)search->n_module, search->module);
	else if (!search->address && search->nearest[0])
		snprintf(why, n, "no function %.80s so far; is %s meant?", search->symbol,
			 search->nearest);
	else if (!search->address)
		snprintf(why, n, "no function %.80s so far (names of stripped files are not known)",
			 search->symbol);
	else if (search->n_bytes && search->n_bytes < ENTRY_JUMP_BYTES)
		snprintf(why, n, "%.80s has fewer than %u bytes; name one that calls it",
			 search->symbol, ENTRY_JUMP_BYTES);
	else if (search->address % ENTRY_WORD_BYTES > ENTRY_WORD_BYTES - ENTRY_JUMP_BYTES)
		snprintf(why, n,
			 "%.80s is not aligned to 8 bytes; name one that calls it, or build "
			 "with -falign-functions",
			 search->symbol);
	else
		return entry->n_found++, search->address;
	/* The one that has something like it is rather meant than those that it starts. */
	if (!entry->has_nearest || search->nearest[0])
		memcpy(entry->problem, why, sizeof(why));
	entry->has_nearest |= search->nearest[0] != '\0';
	return 0;
}

uint64_t entry_find(struct entry *entry, pid_t pid)
{
	const char *mark = strchr(entry->name, '!');
	struct search search = {
		.symbol = mark ? mark + 1 : entry->name,
		.module = mark ? entry->name : NULL,
		.n_module = mark ? (size_t)(mark - entry->name) : 0,
		.wants_nearest = entry->n_images < MAX_NEAREST,
	};

	entry->n_images++;
	image_each_map(pid, look_into, &search);
	return judge(entry, &search);
}

bool entry_is_in_file(const char *path, const char *symbol)
{
	auto_watch_file struct watch_file *file = NULL;
	struct watch_symbol found;

	return watch_file_open(path, &file) == 0 && find_function(file, symbol, &found);
}
