#include "tracealloc/stack/symbol.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "tracealloc/state.h"

#define MAX_FILES     32u
#define HIDDEN_SYMBOL 0x8000u /* a version that is not the default one */

/* The files behind ours, in the order of search; n_files 0: not listed. */
static struct ta_dynamic files[MAX_FILES];
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

static bool is_symbol(const struct ta_dynamic *table, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &table->symbols[i];

	return symbol->st_shndx != SHN_UNDEF && strcmp(table->strings + symbol->st_name, name) == 0;
}

static const ElfW(Sym) * find_gnu(const struct ta_dynamic *table, const char *name)
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

static const ElfW(Sym) * find_sysv(const struct ta_dynamic *table, const char *name)
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
static const void *pointer_of(const struct ta_dynamic *file, const ElfW(Dyn) * entry)
{
	uintptr_t value = entry->d_un.d_ptr;

	return (const void *)(value < file->bias ? file->bias + value : value);
}

static void take_entry(struct ta_dynamic *file, const ElfW(Dyn) * entry)
{
	switch (entry->d_tag) {
	case DT_SYMTAB:
		file->symbols = pointer_of(file, entry);
		break;
	case DT_STRTAB:
		file->strings = pointer_of(file, entry);
		break;
	case DT_GNU_HASH:
		file->gnu = pointer_of(file, entry);
		break;
	case DT_HASH:
		file->sysv = pointer_of(file, entry);
		break;
	case DT_VERSYM:
		file->versions = pointer_of(file, entry);
		break;
	case DT_RELA:
		file->tables[0] = pointer_of(file, entry);
		break;
	case DT_RELASZ:
		file->n[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
		break;
	case DT_RELACOUNT:
		file->n_relative = entry->d_un.d_val;
		break;
	case DT_JMPREL:
		file->tables[1] = pointer_of(file, entry);
		break;
	case DT_PLTRELSZ:
		file->n[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
		break;
	case DT_PLTREL:
		file->has_rel = entry->d_un.d_val != DT_RELA;
		break;
	case DT_INIT:
	case DT_INIT_ARRAY:
		file->has_start = true;
		break;
	}
}

static void take_header(struct ta_dynamic *file, const ElfW(Phdr) * header)
{
	uintptr_t start = file->bias + header->p_vaddr, end = start + header->p_memsz;
	uintptr_t mask = -(uintptr_t)ta_image.page_bytes;
	const ElfW(Dyn) *entry = (const void *)start;

	if (header->p_type == PT_LOAD && start < file->start)
		file->start = start;
	if (header->p_type == PT_LOAD && end > file->end)
		file->end = end;
	if (header->p_type == PT_GNU_RELRO) {
		file->sealed_start = start & mask;
		file->sealed_end = end & mask;
	}
	for (; header->p_type == PT_DYNAMIC && entry->d_tag != DT_NULL; entry++)
		take_entry(file, entry);
}

struct ta_dynamic ta_dynamic_read(uintptr_t bias, const ElfW(Phdr) * headers, unsigned n_headers)
{
	struct ta_dynamic file = { .bias = bias, .start = UINTPTR_MAX };

	for (unsigned i = 0; i < n_headers; i++)
		take_header(&file, &headers[i]);
	return file;
}

bool ta_dynamic_write(const struct ta_dynamic *file, void **slot, void *value)
{
	uintptr_t page = (uintptr_t)slot & -(uintptr_t)ta_image.page_bytes;
	bool is_sealed = page >= file->sealed_start && page < file->sealed_end;

	if (is_sealed && ta_syscall(SYS_mprotect, (long)page, ta_image.page_bytes,
				    PROT_READ | PROT_WRITE, 0, 0, 0) < 0)
		return false;
	atomic_store((_Atomic(void *) *)slot, value);
	if (is_sealed)
		ta_syscall(SYS_mprotect, (long)page, ta_image.page_bytes, PROT_READ, 0, 0, 0);
	return true;
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

static struct ta_dynamic table_of(const struct dl_phdr_info *info)
{
	return ta_dynamic_read(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
}

static const ElfW(Sym) * find_in(const struct ta_dynamic *table, const char *name)
{
	if (!table->symbols || !table->strings)
		return NULL;
	if (table->gnu)
		return find_gnu(table, name);
	return table->sysv ? find_sysv(table, name) : NULL;
}

/* More than an address is left to dlsym. */
static bool is_plain(const struct ta_dynamic *table, const ElfW(Sym) * symbol)
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
	const struct ta_dynamic table = table_of(info);
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

	dl_iterate_phdr(look_at, &search);
	if (search.is_plain)
		return (void *)(search.bias + search.found->st_value);
	/* It stays open: what we point into must not go. */
	void *handle = search.found ? dlopen(search.file, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	return handle ? dlsym(handle, name) : NULL;
}

void *ta_symbol_next(const char *name)
{
	if (n_files && !are_more)
		return find_listed(name);
	if (!ta_symbol_is_next(name))
		return NULL;
	void *found = dlsym(is_late ? RTLD_DEFAULT : RTLD_NEXT, name);
	return is_late && ta_symbol_is_jump(found) ? find_behind(name) : found;
}
