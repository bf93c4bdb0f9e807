#pragma once
/*
 * Calls of include/memsight.h in a static program: its linker has made of each load of a function's
 * address one of 0. Notes of the file say where they are.
 */
#include <stddef.h>
#include <stdint.h>

#define API_SITE_BYTES 7u /* of the instruction */

struct api_site {
	uint64_t address; /* of the file */
	char name[40]; /* of the function */
};

/*
 * List those of a file. *ret_sites is the caller's to free. 0, also if it has none or cannot be
 * read; -ENOMEM.
 */
int api_sites_read(const char *path, struct api_site **ret_sites, size_t *ret_n);

/*
 * Let the instruction, which lies at an address, load the function's address. 0, -EINVAL: it is not
 * what linkers make of it; -ERANGE: out of reach.
 */
int api_site_change(uint8_t code[API_SITE_BYTES], uint64_t at, uint64_t function);
