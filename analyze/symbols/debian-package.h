#pragma once
#include <stddef.h>

/*
 * The Debian package that installed a file, from dpkg's own lists in `info_folder`
 * (/var/lib/dpkg/info); merged /usr is looked through. Reads lists until one has it, so up to some
 * 20 ms for a file where packages install, and none for others. Writes the name without
 * architecture. Returns 0, -ENOENT when no package has it, or a negative errno. Not thread-safe
 * (glob).
 */
int package_of_file(const char *info_folder, const char *path, char *ret_name, size_t n_bytes);

/* The package with a package's debug information: NAME-dbgsym, or libc6-dbg for libc6. */
void package_debug_name(const char *package, char *ret_name, size_t n_bytes);
