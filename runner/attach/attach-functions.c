#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "runner/attach/attach-internal.h"
#include "schemas/functions-plan.h"

#define PAGE_BYTES 4096u
#define WORD_BYTES 8u

/* A list of the library's. NULL: it cannot be read, or has no items. */
static void *read_list(const struct entry *entry, uint64_t at, uint64_t n, size_t item_bytes)
{
	auto_free void *items = n > 0 ? malloc(n * item_bytes) : NULL;

	if (!items || remote_read(entry->pid, at, items, n * item_bytes) < 0)
		return NULL;
	return steal_ptr(&items);
}

/* The words before an instruction that changes are none where anybody may go on. */
static struct safety_place place_of(const struct attach_jump *jump)
{
	uint64_t start = jump->address + !jump->is_filling;
	uint64_t end = jump->address + (jump->is_filling ? jump->n : jump->n_moved);

	return (struct safety_place){ { start, end > start ? end : start }, SAFETY_IN_ENTRY };
}

static int list_places(struct entry *entry, const struct attach_area *areas)
{
	const struct attach_functions *functions = &entry->functions;
	size_t n = 0;

	entry->places = calloc(functions->n_jumps + functions->n_areas + 1, sizeof(*entry->places));
	if (!entry->places)
		return -ENOMEM;
	for (size_t i = 0; i < functions->n_jumps; i++)
		entry->places[n++] = place_of(&entry->jumps[i]);
	for (size_t i = 0; i < functions->n_areas; i++)
		entry->places[n++] =
			(struct safety_place){ { areas[i].start, areas[i].end }, SAFETY_IN_US };
	safety_use_places(entry->safety, entry->places, n);
	return 0;
}

int entry_find_functions(struct entry *entry)
{
	struct attach_call request = { .step = ATTACH_FUNCTIONS };
	struct attach_functions *functions = &entry->functions;
	int r = entry_step(entry, &request);

	*functions = request.functions;
	if (r < 0 || functions->n_jumps == 0)
		return r;
	if (functions->n_jumps > 2 * PLAN_MAX_FUNCTIONS || functions->n_areas > PLAN_MAX_FUNCTIONS)
		return entry_fail(entry, -EPROTO, "process %d has a damaged list of functions",
				  (int)entry->pid);
	entry->jumps =
		read_list(entry, functions->jumps, functions->n_jumps, sizeof(*entry->jumps));
	auto_free struct attach_area *areas =
		read_list(entry, functions->areas, functions->n_areas, sizeof(*areas));
	r = entry->jumps && areas ? list_places(entry, areas) : -ENOMEM;
	return r < 0 ? entry_fail(entry, r, "the functions of process %d cannot be listed: %s",
				  (int)entry->pid, strerror(-r))
		     : 0;
}

/*
 * The word that holds the bytes of a jump, as it is now. One that begins there may reach into a
 * page that is not mapped; then it ends there. A negative errno: there is no such code.
 */
static int read_word(const struct entry *entry, const struct attach_jump *jump, uint64_t *ret_at,
		     uint8_t ret_word[WORD_BYTES])
{
	bool is_last = jump->address % PAGE_BYTES > PAGE_BYTES - WORD_BYTES;

	if (jump->n > sizeof(jump->jump))
		return -EPROTO;
	*ret_at = jump->address - (is_last ? WORD_BYTES - jump->n : 0);
	return remote_read(entry->pid, *ret_at, ret_word, WORD_BYTES);
}

/* By one write, so that whoever is killed has written all of it or nothing. */
static int write_one(const struct entry *entry, const struct attach_jump *jump, bool is_jump)
{
	const uint8_t *from = is_jump ? jump->before : jump->jump;
	const uint8_t *to = is_jump ? jump->jump : jump->before;
	uint8_t word[WORD_BYTES], *bytes;
	uint64_t at;
	int r = read_word(entry, jump, &at, word);

	if (r == -EPROTO)
		return r;
	bytes = word + (jump->address - at);
	if (r < 0 || memcmp(bytes, from, jump->n) != 0)
		return -ENOENT; /* it is another file by now */
	memcpy(bytes, to, jump->n);
	return remote_poke(entry->guest.tid, at, word, sizeof(word));
}

/*
 * The first write to a page of a file makes a copy of it, and tells all CPUs. Done before, it is
 * not waited for while threads stand. What is written is what stands there.
 */
void entry_own_functions(struct entry *entry)
{
	uint64_t page = 0, at;
	uint8_t word[WORD_BYTES];

	for (size_t i = 0; i < entry->functions.n_jumps; i++) {
		const struct attach_jump *jump = &entry->jumps[i];

		if (jump->address / PAGE_BYTES == page)
			continue;
		page = jump->address / PAGE_BYTES;
		if (read_word(entry, jump, &at, word) == 0)
			remote_poke(entry->guest.tid, at, word, sizeof(word));
	}
}

void entry_write_functions(struct entry *entry)
{
	const struct attach_jump *jumps = entry->jumps;

	for (size_t i = 0; i < entry->functions.n_jumps; i++) {
		bool is_filling = jumps[i].is_filling && i + 1 < entry->functions.n_jumps;
		int r = write_one(entry, &jumps[i], true);

		if (r == 0 && is_filling) {
			r = write_one(entry, &jumps[i + 1], true);
			if (r < 0)
				write_one(entry, &jumps[i], false);
		}
		i += is_filling;
		entry->outcome->n_functions += r == 0;
		entry->outcome->n_functions_lost += r < 0;
	}
}

