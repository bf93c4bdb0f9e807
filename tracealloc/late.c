#include "tracealloc/late.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/stack/symbol.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* glibc has it, musl has not. */
extern __typeof__(dladdr1) dladdr1 __attribute__((weak));

typedef void *(*open_fn)(const char *path, int mode);
static open_fn real_open;

static void *open_late(const char *path, int mode);

struct pair {
	const char *name;
	void *ours;
	void *const *real;
};

static const struct pair pairs[] = {
#define TA_REAL(name, type, params) { #name, (void *)name, (void *const *)&ta_real.name },
#include "tracealloc/hooks/hooks.def"
	{ "dlopen", (void *)open_late, (void *const *)&real_open },
};

#define N_PAIRS (sizeof(pairs) / sizeof(*pairs))

/* What starts programs: left alone where they are not to be recorded. */
static const char *const starting[] = {
	"execve",  "execv",    "execvp",      "execvpe",      "execl",	"execlp", "execle",
	"fexecve", "execveat", "posix_spawn", "posix_spawnp", "system", "popen",
};

/*
 * What is for programs that we start: limits and signals that we have raised or taken, and look-ups
 * whose results could outlive us.
 */
static const char *const left_alone[] = {
	"_exit",
	"_Exit",
	"setrlimit",
	"getrlimit",
	"prlimit",
	"setrlimit64",
	"getrlimit64",
	"prlimit64",
	"sigaction",
	"signal",
	"sigaltstack",
	"sigprocmask",
	"pthread_sigmask",
	"pthread_create",
	"dlsym",
	"dlvsym",
	"dlmopen",
	"__gmon_start__",
	"backtrace",
	"syscall",
	"pthread_key_create",
	"__pthread_key_create",
	"tss_create",
};

/* ---- Names ---- */

#define N_BUCKETS 512u

static uint16_t buckets[N_BUCKETS]; /* number of a pair + 1; 0: free */
static bool are_filled;

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash ^ hash >> 16;
}

