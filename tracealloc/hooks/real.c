#include "tracealloc/hooks/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "tracealloc/arch/arch.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/libc-fallback.h"
#include "tracealloc/stack/symbol.h"
#include "tracealloc/state.h"

#define ARENA_ALIGNMENT 16u

uint8_t ta_arena[TA_ARENA_BYTES] __attribute__((aligned(4096))) TA_LARGE;
static _Atomic size_t arena_used;
static _Atomic int resolve_state; /* 0 not yet, 1 looking up, 2 known */

void *ta_arena_alloc(size_t alignment, size_t size)
{
	if (alignment < ARENA_ALIGNMENT)
		alignment = ARENA_ALIGNMENT;
	if (size > TA_ARENA_BYTES || alignment > TA_ARENA_BYTES)
		return NULL;
	size_t bytes = ARENA_ALIGNMENT + alignment + (size + ARENA_ALIGNMENT - 1) / 16 * 16;
	size_t start = atomic_fetch_add(&arena_used, bytes);
	if (bytes > TA_ARENA_BYTES || start > TA_ARENA_BYTES - bytes)
		return NULL;
	/* The size stands in the 8 bytes before the block. */
	start = (start + ARENA_ALIGNMENT + alignment - 1) / alignment * alignment;
	memcpy(&ta_arena[start - sizeof(size)], &size, sizeof(size));
	return &ta_arena[start];
}

size_t ta_arena_size(const void *block)
{
	size_t size;

	memcpy(&size, (const uint8_t *)block - sizeof(size), sizeof(size));
	return size;
}

static void *arena_or_enomem(size_t alignment, size_t size)
{
	void *block = ta_arena_alloc(alignment, size);

	if (!block)
		errno = ENOMEM;
	return block;
}

/* Are the real functions known now? If not, this call comes out of the look-up itself. */
static bool resolved(void)
{
	ta_real_resolve();
	return atomic_load_explicit(&resolve_state, memory_order_acquire) == 2;
}

/* The stand-ins. A function that the next libraries do not have keeps its stand-in. */
static void *early_malloc(size_t size)
{
	if (resolved() && ta_real.malloc != early_malloc)
		return ta_real.malloc(size);
	return arena_or_enomem(0, size);
}

static void *early_calloc(size_t count, size_t size)
{
	size_t bytes;

	if (resolved() && ta_real.calloc != early_calloc)
		return ta_real.calloc(count, size);
	if (__builtin_mul_overflow(count, size, &bytes))
		bytes = SIZE_MAX;
	return arena_or_enomem(0, bytes);
}

static void *early_memalign(size_t alignment, size_t size)
{
	if (resolved() && ta_real.memalign != early_memalign)
		return ta_real.memalign(alignment, size);
	return arena_or_enomem(alignment, size);
}

static void *early_aligned_alloc(size_t alignment, size_t size)
{
	if (resolved() && ta_real.aligned_alloc != early_aligned_alloc)
		return ta_real.aligned_alloc(alignment, size);
	return arena_or_enomem(alignment, size);
}

static void *early_valloc(size_t size)
{
	if (resolved() && ta_real.valloc != early_valloc)
		return ta_real.valloc(size);
	return arena_or_enomem(TA_PAGE_BYTES, size);
}

static void *early_pvalloc(size_t size)
{
	if (resolved() && ta_real.pvalloc != early_pvalloc)
		return ta_real.pvalloc(size);
	return arena_or_enomem(TA_PAGE_BYTES, (size + TA_PAGE_BYTES - 1) & -(size_t)TA_PAGE_BYTES);
}

static void *early_realloc(void *block, size_t size)
{
	if (resolved() && ta_real.realloc != early_realloc)
		return ta_real.realloc(block, size);
	return block ? NULL : arena_or_enomem(0, size);
}

static void early_free(void *block)
{
	if (resolved() && ta_real.free != early_free)
		ta_real.free(block);
}

static int early_posix_memalign(void **ret_block, size_t alignment, size_t size)
{
	if (resolved() && ta_real.posix_memalign != early_posix_memalign)
		return ta_real.posix_memalign(ret_block, alignment, size);
	void *block = ta_arena_alloc(alignment, size);
	if (!block)
		return ENOMEM;
	*ret_block = block;
	return 0;
}

static void *early_mmap(void *address, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (resolved() && ta_real.mmap != early_mmap)
		return ta_real.mmap(address, size, prot, flags, fd, offset);
	return (void *)ta_with_errno(
		ta_syscall_raw(SYS_mmap, (long)address, (long)size, prot, flags, fd, offset));
}

static int early_munmap(void *address, size_t size)
{
	if (resolved() && ta_real.munmap != early_munmap)
		return ta_real.munmap(address, size);
	return (int)ta_with_errno(
		ta_syscall_raw(SYS_munmap, (long)address, (long)size, 0, 0, 0, 0));
}

static void *early_mremap(void *address, size_t old_size, size_t size, int flags, ...)
{
	__builtin_va_list list;

	__builtin_va_start(list, flags);
	void *target = flags & MREMAP_FIXED ? __builtin_va_arg(list, void *) : NULL;
	__builtin_va_end(list);
	if (resolved() && ta_real.mremap != early_mremap)
		return ta_real.mremap(address, old_size, size, flags, target);
	return (void *)ta_with_errno(ta_syscall_raw(SYS_mremap, (long)address, (long)old_size,
						    (long)size, flags, (long)target, 0));
}

