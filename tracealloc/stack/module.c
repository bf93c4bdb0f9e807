#include "tracealloc/stack/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "schemas/recording.h"
#include "tracealloc/stack/stack.h"
#include "tracealloc/stack/symbol.h"
#include "tracealloc/state.h"

#define MAX_MODULES 4096u
#define BLOCK_BYTES (64u << 10)

/* As in glibc's dlfcn.h from 2.35; found at run time, since the library must load on older ones. */
struct found_object {
	unsigned long long flags;
	void *map_start;
	void *map_end;
	struct link_map *link_map;
	void *eh_frame;
	unsigned long long reserved[7];
};
typedef int (*find_object_fn)(void *address, struct found_object *ret_object);

static find_object_fn find_object;
static struct ta_module *modules[MAX_MODULES] TA_LARGE;
static _Atomic uint32_t n_modules; /* entries below it are filled */
static uint32_t n_initial; /* of them, loaded before we recorded */
static _Atomic uint32_t n_told; /* of modules and unloads told */
static _Atomic uint32_t n_to_tell;
static _Atomic bool list_busy;
static uint8_t first_block[BLOCK_BYTES] TA_LARGE;
static uint8_t *block = first_block; /* where modules and their paths are put, from the start */
static size_t block_left = BLOCK_BYTES;
static uintptr_t libc_address; /* inside the module that starts main */
static uintptr_t thread_address; /* inside the one that starts threads */
static struct ta_module *kernel_module; /* [vdso], which find_object does not know; or NULL */

/* One thread at a time changes the list. Nobody waits: who comes second looks again later. */
static bool lock_list(void)
{
	return !atomic_exchange_explicit(&list_busy, true, memory_order_acquire);
}

static void unlock_list(void)
{
	atomic_store_explicit(&list_busy, false, memory_order_release);
}

/* Memory that is never given back; NULL when there is none. The list is locked. */
static void *keep(size_t n_bytes)
{
	n_bytes = (n_bytes + 15) & ~(size_t)15;
	if (n_bytes > block_left) {
		long fresh = ta_map_private(BLOCK_BYTES);

		if (fresh < 0 || n_bytes > BLOCK_BYTES)
			return NULL;
		block = (uint8_t *)fresh;
		block_left = BLOCK_BYTES;
	}
	void *memory = block;
	block += n_bytes;
	block_left -= n_bytes;
	return memory;
}

/* Find the build-id among the notes of a segment. */
static void take_build_id(struct ta_module *module, const ElfW(Phdr) * header)
{
	uintptr_t at = module->bias + header->p_vaddr;
	uintptr_t end = at + header->p_memsz;

	while (at + sizeof(ElfW(Nhdr)) <= end) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
		uintptr_t name = at + sizeof(*note);
		uintptr_t description = name + ((note->n_namesz + 3u) & ~3u);

		at = description + ((note->n_descsz + 3u) & ~3u);
		if (at > end || at < description)
			return;
		if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 ||
		    memcmp((const void *)name, "GNU", 4) != 0 || note->n_descsz > TA_BUILD_ID_BYTES)
			continue;
		memcpy(module->build_id, (const void *)description, note->n_descsz);
		module->build_id_bytes = (uint16_t)note->n_descsz;
	}
}

static void take_segment(struct ta_module *module, const ElfW(Phdr) * header, unsigned *n_ranges)
{
	uintptr_t start = module->bias + header->p_vaddr;

	if (start < module->start)
		module->start = start;
	if (start + header->p_memsz > module->end)
		module->end = start + header->p_memsz;
	if (!(header->p_flags & PF_X) || *n_ranges == TA_MODULE_RANGES)
		return;
	module->code[*n_ranges].start = start;
	module->code[*n_ranges].end = start + header->p_memsz;
	(*n_ranges)++;
}

static void take_table(struct ta_module *module, const ElfW(Phdr) * header)
{
	module->eh_frame_hdr = module->bias + header->p_vaddr;
	module->eh_frame_hdr_end = module->eh_frame_hdr + header->p_memsz;
}

/* Fill a module from its program headers. */
static void take_headers(struct ta_module *module, const ElfW(Phdr) * headers, unsigned n_headers)
{
	unsigned n_ranges = 0;

	module->start = UINTPTR_MAX;
	for (unsigned i = 0; i < n_headers; i++) {
		if (headers[i].p_type == PT_LOAD)
			take_segment(module, &headers[i], &n_ranges);
		else if (headers[i].p_type == PT_NOTE)
			take_build_id(module, &headers[i]);
		else if (headers[i].p_type == PT_GNU_EH_FRAME)
			take_table(module, &headers[i]);
	}
}