static bool is_among(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

#define IS_AMONG(names, name) is_among(names, sizeof(names) / sizeof(*(names)), name)

static void fill_buckets(void)
{
	for (size_t i = 0; i < N_PAIRS && !are_filled; i++) {
		uint32_t at = hash_of(pairs[i].name) % N_BUCKETS;

		if (IS_AMONG(left_alone, pairs[i].name))
			continue;
		while (buckets[at])
			at = (at + 1) % N_BUCKETS;
		buckets[at] = (uint16_t)(i + 1);
	}
	are_filled = true;
}

static const struct pair *find_pair(const char *name)
{
	for (uint32_t at = hash_of(name) % N_BUCKETS; buckets[at]; at = (at + 1) % N_BUCKETS)
		if (strcmp(pairs[buckets[at] - 1].name, name) == 0)
			return &pairs[buckets[at] - 1];
	return NULL;
}

/* C++'s, which are led to us only where they are the runtime's. */
static bool is_operator(const struct pair *pair)
{
	return strncmp(pair->name, "_Zn", 3) == 0 || strncmp(pair->name, "_Zd", 3) == 0;
}

static bool is_wanted(const struct pair *pair)
{
	return *pair->real && (ta_new_mode == TA_NEW_DIRECT || !is_operator(pair)) &&
	       (ta_image.flags & RING_FLAG_FOLLOW || !IS_AMONG(starting, pair->name));
}

/* ---- What stood there ---- */

struct place {
	void **slot;
	void *before;
};

static struct place *places; /* in memory of our own */
static uint32_t n_places;
static uint32_t n_room;
static uint32_t last_found; /* places are asked for in the order in which they were noted */

static bool note(void **slot, void *before)
{
	uint32_t n_more = n_room ? 2 * n_room : 1024;
	long memory;

	if (n_places == n_room) {
		memory = ta_map_private(n_more * sizeof(*places));
		if (memory < 0)
			return false;
		if (n_room) {
			memcpy((void *)memory, places, n_places * sizeof(*places));
			ta_syscall(SYS_munmap, (long)places, (long)(n_room * sizeof(*places)), 0, 0,
				   0, 0);
		}
		places = (struct place *)memory;
		n_room = n_more;
	}
	places[n_places++] = (struct place){ slot, before };
	return true;
}

static struct place *find_place(void **slot)
{
	for (uint32_t i = 0; i < n_places; i++) {
		uint32_t at = (last_found + i) % n_places;

		if (places[at].slot == slot) {
			last_found = at + 1;
			return &places[at];
		}
	}
	return NULL;
}

/* ---- Entries ---- */

/* What has to see all blocks: the other functions of the heap come to one of these. */
static const char *const at_entry[] = {
	"malloc",	 "calloc",	   "realloc", "free",	 "memalign",
	"aligned_alloc", "posix_memalign", "valloc",  "pvalloc",
};
_Static_assert(sizeof(at_entry) / sizeof(*at_entry) <= ATTACH_MAX_ENTRIES, "there is room");

static struct attach_entry used[ATTACH_MAX_ENTRIES];
static uint32_t n_used;

uint32_t ta_late_list_entries(struct attach_entry *ret_entries)
{
	uint32_t n = 0;

	if (n_used > 0) {
		memcpy(ret_entries, used, n_used * sizeof(*used));
		return n_used;
	}
	for (size_t i = 0; i < sizeof(at_entry) / sizeof(*at_entry); i++) {
		const struct pair *pair = find_pair(at_entry[i]);

		if (!pair || !is_wanted(pair))
			continue;
		ret_entries[n] = (struct attach_entry){ .function = (uintptr_t)*pair->real,
							.hook = (uintptr_t)pair->ours };
		memcpy(ret_entries[n++].name, at_entry[i], strlen(at_entry[i]));
	}
	return n;
}

/* All names of a function of the allocator lead elsewhere. */
static void redirect(uint64_t from, uint64_t to)
{
	void *function = (void *)(uintptr_t)to;

	for (size_t i = 0; i < N_PAIRS; i++)
		if ((uintptr_t)*pairs[i].real == from)
			memcpy((void *)(uintptr_t)pairs[i].real, &function, sizeof(function));
}

void ta_late_use_entries(const struct attach_entry *entries, uint32_t n)
{
	for (uint32_t i = 0; i < n && n_used < ATTACH_MAX_ENTRIES; i++) {
		if (!entries[i].moved)
			continue;
		redirect(entries[i].function, entries[i].moved);
		used[n_used++] = entries[i];
	}
}

static void leave_entries(void)
{
	for (uint32_t i = 0; i < n_used; i++)
		redirect(used[i].moved, used[i].function);
}

void ta_late_forget(void)
{
	n_used = 0;
}

/* ---- Files ---- */

/* False: it is ours, the loader, the kernel's, or has no tables. */
static bool read_file(const struct dl_phdr_info *info, struct ta_dynamic *ret_file)
{
	*ret_file = ta_dynamic_read(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
	return (uintptr_t)&ta_image - ret_file->start >= ret_file->end - ret_file->start &&
	       ret_file->start != getauxval(AT_BASE) &&
	       ret_file->start != getauxval(AT_SYSINFO_EHDR) && ret_file->symbols &&
	       ret_file->strings;
}

#if defined(__x86_64__)
/* Does this entry fill a word with the address of a function, and nothing else? */
static bool is_address(const ElfW(Rela) * entry)
{
	unsigned type = ELF64_R_TYPE(entry->r_info);

	return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
	       (type == R_X86_64_64 && entry->r_addend == 0);
}

static bool is_call(const ElfW(Rela) * entry)
{
	return ELF64_R_TYPE(entry->r_info) == R_X86_64_JUMP_SLOT;
}
#else
static bool is_address(const ElfW(Rela) * entry)
{
	(void)entry;
	return false;
}

static bool is_call(const ElfW(Rela) * entry)
{
	(void)entry;
	return false;
}
#endif

/* What is done with each place of a file. */
typedef bool (*visit_fn)(const struct ta_dynamic *file, const struct pair *pair, void **slot,
			 bool is_unbound);

static bool visit_entry(const struct ta_dynamic *file, const ElfW(Rela) * entry, visit_fn visit)
{
	uint32_t number = (uint32_t)ELF64_R_SYM(entry->r_info);
	void **slot = (void **)(file->bias + entry->r_offset);

	if (number == 0 || !is_address(entry) || (uintptr_t)slot % sizeof(*slot) != 0)
		return true;
	const struct pair *pair = find_pair(file->strings + file->symbols[number].st_name);
	if (!pair)
		return true;
	/* A call that was never made leads back into the file, to code that binds it. */
	bool is_unbound = is_call(entry) && file->symbols[number].st_shndx == SHN_UNDEF &&
			  (uintptr_t)*slot - file->start < file->end - file->start;
	return visit(file, pair, slot, is_unbound);
}

static bool visit_file(const struct ta_dynamic *file, visit_fn visit)
{
	for (size_t i = file->n_relative; file->tables[0] && i < file->n[0]; i++)
		if (!visit_entry(file, &file->tables[0][i], visit))
			return false;
	for (size_t i = 0; file->tables[1] && i < file->n[1]; i++)
		if (!visit_entry(file, &file->tables[1][i], visit))
			return false;
	return true;
}

static bool bind_slot(const struct ta_dynamic *file, const struct pair *pair, void **slot,
		      bool is_unbound)
{
	void *before = *slot;

	if (!is_wanted(pair) || (before != *pair->real && !is_unbound))
		return true;
	return note(slot, before) && ta_dynamic_write(file, slot, pair->ours);
}

static uint32_t n_put_back;

static bool unbind_slot(const struct ta_dynamic *file, const struct pair *pair, void **slot,
			bool is_unbound)
{
	const struct place *place = *slot == pair->ours ? find_place(slot) : NULL;

	(void)is_unbound;
	n_put_back += place && ta_dynamic_write(file, slot, place->before);
	return true;
}

/* Files that were loaded, and unloaded, when their tables were looked at last. */
static unsigned long long n_loaded, n_gone;

static int bind_file(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct ta_dynamic file;

	(void)size, (void)unused;
	n_loaded = info->dlpi_adds;
	n_gone = info->dlpi_subs;
	return read_file(info, &file) && !visit_file(&file, bind_slot);
}

static int unbind_file(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct ta_dynamic file;

	(void)size, (void)unused;
	if (read_file(info, &file))
		visit_file(&file, unbind_slot);
	return 0;
}

void ta_late_begin(void)
{
	void *function = ta_symbol_address("dlopen");

	fill_buckets();
	memcpy(&real_open, &function, sizeof(function));
}

int ta_late_bind(uint32_t *ret_n)
{
	if (dl_iterate_phdr(bind_file, NULL) != 0) {
		ta_late_unbind();
		return -ENOMEM;
	}
	*ret_n = n_places;
	return 0;
}

uint32_t ta_late_unbind(void)
{
	n_put_back = 0;
	dl_iterate_phdr(unbind_file, NULL);
	if (n_room)
		ta_syscall(SYS_munmap, (long)places, (long)(n_room * sizeof(*places)), 0, 0, 0, 0);
	places = NULL;
	n_places = n_room = last_found = 0;
	leave_entries();
	return n_put_back;
}

/* ---- Files that are loaded later ---- */

static _Atomic bool is_looking;

struct look {
	unsigned long long n_loaded;
	unsigned long long n_gone;
	uint64_t n_late; /* files whose own first code ran before their calls came to us */
};

/* A file may lie where another one was: what stood in its places is noted anew. */
static bool bind_slot_anew(const struct ta_dynamic *file, const struct pair *pair, void **slot,
			   bool is_unbound)
{
	if (*slot == pair->ours)
		return true;
	struct place *place = find_place(slot);
	if (place)
		place->slot = NULL;
	return bind_slot(file, pair, slot, is_unbound);
}

static int bind_fresh(struct dl_phdr_info *info, size_t size, void *ret_look)
{
	struct look *look = ret_look;
	uint32_t n_before = n_places;
	struct ta_dynamic file;

	(void)size;
	look->n_loaded = info->dlpi_adds;
	look->n_gone = info->dlpi_subs;
	if (info->dlpi_adds == n_loaded && info->dlpi_subs == n_gone)
		return 1;
	if (!read_file(info, &file))
		return 0;
	visit_file(&file, bind_slot_anew);
	look->n_late += n_used == 0 && n_places > n_before && file.has_start;
	return 0;
}

void ta_late_look(void)
{
	struct look look = { 0 };
	int saved = errno;

	if (!ta_image.is_late || !(atomic_load(&ta_state.word) & TA_ON) || ta_tls.guard)
		return;
	while (atomic_exchange(&is_looking, true))
		ta_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	dl_iterate_phdr(bind_fresh, &look);
	n_loaded = look.n_loaded;
	n_gone = look.n_gone;
	atomic_fetch_add_explicit(&ta_image.process->n_late_libraries, look.n_late,
				  memory_order_relaxed);
	atomic_store(&is_looking, false);
	errno = saved;
}

/* Has a file folders of its own (RPATH, RUNPATH) in which dlopen looks for its sake? */
static bool has_folders(const struct link_map *map)
{
	const ElfW(Dyn) *entry = map->l_ld;

	for (; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH)
			return true;
	return false;
}

/*
 * Does it matter to dlopen who has called it? Not where the path says all; else the folders of the
 * caller do, and those of the program.
 */
static __attribute__((noinline)) bool is_relative(const char *path, const void *caller)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!path)
		return false;
	if (strchr(path, '/'))
		return strchr(path, '$') != NULL;
	if (!dladdr1 || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map ||
	    has_folders(map))
		return true;
	while (map->l_prev)
		map = map->l_prev;
	return has_folders(map);
}

static __attribute__((noinline)) void *open_and_look(const char *path, int mode)
{
	void *handle = real_open(path, mode);

	if (handle)
		ta_late_look();
	return handle;
}

/* A jump where the caller matters: what that loads is seen with the next look. */
static void *open_late(const char *path, int mode)
{
	if (is_relative(path, __builtin_return_address(0)))
		return real_open(path, mode);
	return open_and_look(path, mode);
}
