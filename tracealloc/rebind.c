#include "tracealloc/rebind.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/stack/module.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* glibc has it, musl has not. */
extern __typeof__(dladdr1) dladdr1 __attribute__((weak));

struct pair {
	const char *name;
	void *ours;
	void *const *real;
};

/* Without the operators of C++, which call malloc, and so us. */
static const struct pair pairs[] = {
#define TA_REAL(name, type, params) { #name, (void *)name, (void *const *)&ta_real.name },
#define TA_NEW(name, call, params, args, alignment)
#define TA_DELETE(name, call, params, args)
#include "tracealloc/hooks/hooks.def"
};

static const struct pair *find_pair(const char *name)
{
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		if (strcmp(pairs[i].name, name) == 0)
			return &pairs[i];
	return NULL;
}

void *ta_rebind_function(const char *name, const void *function)
{
	const struct pair *pair = function ? find_pair(name) : NULL;

	return pair && *pair->real == function ? pair->ours : NULL;
}

void ta_rebind_count_unseen(void)
{
	if (ta_image.process)
		atomic_fetch_add_explicit(&ta_image.process->n_unseen_libraries, 1,
					  memory_order_relaxed);
}

/* A library, as its dynamic section has it. Addresses are absolute where glibc has made them so. */
struct library {
	struct link_map *map;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * tables[2]; /* of data, and of calls */
	size_t n[2];
	size_t n_relative; /* of the first table: they have no symbol */
	uintptr_t start;
	uintptr_t end;
	uintptr_t sealed_start; /* read-only since it was bound: PT_GNU_RELRO */
	uintptr_t sealed_end;
	bool is_unseen;
};

static const void *pointer_of(const struct library *library, const ElfW(Dyn) * entry)
{
	uintptr_t value = entry->d_un.d_ptr;
	uintptr_t bias = library->map->l_addr;

	return (const void *)(value < bias ? bias + value : value);
}

static bool read_dynamic(struct library *library)
{
	const ElfW(Dyn) *entry = library->map->l_ld;
	bool has_rela = true;

	for (; entry && entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_SYMTAB:
			library->symbols = pointer_of(library, entry);
			break;
		case DT_STRTAB:
			library->strings = pointer_of(library, entry);
			break;
		case DT_RELA:
			library->tables[0] = pointer_of(library, entry);
			break;
		case DT_RELASZ:
			library->n[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELACOUNT:
			library->n_relative = entry->d_un.d_val;
			break;
		case DT_JMPREL:
			library->tables[1] = pointer_of(library, entry);
			break;
		case DT_PLTRELSZ:
			library->n[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_PLTREL:
			has_rela = entry->d_un.d_val == DT_RELA;
			break;
		}
	}
	return library->symbols && library->strings && has_rela;
}

static void read_segments(struct library *library, const ElfW(Ehdr) * head)
{
	const ElfW(Phdr) *header = (const void *)((uintptr_t)head + head->e_phoff);
	uintptr_t bias = library->map->l_addr;
	uintptr_t mask = -(uintptr_t)ta_image.page_bytes;

	library->start = (uintptr_t)head;
	for (unsigned i = 0; i < head->e_phnum; i++, header++) {
		uintptr_t start = bias + header->p_vaddr, end = start + header->p_memsz;

		if (header->p_type == PT_LOAD && end > library->end)
			library->end = end;
		if (header->p_type != PT_GNU_RELRO)
			continue;
		library->sealed_start = start & mask;
		library->sealed_end = end & mask;
	}
}

/* Whether everybody's calls of a name come to us, but for those who are bound otherwise. */
static bool is_ours_for_all(const struct pair *pair)
{
	return ta_real.dlsym(RTLD_DEFAULT, pair->name) == pair->ours;
}

/* What a call will lead to; unlike data it may be bound only when it is made. */
static void *target_of(struct library *library, const struct pair *pair, void *value)
{
	uintptr_t address = (uintptr_t)value;

	if (address < library->start || address >= library->end)
		return value;
	/* Not bound yet. In search of it, the library's own list is what may come before us. */
	return ta_real.dlsym(library->map, pair->name);
}

static void write_slot(const struct library *library, void **slot, void *value)
{
	uintptr_t page = (uintptr_t)slot & -(uintptr_t)ta_image.page_bytes;
	bool is_sealed = page >= library->sealed_start && page < library->sealed_end;

	if (is_sealed && ta_syscall(SYS_mprotect, (long)page, ta_image.page_bytes,
				    PROT_READ | PROT_WRITE, 0, 0, 0) < 0)
		return;
	atomic_store((_Atomic(void *) *)slot, value);
	if (is_sealed)
		ta_syscall(SYS_mprotect, (long)page, ta_image.page_bytes, PROT_READ, 0, 0, 0);
}

static void rebind_one(struct library *library, const ElfW(Rela) * entry)
{
	const ElfW(Sym) *symbol = &library->symbols[ELF64_R_SYM(entry->r_info)];
	void **slot = (void **)(library->map->l_addr + entry->r_offset);
	const struct pair *pair;
	void *target;

	if (symbol->st_shndx != SHN_UNDEF || (uintptr_t)slot % sizeof(*slot) != 0 ||
	    ELF64_R_SYM(entry->r_info) == 0)
		return;
	pair = find_pair(library->strings + symbol->st_name);
	if (!pair || *slot == pair->ours || !is_ours_for_all(pair))
		return;
	target = target_of(library, pair, *slot);
	if (target && target == *pair->real)
		write_slot(library, slot, pair->ours);
	else if (target && target == (void *)ta_real.__libc_malloc)
		library->is_unseen = true; /* another allocator stands between us and libc's */
}

static bool was_loaded_before(const struct link_map *map)
{
	return ta_module_is_initial(map->l_addr);
}

void ta_rebind_library(const void *code)
{
	struct library library = { .map = NULL };
	Dl_info info = { 0 };
	int saved = errno;

	if (!dladdr1 || !ta_real.dlsym ||
	    !dladdr1(code, &info, (void **)&library.map, RTLD_DL_LINKMAP) || !library.map ||
	    was_loaded_before(library.map) || !read_dynamic(&library))
		return;
	read_segments(&library, info.dli_fbase);
	for (size_t i = library.n_relative; library.tables[0] && i < library.n[0]; i++)
		rebind_one(&library, &library.tables[0][i]);
	for (size_t i = 0; library.tables[1] && i < library.n[1]; i++)
		rebind_one(&library, &library.tables[1][i]);
	if (library.is_unseen)
		ta_rebind_count_unseen();
	/*
	 * What was not found is no error of the program's: it may ask dlerror. Twice frees the
	 * text.
	 */
	(void)(ta_real.dlsym && dlerror() && dlerror());
	errno = saved;
}