static void take_path(struct ta_module *module, const char *path)
{
	size_t length = strlen(path);

	if (length >= TA_PATH_BYTES)
		length = TA_PATH_BYTES - 1;
	char *copy = keep(length + 1);
	if (!copy)
		return;
	memcpy(copy, path, length);
	module->path = copy;
	module->path_bytes = (uint16_t)length;
}

static bool in_code(const struct ta_module *module, uintptr_t pc)
{
	for (unsigned i = 0; i < TA_MODULE_RANGES; i++)
		if (pc >= module->code[i].start && pc < module->code[i].end)
			return true;
	return false;
}

/* Ourselves, brought in by a descriptor that is closed since (runner/attach/attach.c)? */
static bool is_own_memory(const struct ta_module *module, const char *path)
{
	return in_code(module, (uintptr_t)ta_module_list) &&
	       strncmp(path, "/proc/self/fd/", sizeof("/proc/self/fd/") - 1) == 0;
}

/*
 * An entry of the list that was unloaded, all of which is told, and that was the same file at the
 * same place: a library that is opened again and again needs one entry, not one each time.
 */
static struct ta_module *find_entry(const struct ta_module *fresh, const char *path)
{
	for (uint32_t i = atomic_load_explicit(&n_modules, memory_order_relaxed); i-- > 0;) {
		struct ta_module *old = modules[i];

		if (atomic_load(&old->gone) && old->gone_told && old->bias == fresh->bias &&
		    old->path && strcmp(old->path, path) == 0 &&
		    old->build_id_bytes == fresh->build_id_bytes && fresh->build_id_bytes &&
		    memcmp(old->build_id, fresh->build_id, fresh->build_id_bytes) == 0 &&
		    memcmp(old->code, fresh->code, sizeof(fresh->code)) == 0)
			return old;
	}
	return NULL;
}

/* Put a module on the list; the list is locked. NULL: no memory, or too many. */
static struct ta_module *add_module(uintptr_t bias, const ElfW(Phdr) * headers, unsigned n_headers,
				    const char *path)
{
	uint32_t i = atomic_load_explicit(&n_modules, memory_order_relaxed);
	struct ta_module fresh = { .bias = bias };

	take_headers(&fresh, headers, n_headers);
	struct ta_module *module = find_entry(&fresh, path);
	if (module) {
		module->gone_told = false;
		atomic_store(&module->announced, false);
		atomic_store(&module->was_asked_for, false);
		atomic_fetch_add(&n_to_tell, 1);
		atomic_store(&module->gone, false);
		return module;
	}
	module = i < MAX_MODULES ? keep(sizeof(*module)) : NULL;
	if (!module)
		return NULL;
	*module = fresh;
	take_path(module, is_own_memory(module, path) ? "/memfd:" RECORDING_LIBRARY : path);
	module->is_loader = module->start == getauxval(AT_BASE);
	module->is_system = in_code(module, libc_address) || in_code(module, thread_address) ||
			    module->is_loader;
	modules[i] = module;
	atomic_fetch_add(&n_to_tell, 1);
	atomic_store_explicit(&n_modules, i + 1, memory_order_release);
	return module;
}

static int list_one(struct dl_phdr_info *info, size_t size, void *buffer)
{
	const char *path = info->dlpi_name;
	char *exe = buffer;
	long length;

	(void)size;
	if (atomic_load(&n_modules) == 0 && (!path || !*path)) {
		length = ta_syscall(SYS_readlinkat, -1, (long)"/proc/self/exe", (long)exe,
				    TA_PATH_BYTES - 1, 0, 0);
		exe[length > 0 ? length : 0] = '\0';
		path = exe;
	}
	if ((unsigned long)info->dlpi_phdr - getauxval(AT_SYSINFO_EHDR) < TA_PAGE_BYTES)
		kernel_module =
			add_module(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, "[vdso]");
	else
		add_module(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, path ? path : "");
	return 0;
}

void ta_module_list(void)
{
	static char buffer[TA_PATH_BYTES] TA_LARGE;

	if (atomic_load(&n_modules) || !lock_list())
		return;
	libc_address = (uintptr_t)dlsym(RTLD_DEFAULT, "__libc_start_main");
	thread_address = (uintptr_t)dlsym(RTLD_DEFAULT, "pthread_create");
	find_object = (find_object_fn)ta_symbol_next("_dl_find_object");
	dl_iterate_phdr(list_one, buffer);
	n_initial = atomic_load(&n_modules);
	for (uint32_t i = 0; i < n_initial; i++)
		atomic_store(&modules[i]->was_asked_for, true);
	unlock_list();
}

bool ta_module_is_initial(uintptr_t bias)
{
	for (uint32_t i = 0; i < n_initial; i++)
		if (modules[i]->bias == bias && !atomic_load(&modules[i]->gone))
			return true;
	return false;
}

