#include "tracealloc/rebind.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/symbol.h"

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

/*
 * Beside another allocator the C library's own are reached by their other names, which lead to no
 * other one. NULL: there is none.
 */
static const struct pair others[] = {
#define TA_HEAP(name, call, type, params, args, size)
#define TA_LIBC(name, plain, call, type, params, args, size)                                       \
	{ #plain, (void *)name, (void *const *)&ta_real.name },
#define TA_NEW(name, call, params, args, alignment)
#define TA_DELETE(name, call, params, args)
#define TA_REAL(name, type, params)
#include "tracealloc/hooks/hooks.def"
	{ "realloc", (void *)__libc_realloc, (void *const *)&ta_real.__libc_realloc },
	{ "free", (void *)__libc_free, (void *const *)&ta_real.__libc_free },
	{ "aligned_alloc", NULL, NULL },
	{ "posix_memalign", NULL, NULL },
	{ "reallocarray", NULL, NULL },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct pair *find_pair(const struct pair *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return NULL;
}

static const void *file_of(const void *function)
{
	Dl_info info = { 0 };

	return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

/* Ours for a function; ret_is_unseen: it gives out blocks of the C library, and we have none. */
static void *find_ours(const struct pair *pair, const void *function, bool *ret_is_unseen)
{
	*ret_is_unseen = false;
	if (!function)
		return NULL;
	if (function == *pair->real)
		return pair->ours;
	const struct pair *other = find_pair(others, COUNT(others), pair->name);
	if (other && other->real && function == *other->real)
		return other->ours;
	*ret_is_unseen = other && !other->real &&
			 file_of(function) == file_of((void *)ta_real.__libc_malloc);
	return NULL;
}

void *ta_rebind_function(const char *name, const void *function)
{
	const struct pair *pair = function ? find_pair(pairs, COUNT(pairs), name) : NULL;
	bool is_unseen = false;
	void *ours = pair ? find_ours(pair, function, &is_unseen) : NULL;

	if (is_unseen)
		ta_rebind_count_unseen();
	return ours;
}

bool ta_rebind_is_allocator(uintptr_t pc)
{
	return ta_module_find(pc) == ta_module_find((uintptr_t)ta_real.malloc);
}

static _Atomic uint64_t n_unseen;

void ta_rebind_count_unseen(void)
{
	atomic_fetch_add_explicit(&n_unseen, 1, memory_order_relaxed);
	if (ta_image.process)
		atomic_fetch_add_explicit(&ta_image.process->n_unseen_libraries, 1,
					  memory_order_relaxed);
}

/* As glibc has it from 2.35 on, where there are more namespaces than one: version 2. */
struct namespace
{
	struct r_debug base;
	const struct namespace *next;
};

/* The list that the loader keeps for debuggers; NULL: none. */
static int find_namespaces(struct dl_phdr_info *info, size_t size, void *ret_list)
{
	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + header->p_vaddr);

		if (header->p_type != PT_DYNAMIC)
			continue;
		for (; entry->d_tag != DT_NULL; entry++)
			if (entry->d_tag == DT_DEBUG)
				*(const void **)ret_list = (const void *)entry->d_un.d_ptr;
	}
	return 1; /* the program itself comes first */
}

/* Libraries of LD_AUDIT were there before us. */
static void count_namespaces(void)
{
	const struct namespace *namespace = NULL;

	dl_iterate_phdr(find_namespaces, &namespace);
	if (!namespace || namespace->base.r_version < 2)
		return;
	for (namespace = namespace->next; namespace; namespace = namespace->next)
		if (namespace->base.r_map)
			atomic_fetch_add(&n_unseen, 1);
}

void ta_rebind_begin(void)
{
	static bool is_counted;

	if (!is_counted)
		count_namespaces();
	is_counted = true;
	atomic_fetch_add(&ta_image.process->n_unseen_libraries, atomic_load(&n_unseen));
}

/* A library that is looked at. */
struct library {
	struct link_map *map;
	struct ta_dynamic file;
	bool is_late; /* its code may have run before its calls came to us */
	bool is_unseen;
	bool is_unbound; /* where calls will lead that were not made yet is not known */
};

/* Whether everybody's calls of a name come to us, but for those who are bound otherwise. */
static bool is_ours_for_all(const struct pair *pair)
{
	return ta_real.dlsym(RTLD_DEFAULT, pair->name) == pair->ours;
}

/* Where a search for a name goes: the first words of glibc's struct r_scope_elem. */
struct search_list {
	struct link_map *const *maps;
	uintptr_t n;
};

#define MAP_BYTES 1024u /* a struct link_map of glibc has more */

/* The program's list: all that its start has loaded, and nothing else. */
static bool is_list_of(const struct search_list *list, const struct link_map *program, size_t n)
{
	const struct link_map *map = program;

	if (!list->maps || (uintptr_t)list->maps % sizeof(void *) || list->n < 2 || list->n > n ||
	    list->maps[0] != program)
		return false;
	while (map && map != list->maps[1])
		map = map->l_next;
	return map;
}

/* Where a struct link_map keeps its list, which no header says; 0: not found. */
static size_t find_list(void)
{
	const struct namespace *namespace = NULL;
	const struct link_map *program;
	size_t n = 0, at = sizeof(*program);

	dl_iterate_phdr(find_namespaces, &namespace);
	program = namespace ? namespace->base.r_map : NULL;
	for (const struct link_map *map = program; map; map = map->l_next)
		n++;
	while (program && at < MAP_BYTES &&
	       !is_list_of((const void *)((const char *)program + at), program, n))
		at += sizeof(void *);
	return program && at < MAP_BYTES ? at : 0;
}

/*
 * dlsym takes the map of a library that was itself opened for its handle. One that came along with
 * another has no list until it is opened itself: glibc reads through null there (2.36, do_lookup_x
 * in elf/dl-lookup.c).
 */
static bool can_search(const struct link_map *map)
{
	static _Atomic size_t offset = SIZE_MAX;
	size_t at = atomic_load(&offset);

	if (at == SIZE_MAX) {
		at = find_list();
		atomic_store(&offset, at);
	}
	return at && ((const struct search_list *)((const char *)map + at))->maps;
}

/* What a call will lead to; unlike data it may be bound only when it is made. NULL: not known. */
static void *target_of(struct library *library, const struct pair *pair, void *value)
{
	uintptr_t address = (uintptr_t)value;

	if (address < library->file.start || address >= library->file.end)
		return value;
	/* Not bound yet. In search of it, the library's own list is what may come before us. */
	if (can_search(library->map))
		return ta_real.dlsym(library->map, pair->name);
	library->is_unbound = true;
	return NULL;
}

static void rebind_one(struct library *library, const ElfW(Rela) * entry)
{
	const ElfW(Sym) *symbol = &library->file.symbols[ELF64_R_SYM(entry->r_info)];
	void **slot = (void **)(library->map->l_addr + entry->r_offset);
	bool is_unseen;

	if (symbol->st_shndx != SHN_UNDEF || (uintptr_t)slot % sizeof(*slot) != 0 ||
	    ELF64_R_SYM(entry->r_info) == 0)
		return;
	const struct pair *pair =
		find_pair(pairs, COUNT(pairs), library->file.strings + symbol->st_name);
	if (!pair || *slot == pair->ours || !is_ours_for_all(pair))
		return;
	void *target = target_of(library, pair, *slot);
	void *ours = find_ours(pair, target, &is_unseen);
	if (ours && ours != *slot)
		ta_dynamic_write(&library->file, slot, ours);
	library->is_unseen |= is_unseen || (ours && library->is_late &&
					    find_pair(others, COUNT(others), pair->name));
}

static _Atomic bool are_unbound; /* some are looked at again, since calls may be bound then */

/* was_looked_for: it did not come by itself, so that its constructors have run. */
static void rebind(const void *code, bool was_looked_for, bool is_over)
{
	struct library library = { .is_late = is_over };
	const ElfW(Ehdr) * head;
	Dl_info info = { 0 };
	int saved = errno;

	if (!dladdr1 || !ta_real.dlsym ||
	    !dladdr1(code, &info, (void **)&library.map, RTLD_DL_LINKMAP) || !library.map ||
	    ta_module_is_initial(library.map->l_addr))
		return;
	head = info.dli_fbase;
	library.file =
		ta_dynamic_read(library.map->l_addr,
				(const void *)((uintptr_t)head + head->e_phoff), head->e_phnum);
	if (!library.file.symbols || !library.file.strings || library.file.has_rel)
		return;
	library.is_late |= was_looked_for && library.file.has_start;
	for (size_t i = library.file.n_relative; library.file.tables[0] && i < library.file.n[0];
	     i++)
		rebind_one(&library, &library.file.tables[0][i]);
	for (size_t i = 0; library.file.tables[1] && i < library.file.n[1]; i++)
		rebind_one(&library, &library.file.tables[1][i]);
	if (library.is_unseen) {
		ta_rebind_count_unseen();
	} else if (library.is_unbound) {
		ta_module_ask_again((uintptr_t)code);
		atomic_store(&are_unbound, true);
	}
	/*
	 * What was not found is no error of the program's: it may ask dlerror. Twice frees the
	 * text.
	 */
	(void)(ta_real.dlsym && dlerror() && dlerror());
	errno = saved;
}

void ta_rebind_library(const void *code)
{
	ta_module_is_first((uintptr_t)code);
	rebind(code, false, false);
}

#define MAX_NEW 64u

/* Libraries that were loaded since we began, by an address of their code. */
struct fresh {
	unsigned long long n_loaded; /* ever, when they were looked for */
	bool are_more; /* or some are still being loaded */
	uint32_t n;
	uintptr_t code[MAX_NEW];
};

static _Atomic unsigned long long n_looked_at;

static uintptr_t code_of(const struct dl_phdr_info *info)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X))
			return info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	return 0;
}

