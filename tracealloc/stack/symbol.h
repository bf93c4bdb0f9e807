#pragma once
/*
 * Whether a look-up will find a symbol. dlsym makes an error text when it finds nothing, in a block
 * of malloc; but whoever called us may be a malloc, with its lock held (chromium's maps memory so).
 */
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the dynamic section of a loaded file says (gABI chapter 5; DT_GNU_HASH as binutils has it),
 * and its segments. It points into the file; what is not there is 0.
 */
struct ta_dynamic {
	uintptr_t bias;
	uintptr_t start;
	uintptr_t end;
	uintptr_t sealed_start; /* read-only since it was bound: PT_GNU_RELRO */
	uintptr_t sealed_end;
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu; /* n_buckets, first symbol, words of the filter, shift */
	const uint32_t *sysv; /* n_buckets, n_chains */
	const ElfW(Half) * versions; /* of symbols; NULL: they have none */
	const ElfW(Rela) * tables[2]; /* of data, and of calls */
	size_t n[2];
	size_t n_relative; /* of the first table: they have no symbol */
	bool has_start; /* code of it runs when it is loaded */
	bool has_rel; /* calls are in a table of another form */
};

/* Neither locks nor allocates; the file must stay loaded. */
struct ta_dynamic ta_dynamic_read(uintptr_t bias, const ElfW(Phdr) * headers, unsigned n_headers);

/* Put a value into one of its places, be it sealed. False: it may not be written. */
bool ta_dynamic_write(const struct ta_dynamic *file, void **slot, void *value);

/*
 * Does a file that was loaded after ours define the name, so that dlsym(RTLD_NEXT) finds it? At the
 * start only: takes the loader's lock.
 */
bool ta_symbol_is_next(const char *name);

/*
 * Where that is, or if it is in none behind ours in any other; for a function that is no IFUNC.
 * NULL: nowhere.
 */
void *ta_symbol_address(const char *name);

/*
 * A program that is not position independent and uses the address of a function has an entry for it
 * in its own table of jumps, which is then the address for everybody. It is no definition. May take
 * the loader's lock.
 */
bool ta_symbol_is_jump(const void *address);

/*
 * dlsym(RTLD_NEXT, name), without an error when there is none. Where we were opened late nothing
 * stands behind us: RTLD_DEFAULT then, which does not find what is opened without RTLD_GLOBAL, as
 * we are.
 */
void *ta_symbol_next(const char *name);

/*
 * Between the two ta_symbol_next() looks itself, in a list of the files behind ours: for many names
 * at the start. One thread; nothing is loaded meanwhile.
 */
void ta_symbol_begin(void);

/* Were we opened when the program ran already? Known behind the first ta_symbol_begin(). */
bool ta_symbol_is_late(void);
void ta_symbol_end(void);