/* The known module that holds pc and has not been unloaded. */
static struct ta_module *find_known(uintptr_t pc)
{
	uint32_t n = atomic_load_explicit(&n_modules, memory_order_acquire);

	for (uint32_t i = n; i-- > 0;)
		if (in_code(modules[i], pc) && !atomic_load(&modules[i]->gone))
			return modules[i];
	return NULL;
}

/* Does the loader's entry still mean this module? */
static bool is_same(struct ta_module *module, const struct found_object *object)
{
	const char *name = object->link_map->l_name;

	if ((uintptr_t)object->link_map->l_addr != module->bias)
		return false;
	if (!module->link_map)
		module->link_map = object->link_map;
	return module->link_map == object->link_map &&
	       (!name || !*name || !module->path || module->path[0] == '[' ||
		strcmp(name, module->path) == 0);
}

static struct ta_module *add_found(const struct found_object *object)
{
	const ElfW(Ehdr) *ehdr = object->map_start;
	const ElfW(Phdr) * headers;

	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 || ehdr->e_phentsize != sizeof(*headers) ||
	    !lock_list())
		return NULL;
	headers = (const void *)((uintptr_t)ehdr + ehdr->e_phoff);
	struct ta_module *module = add_module(object->link_map->l_addr, headers, ehdr->e_phnum,
					      object->link_map->l_name);
	if (module)
		module->link_map = object->link_map;
	unlock_list();
	return module;
}

static void mark_gone(struct ta_module *module)
{
	if (atomic_exchange(&module->gone, true))
		return;
	atomic_fetch_add(&n_to_tell, 1);
	/* Addresses may get a new meaning: every thread forgets its stacks. In this order, see
	 * ta_rule_find_slow(). */
	ta_image_next_epoch();
	ta_stack_forget_addresses();
}

/* The loader is asked first: it says in logarithmic time of most words that they are no code. */
const struct ta_module *ta_module_find(uintptr_t pc)
{
	struct found_object object;

	if (!find_object)
		return find_known(pc);
	if (find_object((void *)pc, &object) != 0)
		return kernel_module && in_code(kernel_module, pc) ? kernel_module : NULL;
	struct ta_module *module = find_known(pc);
	if (module && is_same(module, &object))
		return module;
	/* Unloaded behind our back (libc's own dlclose), and another one is there now. */
	if (module)
		mark_gone(module);
	module = add_found(&object);
	return module && in_code(module, pc) ? module : NULL;
}

bool ta_module_is_first(uintptr_t pc)
{
	struct ta_module *module = (struct ta_module *)ta_module_find(pc);

	return module && !atomic_exchange(&module->was_asked_for, true);
}

void ta_module_ask_again(uintptr_t pc)
{
	struct ta_module *module = (struct ta_module *)ta_module_find(pc);

	if (module)
		atomic_store(&module->was_asked_for, false);
}

struct ta_module *ta_module_at(uint32_t i)
{
	return i < atomic_load(&n_modules) ? modules[i] : NULL;
}

bool ta_module_begin_news(void)
{
	return ta_module_has_news() && lock_list();
}

void ta_module_count_told(void)
{
	atomic_fetch_add(&n_told, 1);
}

void ta_module_end_news(void)
{
	unlock_list();
}

bool ta_module_has_news(void)
{
	return atomic_load_explicit(&n_told, memory_order_relaxed) !=
	       atomic_load_explicit(&n_to_tell, memory_order_relaxed);
}

/* While the loader is held by its lock: what it knows of a file stays where it is. */
static int check_gone(struct dl_phdr_info *info, size_t size, void *unused)
{
	uint32_t n = atomic_load_explicit(&n_modules, memory_order_acquire);
	struct found_object object;

	(void)info, (void)size, (void)unused;
	for (uint32_t i = 0; i < n; i++) {
		struct ta_module *module = modules[i];

		if (atomic_load(&module->gone) || (module->path && module->path[0] == '['))
			continue;
		if (find_object((void *)module->code[0].start, &object) != 0 ||
		    !is_same(module, &object))
			mark_gone(module);
	}
	return 1;
}

void ta_module_check_gone(void)
{
	if (find_object)
		dl_iterate_phdr(check_gone, NULL);
}

void ta_module_forked(void)
{
	uint32_t n = atomic_load(&n_modules);
	uint32_t n_loaded = 0;

	atomic_store(&list_busy, false);
	for (uint32_t i = 0; i < n; i++) {
		bool gone = atomic_load(&modules[i]->gone);

		atomic_store(&modules[i]->announced, gone);
		modules[i]->gone_told = gone;
		n_loaded += !gone;
	}
	atomic_store(&n_told, 0);
	atomic_store(&n_to_tell, n_loaded);
}
