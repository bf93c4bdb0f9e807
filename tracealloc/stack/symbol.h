#pragma once
/*
 * Whether a look-up will find a symbol. dlsym makes an error text when it finds nothing, in a block
 * of malloc; but whoever called us may be a malloc, with its lock held (chromium's maps memory so).
 */
#include <stdbool.h>

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