static int list_fresh(struct dl_phdr_info *info, size_t size, void *ret_fresh)
{
	struct fresh *fresh = ret_fresh;

	(void)size;
	fresh->n_loaded = info->dlpi_adds;
	if (fresh->n_loaded == atomic_load(&n_looked_at))
		return 1;
	uintptr_t code = code_of(info);
	const struct ta_module *module = code ? ta_module_find(code) : NULL;
	if (!code || (module && atomic_load(&module->was_asked_for)))
		return 0;
	if (!module || fresh->n == MAX_NEW)
		fresh->are_more = true;
	else
		fresh->code[fresh->n++] = code;
	return 0;
}

void ta_rebind_look(bool is_over)
{
	struct fresh fresh = { 0 };

	if (!(atomic_load(&ta_state.word) & TA_ON) || ta_tls.guard)
		return;
	if (is_over && atomic_exchange(&are_unbound, false))
		atomic_store(&n_looked_at, 0);
	dl_iterate_phdr(list_fresh, &fresh);
	for (uint32_t i = 0; i < fresh.n; i++)
		if (ta_module_is_first(fresh.code[i]))
			rebind((const void *)fresh.code[i], true, is_over);
	if (!fresh.are_more)
		atomic_store(&n_looked_at, fresh.n_loaded);
}

__attribute__((destructor)) static void end(void)
{
	ta_rebind_look(true);
}
