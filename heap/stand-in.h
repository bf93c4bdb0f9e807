#pragma once
/*
 * What libmemkind.a, which is linked into this library, finds in place of functions of libc, of its
 * own and of other libraries. None of it is seen outside.
 *
 * As a shared library it would bring libdaxctl, libhwloc, libnuma and what those need into each
 * process: 5 ms for each, constructors that allocate as if it were the program, names that the
 * program's own libraries may want in another version, and handlers of fork before ours.
 */

/* Close the file that memkind_create_pmem() has made for itself. */
void stand_in_close(void);
