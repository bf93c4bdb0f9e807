#include "runner/attach/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "runner/attach/remote.h"
#include "runner/processes/image-proc.h"

#define MAX_HEADERS    64
#define MAX_DYNAMIC    128
#define MAX_NAME_BYTES 256
#define MAX_SYMBOLS    (1u << 20)
#define SEARCHED_BYTES (64u << 10) /* at a time, of code */

struct listing {
	struct remote_modules *modules;
	int err;
};

static void keep_path(struct remote_module *module, const char *path)
{
	size_t n = strlen(path), room = sizeof(module->path) - 1;

	memcpy(module->path, n > room ? path + n - room : path, n > room ? room : n);
}

/* One item for each file, at its first mapping; later ones of it make it longer. */
static void list_map(void *user, const struct image_map *map)
{
	struct listing *listing = user;
	struct remote_modules *modules = listing->modules;
	struct remote_module *last = modules->n ? &modules->items[modules->n - 1] : NULL;
	struct remote_module module = { .base = map->start, .end = map->end };

	if (map->path[0] != '/' || listing->err < 0)
		return;
	keep_path(&module, map->path);
	if (last && map->file_offset > 0 && strcmp(last->path, module.path) == 0) {
		last->end = map->end;
		if (map->prot & PROT_EXEC && !last->code.start)
			last->code = (struct module_range){ map->start, map->end };
		return;
	}
	if (map->file_offset != 0 || !(map->prot & PROT_READ))
		return;
	if (map->prot & PROT_EXEC)
		module.code = (struct module_range){ map->start, map->end };
	listing->err = grow_array_of(&modules->items, modules->n, 1, sizeof(*modules->items));
	if (listing->err == 0)
		modules->items[modules->n++] = module;
}

static uintptr_t pointer_of(const struct remote_module *module, const Elf64_Dyn *entry)
{
	/* glibc has put addresses into the section; other loaders leave offsets. */
	return entry->d_un.d_ptr < module->bias ? module->bias + entry->d_un.d_ptr
						: entry->d_un.d_ptr;
}

static void take_dynamic(struct remote_module *module, const Elf64_Dyn *entry)
{
	if (entry->d_tag == DT_SYMTAB)
		module->symbols = pointer_of(module, entry);
	else if (entry->d_tag == DT_STRTAB)
		module->strings = pointer_of(module, entry);
	else if (entry->d_tag == DT_GNU_HASH)
		module->hashes = pointer_of(module, entry);
	else if (entry->d_tag == DT_STRSZ)
		module->strings_bytes = entry->d_un.d_val;
}

static void read_dynamic(pid_t pid, struct remote_module *module, const Elf64_Phdr *header)
{
	Elf64_Dyn entries[MAX_DYNAMIC];
	size_t n = header->p_memsz / sizeof(*entries);

	if (n > MAX_DYNAMIC)
		n = MAX_DYNAMIC;
	if (remote_read(pid, module->bias + header->p_vaddr, entries, n * sizeof(*entries)) < 0)
		return;
	for (size_t i = 0; i < n && entries[i].d_tag != DT_NULL; i++)
		take_dynamic(module, &entries[i]);
}

/* Its tables, from its memory. A file that is mapped for other reasons has none. */
static void read_module(pid_t pid, struct remote_module *module)
{
	Elf64_Phdr headers[MAX_HEADERS];
	Elf64_Ehdr head;
	bool has_bias = false;

	if (remote_read(pid, module->base, &head, sizeof(head)) < 0 ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(*headers) || head.e_phnum > MAX_HEADERS)
		return;
	if (remote_read(pid, module->base + head.e_phoff, headers,
			head.e_phnum * sizeof(*headers)) < 0)
		return;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		if (headers[i].p_type == PT_LOAD && !has_bias) {
			module->bias = module->base - (headers[i].p_vaddr & ~UINT64_C(4095));
			has_bias = true;
		}
	}
	for (unsigned i = 0; i < head.e_phnum; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			read_dynamic(pid, module, &headers[i]);
}

static bool is_named(const struct remote_module *module, const char *name)
{
	return strncmp(text_base_name(module->path), name, strlen(name)) == 0;
}

int remote_modules_read(pid_t pid, struct remote_modules *ret_modules)
{
	struct listing listing = { .modules = ret_modules };

	*ret_modules = (struct remote_modules){ .pid = pid };
	int r = image_each_map(pid, list_map, &listing) ?: listing.err;
	if (r < 0)
		return remote_modules_finish(ret_modules), r;
	for (size_t i = 0; i < ret_modules->n; i++) {
		read_module(pid, &ret_modules->items[i]);
		ret_modules->items[i].is_loader = is_named(&ret_modules->items[i], "ld-linux") ||
						  is_named(&ret_modules->items[i], "ld-2.") ||
						  is_named(&ret_modules->items[i], "ld.so");
	}
	return 0;
}

void remote_modules_finish(struct remote_modules *modules)
{
	free(modules->items);
	modules->items = NULL;
	modules->n = 0;
}

const struct remote_module *remote_modules_find(const struct remote_modules *modules,
						const char *name)
{
	for (size_t i = 0; i < modules->n; i++)
		if (modules->items[i].symbols && is_named(&modules->items[i], name))
			return &modules->items[i];
	return NULL;
}

