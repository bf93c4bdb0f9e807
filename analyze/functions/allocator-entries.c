#include "analyze/functions/allocator-entries.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/functions/allocator-signature.h"
#include "analyze/functions/code-scan.h"
#include "analyze/functions/functions.h"
#include "analyze/functions/plan.h"
#include "analyze/symbols/objects.h"
#include "common/array.h"
#include "common/cleanup.h"

#define JUMP_BYTES  5u
#define ENDBR_BYTES 4u
#define PRCTL_BYTES 136u

/* Names that say what a function is, in glibc, musl and libstdc++ (Itanium C++ ABI, 5.1). */
static const struct {
	const char *name;
	uint8_t call;
} names[] = {
	{ "malloc", TRACE_CALL_MALLOC },
	{ "__libc_malloc", TRACE_CALL_MALLOC },
	{ "__libc_malloc_impl", TRACE_CALL_MALLOC },
	{ "calloc", TRACE_CALL_CALLOC },
	{ "__libc_calloc", TRACE_CALL_CALLOC },
	{ "realloc", TRACE_CALL_REALLOC },
	{ "__libc_realloc", TRACE_CALL_REALLOC },
	{ "reallocarray", TRACE_CALL_REALLOCARRAY },
	{ "__libc_reallocarray", TRACE_CALL_REALLOCARRAY },
	{ "free", TRACE_CALL_FREE },
	{ "cfree", TRACE_CALL_FREE },
	{ "__libc_free", TRACE_CALL_FREE },
	{ "free_sized", TRACE_CALL_FREE_SIZED },
	{ "free_aligned_sized", TRACE_CALL_FREE_ALIGNED_SIZED },
	{ "posix_memalign", TRACE_CALL_POSIX_MEMALIGN },
	{ "__posix_memalign", TRACE_CALL_POSIX_MEMALIGN },
	{ "memalign", TRACE_CALL_MEMALIGN },
	{ "__libc_memalign", TRACE_CALL_MEMALIGN },
	{ "aligned_alloc", TRACE_CALL_ALIGNED_ALLOC },
	{ "valloc", TRACE_CALL_VALLOC },
	{ "__libc_valloc", TRACE_CALL_VALLOC },
	{ "pvalloc", TRACE_CALL_PVALLOC },
	{ "__libc_pvalloc", TRACE_CALL_PVALLOC },
	{ "_Znwm", TRACE_CALL_NEW },
	{ "_ZnwmRKSt9nothrow_t", TRACE_CALL_NEW },
	{ "_Znam", TRACE_CALL_NEW_ARRAY },
	{ "_ZnamRKSt9nothrow_t", TRACE_CALL_NEW_ARRAY },
	{ "_ZnwmSt11align_val_t", TRACE_CALL_NEW_ALIGNED },
	{ "_ZnwmSt11align_val_tRKSt9nothrow_t", TRACE_CALL_NEW_ALIGNED },
	{ "_ZnamSt11align_val_t", TRACE_CALL_NEW_ARRAY_ALIGNED },
	{ "_ZnamSt11align_val_tRKSt9nothrow_t", TRACE_CALL_NEW_ARRAY_ALIGNED },
	{ "_ZdlPv", TRACE_CALL_DELETE },
	{ "_ZdlPvm", TRACE_CALL_DELETE },
	{ "_ZdlPvRKSt9nothrow_t", TRACE_CALL_DELETE },
	{ "_ZdlPvSt11align_val_t", TRACE_CALL_DELETE },
	{ "_ZdlPvSt11align_val_tRKSt9nothrow_t", TRACE_CALL_DELETE },
	{ "_ZdlPvmSt11align_val_t", TRACE_CALL_DELETE },
	{ "_ZdaPv", TRACE_CALL_DELETE_ARRAY },
	{ "_ZdaPvm", TRACE_CALL_DELETE_ARRAY },
	{ "_ZdaPvRKSt9nothrow_t", TRACE_CALL_DELETE_ARRAY },
	{ "_ZdaPvSt11align_val_t", TRACE_CALL_DELETE_ARRAY },
	{ "_ZdaPvSt11align_val_tRKSt9nothrow_t", TRACE_CALL_DELETE_ARRAY },
	{ "_ZdaPvmSt11align_val_t", TRACE_CALL_DELETE_ARRAY },
	{ "mmap", TRACE_CALL_MMAP },
	{ "mmap64", TRACE_CALL_MMAP },
	{ "__mmap", TRACE_CALL_MMAP },
	{ "munmap", TRACE_CALL_MUNMAP },
	{ "__munmap", TRACE_CALL_MUNMAP },
	{ "mremap", TRACE_CALL_MREMAP },
	{ "__mremap", TRACE_CALL_MREMAP },
	{ "brk", TRACE_CALL_BRK },
	{ "__brk", TRACE_CALL_BRK },
	{ "sbrk", TRACE_CALL_SBRK },
	{ "__sbrk", TRACE_CALL_SBRK },
	{ "execve", ENTRY_FIRST_OTHER + ENTRY_EXECVE },
	{ "__execve", ENTRY_FIRST_OTHER + ENTRY_EXECVE },
	{ "prctl", ENTRY_FIRST_OTHER + ENTRY_PRCTL },
	{ "__prctl", ENTRY_FIRST_OTHER + ENTRY_PRCTL },
	{ "syscall", ENTRY_FIRST_OTHER + ENTRY_SYSCALL },
	{ "_Unwind_Find_FDE", ENTRY_FIRST_OTHER + ENTRY_FIND_FDE },
	{ "sigaction", ENTRY_FIRST_OTHER + ENTRY_SIGACTION },
	{ "__sigaction", ENTRY_FIRST_OTHER + ENTRY_SIGACTION },
	{ "sigprocmask", ENTRY_FIRST_OTHER + ENTRY_SIGPROCMASK },
	{ "__sigprocmask", ENTRY_FIRST_OTHER + ENTRY_SIGPROCMASK },
	{ "pthread_sigmask", ENTRY_FIRST_OTHER + ENTRY_PTHREAD_SIGMASK },
	{ "__pthread_sigmask", ENTRY_FIRST_OTHER + ENTRY_PTHREAD_SIGMASK },
	{ "sigaltstack", ENTRY_FIRST_OTHER + ENTRY_SIGALTSTACK },
	{ "__sigaltstack", ENTRY_FIRST_OTHER + ENTRY_SIGALTSTACK },
	{ "pthread_create", ENTRY_FIRST_OTHER + ENTRY_PTHREAD_CREATE },
	{ "__pthread_create", ENTRY_FIRST_OTHER + ENTRY_PTHREAD_CREATE },
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

/* Names that say whose library it is. */
static const struct {
	const char *name;
	enum entry_libc libc;
} marks[] = {
	{ "_int_malloc", ENTRY_LIBC_GLIBC },	{ "gnu_get_libc_version", ENTRY_LIBC_GLIBC },
	{ "__simple_malloc", ENTRY_LIBC_MUSL }, { "__libc_malloc_impl", ENTRY_LIBC_MUSL },
	{ "__dls3", ENTRY_LIBC_MUSL },		{ "runtime.mallocgc", ENTRY_LIBC_GO },
};

struct candidate {
	const char *name;
	uint64_t start;
	uint64_t end;
	uint8_t call;
	uint8_t rank; /* in the table of names */
	bool is_local;
};

struct search {
	struct object *object;
	struct candidate *items;
	size_t n;
	size_t n_allocated;
	bool has_symbols; /* .symtab, of the file or its debug file */
	struct allocator_entries *entries;
};

const char *allocator_libc_text(enum entry_libc libc)
{
	static const char *const texts[] = { "own malloc", "glibc", "musl", "Go" };

	return texts[libc];
}

static int add_candidate(struct search *search, const struct candidate *candidate)
{
	const struct object_segment *segment = object_segment_at(search->object, candidate->start);

	if (!segment || !segment->is_executable)
		return 0;
	if (grow_array(&search->items, search->n, &search->n_allocated, sizeof(*search->items)) < 0)
		return -ENOMEM;
	search->items[search->n++] = *candidate;
	return 0;
}

/* ---- By names ---- */

static int take_symbol(struct search *search, const GElf_Sym *symbol, uint64_t address,
		       const char *name)
{
	struct candidate candidate = {
		.start = address,
		.end = address + symbol->st_size,
		.is_local = GELF_ST_BIND(symbol->st_info) == STB_LOCAL,
	};
	size_t n_name = strcspn(name, "@");

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strncmp(marks[i].name, name, n_name) == 0 && !marks[i].name[n_name])
			search->entries->libc = (uint8_t)marks[i].libc;
	search->entries->has_unwinder |= strcmp(name, "_Unwind_RaiseException") == 0;
	if (strcmp(name, "start_thread") == 0 ||
	    (strcmp(name, "start") == 0 && search->entries->libc == ENTRY_LIBC_MUSL &&
	     candidate.is_local))
		search->entries->thread_start = address;
	for (size_t i = 0; i < N_NAMES; i++) {
		if (strncmp(names[i].name, name, n_name) != 0 || names[i].name[n_name])
			continue;
		candidate.name = names[i].name;
		candidate.call = names[i].call;
		candidate.rank = (uint8_t)i;
		return add_candidate(search, &candidate);
	}
	return 0;
}

