#include "tracealloc/hooks/operator-new.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/stack/symbol.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

enum ta_new_mode ta_new_mode;

/* glibc has it, musl has not. */
extern __typeof__(dladdr1) dladdr1 __attribute__((weak));

/*
 * A program that is not position independent and uses the address of a function has an entry for it
 * in its own table of jumps, which is then the address for everybody. It is no definition.
 */
static bool is_jump(const void *found)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info = { 0 };

	return found && dladdr1 && dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) &&
	       symbol && symbol->st_shndx == SHN_UNDEF;
}

/*
 * Whether everybody's calls of a name come to our function. (Ours is the one in this library only
 * since it is linked with -Bsymbolic-functions.)
 */
static bool is_ours(const char *name, uintptr_t function)
{
	const void *found = dlsym(RTLD_DEFAULT, name);

	return (uintptr_t)found == function || is_jump(found);
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

void ta_new_resolve(void)
{
	const void *real = ta_symbol_next("_Znwm");

	if (real)
		find_in(RTLD_NEXT);
	if (!are_all_ours())
		ta_new_mode = TA_NEW_PASS;
	else
		ta_new_mode = !real || is_runtime(real) ? TA_NEW_DIRECT : TA_NEW_WRAP;
}

void ta_new_find(uintptr_t caller)
{
	Dl_info info = { 0 };
	void *handle;

	if (!dladdr((const void *)caller, &info) || !info.dli_fname)
		return;
	/* It stays open: what we point into must not go. */
	handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (handle)
		find_in(handle);
}