const struct remote_module *remote_modules_at(const struct remote_modules *modules, uintptr_t pc)
{
	return array_find(modules->items, modules->n, it, pc - it->base < it->end - it->base);
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* Of DT_GNU_HASH, as binutils has it. */
struct hash_table {
	uint32_t n_buckets;
	uint32_t first;
	uint32_t n_words;
	uint32_t shift;
	uintptr_t buckets;
	uintptr_t chain;
};

static int read_hashes(pid_t pid, const struct remote_module *module, struct hash_table *ret_table)
{
	int r = module->hashes ? remote_read(pid, module->hashes, ret_table, 16) : -ENOENT;

	if (r < 0)
		return r;
	ret_table->buckets = module->hashes + 16 + (uintptr_t)ret_table->n_words * 8;
	ret_table->chain = ret_table->buckets + (uintptr_t)ret_table->n_buckets * 4;
	return ret_table->n_buckets && ret_table->n_buckets < MAX_SYMBOLS ? 0 : -EBADMSG;
}

static struct module_range range_of(const struct remote_module *module, const Elf64_Sym *symbol)
{
	uintptr_t start = module->bias + symbol->st_value;

	return (struct module_range){ start, start + (symbol->st_size ? symbol->st_size : 1) };
}

static bool is_function(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

static bool has_name(pid_t pid, const struct remote_module *module, const Elf64_Sym *symbol,
		     const char *name)
{
	char text[MAX_NAME_BYTES];
	size_t n = strlen(name) + 1;

	return n <= sizeof(text) && symbol->st_name + n <= module->strings_bytes &&
	       remote_read(pid, module->strings + symbol->st_name, text, n) == 0 &&
	       memcmp(text, name, n) == 0;
}

struct module_range remote_module_function(const struct remote_modules *modules,
					   const struct remote_module *module, const char *name)
{
	uint32_t hash = hash_of(name), i = 0, entry = 0;
	pid_t pid = modules->pid;
	struct hash_table table;
	Elf64_Sym symbol;

	if (read_hashes(pid, module, &table) < 0 ||
	    remote_read(pid, table.buckets + hash % table.n_buckets * 4, &i, sizeof(i)) < 0)
		return (struct module_range){ 0, 0 };
	for (; i >= table.first && i < MAX_SYMBOLS && !(entry & 1); i++) {
		if (remote_read(pid, table.chain + (i - table.first) * 4, &entry, 4) < 0)
			break;
		if ((entry | 1) != (hash | 1) ||
		    remote_read(pid, module->symbols + i * sizeof(symbol), &symbol,
				sizeof(symbol)) < 0)
			continue;
		if (is_function(&symbol) && has_name(pid, module, &symbol, name))
			return range_of(module, &symbol);
	}
	return (struct module_range){ 0, 0 };
}

/* One behind its last symbol. */
static uint32_t count_symbols(pid_t pid, const struct hash_table *table)
{
	auto_free uint32_t *buckets = calloc(table->n_buckets, sizeof(*buckets));
	uint32_t last = 0, entry = 0;

	if (!buckets || remote_read(pid, table->buckets, buckets, table->n_buckets * 4ul) < 0)
		return 0;
	for (uint32_t i = 0; i < table->n_buckets; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < table->first)
		return 0;
	for (; last < MAX_SYMBOLS && !(entry & 1); last++)
		if (remote_read(pid, table->chain + (last - table->first) * 4ul, &entry, 4) < 0)
			return 0;
	return last;
}

struct module_range remote_module_around(const struct remote_modules *modules,
					 const struct remote_module *module, const char *name)
{
	struct module_range range = remote_module_function(modules, module, name);
	pid_t pid = modules->pid;
	struct hash_table table;
	uintptr_t before = 0;

	if (!range.start || read_hashes(pid, module, &table) < 0)
		return (struct module_range){ 0, 0 };
	uint32_t n = count_symbols(pid, &table);
	auto_free Elf64_Sym *symbols = calloc(n ? n : 1, sizeof(*symbols));

	if (!symbols || remote_read(pid, module->symbols, symbols, n * sizeof(*symbols)) < 0)
		return (struct module_range){ 0, 0 };
	for (uint32_t i = 0; i < n; i++) {
		struct module_range other = range_of(module, &symbols[i]);

		if (is_function(&symbols[i]) && other.end <= range.start && other.end > before)
			before = other.end;
	}
	return (struct module_range){ before ? before : range.start, range.end };
}

uintptr_t remote_module_bytes(const struct remote_modules *modules,
			      const struct remote_module *module, const void *bytes, size_t n_bytes)
{
	auto_free uint8_t *text = malloc(SEARCHED_BYTES);
	uintptr_t at = module->code.start;

	while (text && at + n_bytes < module->code.end) {
		size_t n = module->code.end - at < SEARCHED_BYTES ? module->code.end - at
								  : SEARCHED_BYTES;

		if (remote_read(modules->pid, at, text, n) < 0)
			return 0;
		const uint8_t *found = memmem(text, n, bytes, n_bytes);
		if (found)
			return at + (uintptr_t)(found - text);
		at += n < SEARCHED_BYTES ? n : n - n_bytes;
	}
	return 0;
}