static int read_symbols(struct search *search)
{
	Dwfl_Module *module = search->object->module;
	int n = dwfl_module_getsymtab(module);
	int r = 0;

	for (int i = 1; r == 0 && i < n; i++) {
		GElf_Addr address;
		GElf_Word section;
		GElf_Sym symbol;
		const char *name =
			dwfl_module_getsym_info(module, i, &symbol, &address, &section, NULL, NULL);

		if (name && *name && section != SHN_UNDEF &&
		    GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
			r = take_symbol(search, &symbol, address, name);
		search->has_symbols |= name && section != SHN_UNDEF && strcmp(name, "_start") == 0;
	}
	return r;
}

/* A local function counts only where no other one has its name: a program may call its own so. */
static bool is_the_one(const struct search *search, const struct candidate *candidate)
{
	for (size_t i = 0; candidate->is_local && i < search->n; i++)
		if (search->items[i].start != candidate->start &&
		    strcmp(search->items[i].name, candidate->name) == 0)
			return false;
	return true;
}

/* By address; of several names of a place the one that the table has first. */
DEFINE_ORDER(compare_candidates, struct candidate, BY(start) ?: a->rank - b->rank);

static const struct candidate *find_call(const struct search *search, uint8_t call)
{
	return array_find(search->items, search->n, it, it->call == call);
}

/* Is it nothing but a jump to another one of the same kind, which will do? musl's malloc is. */
static bool is_wrapper(const struct search *search, const struct candidate *candidate)
{
	static const uint8_t endbr64[ENDBR_BYTES] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t bytes[ENDBR_BYTES + JUMP_BYTES] = { 0 };
	size_t at = 0;
	int32_t distance;

	object_read(search->object, candidate->start, bytes, sizeof(bytes));
	if (memcmp(bytes, endbr64, sizeof(endbr64)) == 0)
		at = sizeof(endbr64);
	if (bytes[at] != 0xe9)
		return false;
	memcpy(&distance, &bytes[at + 1], sizeof(distance));
	uint64_t target = candidate->start + at + JUMP_BYTES + (uint64_t)(int64_t)distance;
	return array_find(search->items, search->n, it,
			  it->start == target && target != candidate->start &&
				  it->call == candidate->call);
}

static void settle(struct search *search)
{
	size_t n = 0;

	for (size_t i = 0; i < search->n; i++)
		if (is_the_one(search, &search->items[i]))
			search->items[n++] = search->items[i];
	search->n = n;
	if (n)
		qsort(search->items, n, sizeof(*search->items), compare_candidates);
	n = 0;
	for (size_t i = 0; i < search->n; i++)
		if (n == 0 || search->items[n - 1].start != search->items[i].start)
			search->items[n++] = search->items[i];
	search->n = n;
	/* Two that jump to each other never return: neither of them runs. */
	for (size_t i = n; i-- > 0;)
		if (is_wrapper(search, &search->items[i]))
			memmove(&search->items[i], &search->items[i + 1],
				(--search->n - i) * sizeof(*search->items));
}

/* ---- By how they are built ---- */

/*
 * Functions that are one system call begin like this, behind an endbr64 perhaps: glibc's
 * (sysdeps/unix/sysv/linux/x86_64/syscall.S, and generated ones), musl's execve.
 */
static const struct {
	const char *name;
	uint8_t other; /* enum entry_other */
	uint8_t n_bytes; /* of the function */
	uint8_t n_code;
	uint8_t code[26];
} calls[] = {
	{ "execve", ENTRY_EXECVE, 33, 7, { 0xb8, 0x3b, 0, 0, 0, 0x0f, 0x05 } },
	{ "execve",
	  ENTRY_EXECVE,
	  24,
	  11,
	  { 0x48, 0x83, 0xec, 0x08, 0xb8, 0x3b, 0, 0, 0, 0x0f, 0x05 } },
	{ "prctl", ENTRY_PRCTL, PRCTL_BYTES, 0, { 0 } }, /* is_prctl() */
	{ "syscall", ENTRY_SYSCALL, 51, 25, { 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6,
					      0x48, 0x89, 0xca, 0x4d, 0x89, 0xc2, 0x4d, 0x89, 0xc8,
					      0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05 } },
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

/*
 * prctl is C, and takes what it is given off a list: it makes room, keeps the second argument where
 * lists have it, and then makes its call. That takes up to PRCTL_BYTES, of which a part is looked
 * at.
 */
static bool is_prctl(const uint8_t *bytes)
{
	static const uint8_t room[] = { 0x48, 0x83, 0xec }; /* sub $N, %rsp */
	static const uint8_t fourth[] = { 0x49, 0x89, 0xca }; /* mov %rcx, %r10 */
	static const uint8_t second[] = { 0x48, 0x89, 0x74, 0x24 }; /* mov %rsi, N(%rsp) */
	static const uint8_t call[] = { 0xb8, 0x9d, 0, 0, 0, 0x0f, 0x05 };

	return memcmp(bytes, room, sizeof(room)) == 0 &&
	       memmem(bytes, 12, fourth, sizeof(fourth)) &&
	       memmem(bytes, 24, second, sizeof(second)) &&
	       memmem(bytes, PRCTL_BYTES - 40, call, sizeof(call));
}

static bool is_call(const uint8_t *bytes, size_t i)
{
	return calls[i].n_code ? memcmp(bytes, calls[i].code, calls[i].n_code) == 0
			       : is_prctl(bytes);
}

/* Of the functions of a segment, which begin at multiples of 16; two alike are neither. */
static void look_for_calls(const uint8_t *bytes, size_t n_bytes, uint64_t address,
			   struct candidate found[N_CALLS], size_t n_found[N_CALLS])
{
	static const uint8_t endbr64[ENDBR_BYTES] = { 0xf3, 0x0f, 0x1e, 0xfa };

	for (size_t at = 0; at + PRCTL_BYTES <= n_bytes; at += 16) {
		size_t skip = memcmp(bytes + at, endbr64, ENDBR_BYTES) == 0 ? ENDBR_BYTES : 0;

		for (size_t i = 0; i < N_CALLS; i++) {
			if (!is_call(bytes + at + skip, i))
				continue;
			n_found[i]++;
			found[i] = (struct candidate){
				.name = calls[i].name,
				.start = address + at,
				.end = address + at + skip + calls[i].n_bytes,
				.call = (uint8_t)(ENTRY_FIRST_OTHER + calls[i].other),
			};
		}
	}
}

static int add_calls(struct search *search)
{
	struct candidate found[N_CALLS];
	size_t n_found[N_CALLS] = { 0 };
	int r = 0;

	for (size_t i = 0; i < search->object->n_segments; i++) {
		const struct object_segment *segment = &search->object->segments[i];
		/* From the first multiple of 16 in memory on. */
		uint64_t start = (segment->address + 15) & ~UINT64_C(15);
		uint64_t skip = start - segment->address;
		auto_free uint8_t *bytes = NULL;

		if (!segment->is_executable || segment->file_bytes <= skip)
			continue;
		bytes = malloc(segment->file_bytes);
		if (!bytes)
			return -ENOMEM;
		look_for_calls(
			bytes,
			object_read(search->object, start, bytes, segment->file_bytes - skip),
			start, found, n_found);
	}
	for (size_t i = 0; r == 0 && i < N_CALLS; i++)
		if (n_found[i] == 1)
			r = add_candidate(search, &found[i]);
	return r;
}

static int read_signature(struct search *search)
{
	struct allocator_entries *entries = search->entries;
	struct signature signature;
	int r = allocator_signature_find(search->object, &signature);

	if (r < 0)
		return r;
	search->n = 0;
	for (size_t i = 0; r == 0 && i < signature.n; i++)
		r = add_candidate(search, &(struct candidate){
						  .name = signature.functions[i].name,
						  .start = signature.functions[i].start,
						  .end = signature.functions[i].end,
						  .call = signature.functions[i].call,
					  });
	if (r == 0 && signature.n > 0)
		r = add_calls(search);
	settle(search);
	entries->libc = signature.libc;
	snprintf(entries->why, sizeof(entries->why), "%s", signature.why ? signature.why : "");
	return r;
}

/* ---- Entries ---- */

static int fill(struct search *search, enum entry_origin origin)
{
	struct allocator_entries *entries = search->entries;

	auto_free struct code_function *codes = calloc(search->n + 1, sizeof(*codes));
	if (!codes ||
	    grow_array_of(&entries->items, entries->n, search->n, sizeof(*entries->items)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < search->n; i++)
		codes[i] = (struct code_function){ .start = search->items[i].start,
						   .end = search->items[i].end };
	int r = search->n ? code_scan(search->object,
				      &(struct code_wish){ codes, search->n, NULL, 0 })
			  : 0;
	for (size_t i = 0; r == 0 && i < search->n; i++) {
		const struct candidate *candidate = &search->items[i];
		struct allocator_entry entry = {
			.call = candidate->call,
			.origin = (uint8_t)origin,
			.n_bytes = (uint32_t)(candidate->end - candidate->start),
			.address = candidate->start,
		};

		snprintf(entry.name, sizeof(entry.name), "%s", candidate->name);
		entry.can_patch = functions_plan_code(&codes[i], &entry.patch);
		entry.why_not = function_why_text(codes[i].why);
		entries->items[entries->n++] = entry;
	}
	return r;
}

DEFINE_ORDER(compare_entries, struct allocator_entry, BY(address));

static void sort_entries(struct allocator_entries *entries)
{
	size_t n = 0;

	if (entries->n)
		qsort(entries->items, entries->n, sizeof(*entries->items), compare_entries);
	for (size_t i = 0; i < entries->n; i++) {
		if (entries->items[i].call >= ENTRY_FIRST_OTHER)
			entries->others[entries->items[i].call - ENTRY_FIRST_OTHER] =
				entries->items[i];
		else if (n == 0 || entries->items[n - 1].address != entries->items[i].address)
			entries->items[n++] = entries->items[i];
	}
	entries->n = n;
}

static bool has_patch(const struct allocator_entries *entries, uint8_t call)
{
	for (size_t i = 0; i < entries->n; i++)
		if (entries->items[i].call == call && entries->items[i].can_patch)
			return true;
	return false;
}

/* Are there blocks to be recorded? A program with musl that frees nothing has no free. */
static void judge(const struct search *search)
{
	struct allocator_entries *entries = search->entries;

	entries->lacks_heap =
		!has_patch(entries, TRACE_CALL_MALLOC) ||
		(!has_patch(entries, TRACE_CALL_FREE) &&
		 (find_call(search, TRACE_CALL_FREE) || entries->libc != ENTRY_LIBC_MUSL));
	if (!entries->lacks_heap || entries->why[0])
		return;
	snprintf(entries->why, sizeof(entries->why), "%s",
		 entries->libc == ENTRY_LIBC_GO ? "it is Go: its blocks are the runtime's own, and "
						  "there is no malloc"
		 : entries->n > 0		? "malloc or free cannot be led elsewhere"
						: "it has no malloc and free");
}

static bool has_section(struct object *object, const char *wanted)
{
	Elf_Scn *section = NULL;
	size_t texts = 0;

	if (elf_getshdrstrndx(object->elf, &texts) < 0)
		return false;
	while ((section = elf_nextscn(object->elf, section))) {
		GElf_Shdr head;
		const char *name = gelf_getshdr(section, &head)
					   ? elf_strptr(object->elf, texts, head.sh_name)
					   : NULL;

		if (name && strcmp(name, wanted) == 0)
			return true;
	}
	return false;
}

static int look_into(struct search *search)
{
	struct allocator_entries *entries = search->entries;
	int r = read_symbols(search);

	if (r < 0)
		return r;
	settle(search);
	entries->is_static = object_is_static(search->object);
	if (find_call(search, TRACE_CALL_MALLOC))
		return fill(search, ENTRY_BY_SYMBOL);
	if (has_section(search->object, ".gopclntab"))
		entries->libc = ENTRY_LIBC_GO;
	else if (!entries->is_static)
		snprintf(entries->why, sizeof(entries->why), "its malloc is that of a library");
	else if (!search->has_symbols && (r = read_signature(search)) == 0)
		return fill(search, ENTRY_BY_SIGNATURE);
	return r;
}

int allocator_entries_find(const char *path, struct allocator_entries *ret_entries)
{
	struct allocator_entries entries = { 0 };
	struct search search = { .entries = &entries };
	struct objects *objects = NULL;
	GElf_Ehdr head;
	int r = objects_create(NULL, &objects);

	if (r < 0)
		return r;
	search.object = objects_get(objects, NULL, 0, path, strlen(path));
	r = !search.object ? -ENOMEM
	    : object_open(search.object) && gelf_getehdr(search.object->elf, &head) &&
			    head.e_machine == EM_X86_64 && head.e_ident[EI_CLASS] == ELFCLASS64
		    ? look_into(&search)
		    : -ENOEXEC;
	if (r == 0) {
		sort_entries(&entries);
		judge(&search);
	}
	free(search.items);
	objects_destroy(objects);
	if (r < 0)
		allocator_entries_finish(&entries);
	else
		*ret_entries = entries;
	return r;
}

void allocator_entries_finish(struct allocator_entries *entries)
{
	free(entries->items);
	*entries = (struct allocator_entries){ 0 };
}