struct ta_real ta_real = {
	.malloc = early_malloc,
	.calloc = early_calloc,
	.memalign = early_memalign,
	.aligned_alloc = early_aligned_alloc,
	.valloc = early_valloc,
	.pvalloc = early_pvalloc,
	.realloc = early_realloc,
	.free = early_free,
	.posix_memalign = early_posix_memalign,
	.mmap = early_mmap,
	.mmap64 = early_mmap,
	.munmap = early_munmap,
	.mremap = early_mremap,
	.brk = ta_early_brk,
	.sbrk = ta_early_sbrk,
	.shmat = ta_early_shmat,
	.shmdt = ta_early_shmdt,
	.madvise = ta_early_madvise,
	.mprotect = ta_early_mprotect,
	.pkey_mprotect = ta_early_pkey_mprotect,
	.mlock = ta_early_mlock,
	.mlock2 = ta_early_mlock2,
	.munlock = ta_early_munlock,
	.mlockall = ta_early_mlockall,
	.munlockall = ta_early_munlockall,
	.prctl = ta_early_prctl,
};

/* ---- C++'s operators ---- */

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

enum ta_new_mode ta_new_mode;

/*
 * Whether everybody's calls of a name come to our function. (Ours is the one in this library only
 * since it is linked with -Bsymbolic-functions.)
 */
static bool is_ours(const char *name, uintptr_t function)
{
	const void *found = dlsym(RTLD_DEFAULT, name);

	return (uintptr_t)found == function || ta_symbol_is_jump(found);
}

/* The runtime's operators call each other, malloc and free: any of them may be the program's. */
static bool are_all_ours(void)
{
	bool result = is_ours("malloc", (uintptr_t)malloc) && is_ours("free", (uintptr_t)free) &&
		      is_ours("aligned_alloc", (uintptr_t)aligned_alloc);
#define TA_NEW(name, call, params, args, alignment)                                                \
	result = result && is_ours(#name, (uintptr_t)name);
#define TA_DELETE(name, call, params, args) result = result && is_ours(#name, (uintptr_t)name);
#define TA_REAL(name, type, params)
#include "tracealloc/hooks/hooks.def"
	return result;
}

static void find_in(void *handle)
{
	void *function;

#define TA_NEW(name, call, params, args, alignment)                                                \
	function = handle == RTLD_NEXT ? ta_symbol_next(#name) : dlsym(handle, #name);             \
	if (function && (uintptr_t)function != (uintptr_t)name)                                    \
		memcpy(&ta_real.name, &function, sizeof(function));
#define TA_DELETE(name, call, params, args) TA_NEW(name, call, params, args, 0)
#define TA_REAL(name, type, params)
#include "tracealloc/hooks/hooks.def"
}

/* The file that defines a function. */
static const void *file_of(const void *function)
{
	Dl_info info = { 0 };

	return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

/* Only the runtime itself has the handler that new calls when there is no memory. */
static bool is_runtime(const void *function)
{
	const void *handler = ta_symbol_next("_ZSt15get_new_handlerv"); /* libstdc++, libc++ */

	return handler && file_of(handler) == file_of(function);
}

static void resolve_new(void)
{
	const void *real = ta_symbol_next("_Znwm");

	if (real)
		find_in(RTLD_NEXT);
	/* Late, calls of the runtime's operators are led to us one by one, or not at all. */
	if (ta_symbol_is_late())
		ta_new_mode = real && is_runtime(real) ? TA_NEW_DIRECT : TA_NEW_PASS;
	else if (!are_all_ours())
		ta_new_mode = TA_NEW_PASS;
	else
		ta_new_mode = !real || is_runtime(real) ? TA_NEW_DIRECT : TA_NEW_WRAP;
}

void ta_new_find(uintptr_t caller)
{
	Dl_info info = { 0 };

	if (!dladdr((const void *)caller, &info) || !info.dli_fname)
		return;
	/* It stays open: what we point into must not go. */
	void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (handle)
		find_in(handle);
}

/* ---- The look-up ---- */

bool ta_real_is_resolving(void)
{
	return atomic_load_explicit(&resolve_state, memory_order_relaxed) == 1;
}

void ta_real_resolve_again(void)
{
	atomic_store(&resolve_state, 0);
	ta_real_resolve();
}

void ta_real_resolve(void)
{
	int expected = 0;
	int saved = errno;

	if (!atomic_compare_exchange_strong(&resolve_state, &expected, 1))
		return;
	/* Into a copy first: during the look-up the stand-ins must stay. */
	struct ta_real found = ta_real;
	void *function;

	ta_symbol_begin();
#define TA_REAL(name, type, params)                                                                \
	function = ta_symbol_next(#name);                                                          \
	if (function)                                                                              \
		memcpy(&found.name, &function, sizeof(function));
#define TA_NEW(name, call, params, args, alignment)
#define TA_DELETE(name, call, params, args)
#include "tracealloc/hooks/hooks.def"
	ta_real = found;
	resolve_new();
	ta_symbol_end();
	/*
	 * What was not found is no error of the program's: it may ask dlerror. Twice frees the
	 * text.
	 */
	(void)(dlerror() && dlerror());
	atomic_store_explicit(&resolve_state, 2, memory_order_release);
	errno = saved;
}
