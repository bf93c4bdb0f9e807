#pragma once
/*
 * A table by which the rules of unwinding are found, for a program whose linker has made none:
 * static ones at fixed addresses. As .eh_frame_hdr: LSB core, "Exception Frames".
 */
#include <stddef.h>
#include <stdint.h>

/*
 * Make it for the program in a file, as it would lie at address `to` while the file's own addresses
 * are moved by bias. *ret_bytes is the caller's to free; NULL, *ret_n 0: the file has one, or no
 * rules. 0 or a negative errno.
 */
int unwind_table_make(const char *path, uint64_t bias, uint64_t to, uint8_t **ret_bytes,
		      size_t *ret_n);
