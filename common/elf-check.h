#pragma once
/*
 * What an executable file tells about itself: whether ld.so would load our library into it, and
 * whether the program could bear it. For the runner, and for code that runs inside other people's
 * programs: nothing here allocates, locks or touches errno; the caller brings the way to read.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How to read: as pread(), but a negative result may be any error. */
typedef long (*program_read_fn)(int fd, void *to, size_t n_bytes, uint64_t at);

/*
 * Why our library cannot, or must not, be preloaded into this file: TRACE_NOT_STATIC (has no
 * loader: it does no harm), TRACE_NOT_32BIT, TRACE_NOT_SANITIZER; TRACE_TRACED when nothing speaks
 * against it, and for what is no ELF file.
 */
int program_file_why_not(program_read_fn read, int fd);

/*
 * The interpreter that a script names in its first line, into n_bytes of ret_path (NUL-terminated).
 * False: it is no script, or names none that fits.
 */
bool program_file_interpreter(program_read_fn read, int fd, char *ret_path, size_t n_bytes);

/*
 * Is it loaded by musl's ld.so, or that itself? What needs glibc may not be preloaded into it then.
 */
bool program_file_is_musl(program_read_fn read, int fd);

/* Does an executable define this symbol for all its libraries (by its table of GNU hashes)? */
bool program_file_defines(program_read_fn read, int fd, const char *symbol);

/* Does this list (as LD_PRELOAD; may be NULL) hold the library of a sanitizer? */
bool program_list_has_sanitizer(const char *list);
