#include "tracealloc/stack/symbol.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tracealloc/state.h"

/*
 * What a file's dynamic section says about its symbols (gABI chapter 5; DT_GNU_HASH as binutils has
 * it).
 */
struct table {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu; /* n_buckets, first symbol, words of the filter, shift */
	const uint32_t *sysv; /* n_buckets, n_chains */
	const ElfW(Half) * versions; /* of symbols; NULL: they have none */
	uintptr_t bias;
};

#define MAX_FILES     32u
#define HIDDEN_SYMBOL 0x8000u /* a version that is not the default one */

/* The files behind ours, in the order of search; n_files 0: not listed. */
static struct table files[MAX_FILES];
static uint32_t n_files;
static bool are_more; /* than there is room for */
static bool is_late; /* we were opened when the program ran: all files stand before us */
static bool is_placed; /* that is known */

/* glibc has it, musl has not. */
extern __typeof__(dladdr1) dladdr1 __attribute__((weak));

struct search {
	const char *name;
	bool is_behind; /* our own file was passed */
	const ElfW(Sym) * found;
	bool is_plain; /* it is a function, and the version that is meant without one */
	const char *file; /* that has it */
	uintptr_t bias; /* of that file */
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

static const ElfW(Sym) * find_gnu(const struct table *table, const char *name)
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
			return &table->symbols[i];
		if (i == 0 || entry & 1)
			break;
	}
	return NULL;
}

static const ElfW(Sym) * find_sysv(const struct table *table, const char *name)
{
	const uint32_t *buckets = table->sysv + 2;
	const uint32_t *chains = buckets + table->sysv[0];
	uint32_t i = table->sysv[0] ? buckets[hash_sysv(name) % table->sysv[0]] : 0;

	for (; i != 0; i = chains[i])
		if (is_symbol(table, i, name))
			return &table->symbols[i];
	return NULL;
}

/* glibc has put the addresses into the section, other loaders leave offsets. */
static const void *pointer_of(const struct dl_phdr_info *info, const ElfW(Dyn) * entry)
{
	uintptr_t value = entry->d_un.d_ptr;

	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static struct table read_table(const struct dl_phdr_info *info, const ElfW(Dyn) * entry)
{
	struct table table = { .bias = info->dlpi_addr };

	for (; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			table.symbols = pointer_of(info, entry);
		else if (entry->d_tag == DT_STRTAB)
			table.strings = pointer_of(info, entry);
		else if (entry->d_tag == DT_GNU_HASH)
			table.gnu = pointer_of(info, entry);
		else if (entry->d_tag == DT_HASH)
			table.sysv = pointer_of(info, entry);
		else if (entry->d_tag == DT_VERSYM)
			table.versions = pointer_of(info, entry);
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

static struct table table_of(const struct dl_phdr_info *info)
{
	struct table table = { NULL };

	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			table = read_table(
				info, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
	return table;
}

static const ElfW(Sym) * find_in(const struct table *table, const char *name)
{
	if (!table->symbols || !table->strings)
		return NULL;
	if (table->gnu)
		return find_gnu(table, name);
	return table->sysv ? find_sysv(table, name) : NULL;
}

/* More than an address is left to dlsym. */
static bool is_plain(const struct table *table, const ElfW(Sym) * symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
	       !(table->versions && table->versions[symbol - table->symbols] & HIDDEN_SYMBOL);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
	struct search *search = user;

	(void)size;
	if (is_ours(info))
		search->is_behind = true;
	if (!search->is_behind || is_ours(info))
		return 0;
	const struct table table = table_of(info);
	search->found = find_in(&table, search->name);
	search->is_plain = search->found && is_plain(&table, search->found);
	search->file = info->dlpi_name;
	search->bias = info->dlpi_addr;
	return search->found != NULL;
}

static int list_file(struct dl_phdr_info *info, size_t size, void *user)
{
	bool *is_behind = user;

	(void)size;
	if (is_ours(info))
		*is_behind = true;
	else if (*is_behind && n_files < MAX_FILES)
		files[n_files++] = table_of(info);
	else
		are_more = are_more || *is_behind;
	return 0;
}

void ta_symbol_begin(void)
{
	bool is_behind = false;

	are_more = false;
	/* Others may unload what we have listed: nobody looks into a list then. */
	if (!is_late)
		dl_iterate_phdr(list_file, &is_behind);
	if (!is_placed && n_files == 0 && is_behind)
		is_late = true;
	is_placed = true;
}

bool ta_symbol_is_late(void)
{
	return is_late;
}

void ta_symbol_end(void)
{
	n_files = 0;
}

/* As dlsym finds it in the first file that has it. */
static void *find_listed(const char *name)
{
	const ElfW(Sym) *symbol = NULL;
	uint32_t i = 0;

	while (i < n_files && !(symbol = find_in(&files[i], name)))
		i++;
	if (!symbol)
		return NULL;
	if (!is_plain(&files[i], symbol))
		return dlsym(is_late ? RTLD_DEFAULT : RTLD_NEXT, name);
	return (void *)(files[i].bias + symbol->st_value);
}

bool ta_symbol_is_next(const char *name)
{
	struct search search = { .name = name, .is_behind = is_late };

	dl_iterate_phdr(look_at, &search);
	return search.found != NULL;
}

void *ta_symbol_address(const char *name)
{
	struct search search = { .name = name };

	dl_iterate_phdr(look_at, &search);
	if (!search.found) {
		search.is_behind = true; /* we were opened late: the C library stands before us */
		dl_iterate_phdr(look_at, &search);
	}
	return search.found ? (void *)(search.bias + search.found->st_value) : NULL;
}

bool ta_symbol_is_jump(const void *address)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info = { 0 };

	return address && dladdr1 && dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) &&
	       symbol && symbol->st_shndx == SHN_UNDEF;
}

/* The definition behind a program's jump to it: where that leads changes with what we do. */
static void *find_behind(const char *name)
{
	struct search search = { .name = name, .is_behind = true };
	void *handle;

	dl_iterate_phdr(look_at, &search);
	if (search.is_plain)
		return (void *)(search.bias + search.found->st_value);
	/* It stays open: what we point into must not go. */
	handle = search.found ? dlopen(search.file, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	return handle ? dlsym(handle, name) : NULL;
}

void *ta_symbol_next(const char *name)
{
	void *found;

	if (n_files && !are_more)
		return find_listed(name);
	if (!ta_symbol_is_next(name))
		return NULL;
	found = dlsym(is_late ? RTLD_DEFAULT : RTLD_NEXT, name);
	return is_late && ta_symbol_is_jump(found) ? find_behind(name) : found;
}
