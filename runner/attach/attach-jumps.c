#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "runner/attach/attach-internal.h"

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
		int r;

		if (!item->moved)
			continue;
		r = remote_read(entry->pid, item->function, now, sizeof(now));
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
