#include "tracealloc/symbol.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tracealloc/state.h"

/* What a file's dynamic section says about its symbols (gABI chapter 5; DT_GNU_HASH as binutils has it). */
struct table {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu; /* n_buckets, first symbol, words of the filter, shift */
	const uint32_t *sysv; /* n_buckets, n_chains */
};

struct search {
	const char *name;
	bool is_behind; /* our own file was passed */
	bool is_found;
};

static uint32_t hash_gnu(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static uint32_t hash_sysv(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (uint8_t)*name;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

static bool is_symbol(const struct table *table, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &table->symbols[i];

	return symbol->st_shndx != SHN_UNDEF && strcmp(table->strings + symbol->st_name, name) == 0;
}

static bool find_gnu(const struct table *table, const char *name)
{
	const uint32_t *head = table->gnu;
	const ElfW(Addr) *filter = (const void *)(head + 4);
	const uint32_t *buckets = (const void *)(filter + head[2]);
	const uint32_t *chain = buckets + head[0];
	uint32_t hash = hash_gnu(name);
	uint32_t i = head[0] ? buckets[hash % head[0]] : 0;

	for (; i >= head[1]; i++) {
		uint32_t entry = chain[i - head[1]];

		if ((entry | 1) == (hash | 1) && is_symbol(table, i, name))
			return true;
		if (i == 0 || entry & 1)
			break;
	}
	return false;
}

static bool find_sysv(const struct table *table, const char *name)
{
	const uint32_t *buckets = table->sysv + 2;
	const uint32_t *chains = buckets + table->sysv[0];
	uint32_t i = table->sysv[0] ? buckets[hash_sysv(name) % table->sysv[0]] : 0;

	for (; i != 0; i = chains[i])
		if (is_symbol(table, i, name))
			return true;
	return false;
}

/* glibc has put the addresses into the section, other loaders leave offsets. */
static const void *pointer_of(const struct dl_phdr_info *info, const ElfW(Dyn) * entry)
{
	uintptr_t value = entry->d_un.d_ptr;

	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static struct table read_table(const struct dl_phdr_info *info, const ElfW(Dyn) * entry)
{
	struct table table = { NULL, NULL, NULL, NULL };

	for (; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			table.symbols = pointer_of(info, entry);
		else if (entry->d_tag == DT_STRTAB)
			table.strings = pointer_of(info, entry);
		else if (entry->d_tag == DT_GNU_HASH)
			table.gnu = pointer_of(info, entry);
		else if (entry->d_tag == DT_HASH)
			table.sysv = pointer_of(info, entry);
	}
	return table;
}

static bool is_ours(const struct dl_phdr_info *info)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD &&
		    (uintptr_t)&ta_image - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
			return true;
	}
	return false;
}

static bool defines(const struct dl_phdr_info *info, const char *name)
{
	struct table table = { NULL, NULL, NULL, NULL };

	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			table = read_table(
				info, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
	if (!table.symbols || !table.strings)
		return false;
	if (table.gnu)
		return find_gnu(&table, name);
	return table.sysv && find_sysv(&table, name);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
	struct search *search = user;

	(void)size;
	if (!search->is_behind)
		search->is_behind = is_ours(info);
	else
		search->is_found = defines(info, search->name);
	return search->is_found;
}

bool ta_symbol_is_next(const char *name)
{
	struct search search = { .name = name };

	dl_iterate_phdr(look_at, &search);
	return search.is_found;
}

void *ta_symbol_next(const char *name)
{
	return ta_symbol_is_next(name) ? dlsym(RTLD_NEXT, name) : NULL;
}