int entry_take_back_functions(struct entry *entry)
{
	int first_error = 0;

	for (size_t i = entry->functions.n_jumps; i-- > 0;) {
		int r = write_one(entry, &entry->jumps[i], false);

		if (r < 0 && r != -ENOENT && first_error == 0)
			first_error = r;
	}
	return first_error;
}

/* ---- Jumps ---- */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* What the library can have redirected, or has. */
static int list_entries(struct entry *entry)
{
	struct attach_call request = { .step = ATTACH_ENTRIES,
				       .entries = entry->loan.stack + MAX_TEXT };
	struct entries *entries = &entry->entries;
	int r = entry_step(entry, &request);

	if (r == 0 && request.n_entries > ATTACH_MAX_ENTRIES)
		r = -EPROTO;
	if (r == 0)
		r = remote_read(entry->pid, request.entries, entries->items,
				request.n_entries * sizeof(*entries->items));
	if (r == 0)
		family_read(entry->pid, request.root_at, &entry->outcome->family);
	entries->n = r < 0 ? 0 : request.n_entries;
	return r;
}

void entry_unmap_pages(struct entry *entry)
{
	uint64_t unused;

	for (size_t i = 0; i < entry->entries.n_pages; i++)
		entry_call(
			entry, entry->place.unmap,
			(const uint64_t[6]){ entry->entries.pages[i].address, ENTRIES_PAGE_BYTES },
			&unused);
	entry->entries.n_pages = 0;
}

/* It may be run, and not written, but by us. */
static int map_page(struct entry *entry, const struct entries_page *page)
{
	const uint64_t arguments[6] = {
		page->address,	       ENTRIES_PAGE_BYTES,
		PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		(uint64_t)-1,	       0
	};
	uint64_t address = 0, unused;
	int r = entry_call(entry, entry->place.map, arguments, &address);

	if (r == 0 && address == page->address)
		return remote_poke(entry->guest.tid, address, page->bytes, sizeof(page->bytes));
	/* Kernels before 4.17 take it for a wish. */
	if (r == 0 && address % ENTRIES_PAGE_BYTES == 0)
		entry_call(entry, entry->place.unmap,
			   (const uint64_t[6]){ address, ENTRIES_PAGE_BYTES }, &unused);
	return r < 0 ? r : -EEXIST;
}

void entry_prepare_jumps(struct entry *entry)
{
	struct entries *entries = &entry->entries;
	int r;

	if (list_entries(entry) < 0 || entries->n == 0) {
		entry->outcome->error = 0;
		return;
	}
	entries_plan(entries, &entry->modules, safety_malloc(entry->safety));
	for (size_t i = 0; i < entries->n_pages; i++) {
		r = map_page(entry, &entries->pages[i]);
		if (r == 0)
			continue;
		snprintf(entries->why, sizeof(entries->why), "no page for them: %s", strerror(-r));
		entries->n_pages = r == -EEXIST ? i : i + 1;
		entry_unmap_pages(entry);
		entries->n = 0;
	}
}

/* Write the jumps, or what stood there before; all threads stand. Where it stands, it stays. */
static int write_entries(struct entry *entry, bool are_jumps)
{
	const struct entries *entries = &entry->entries;
	int first_error = 0;

	for (uint32_t i = 0; i < entries->n; i++) {
		const struct attach_entry *item = &entries->items[i];
		const uint8_t *from = are_jumps ? item->before : item->jump;
		const uint8_t *to = are_jumps ? item->jump : item->before;
		uint8_t now[sizeof(item->jump)];

		if (!item->moved)
			continue;
		int r = remote_read(entry->pid, item->function, now, sizeof(now));
		if (r == 0 && memcmp(now, from, sizeof(now)) == 0)
			r = remote_poke(entry->guest.tid, item->function, to, sizeof(now));
		if (r < 0 && first_error == 0)
			first_error = r;
	}
	return first_error;
}

void entry_write_jumps(struct entry *entry)
{
	struct entries *entries = &entry->entries;
	int r = write_entries(entry, true);

	if (r < 0) {
		write_entries(entry, false);
		snprintf(entries->why, sizeof(entries->why), "their code cannot be written: %s",
			 strerror(-r));
	}
	for (uint32_t i = 0; r == 0 && i < entries->n; i++)
		entry->outcome->n_entries += entries->items[i].moved != 0;
}

int entry_take_back_jumps(struct entry *entry)
{
	return write_entries(entry, false);
}

int entry_find_jumps(struct entry *entry)
{
	struct entries *entries = &entry->entries;
	int r = list_entries(entry);

	if (r < 0)
		return r;
	entry->are_used = true;
	entries_find_pages(entries);
	for (size_t i = 0; i < entries->n_pages; i++)
		safety_add_ours(entry->safety, (struct module_range){ entries->pages[i].address,
								      entries->pages[i].address +
									      ENTRIES_PAGE_BYTES });
	return 0;
}
