#pragma once
/* The page itself, as it is served. */
#include <stddef.h>

#define VIEW_NONCE_LETTERS 32u

/*
 * The page with a nonce for its scripts, allocated. Returns 0, -ENOMEM, or -ENOENT when it was not built in.
 */
int view_page_make(const char *nonce, char **ret_text, size_t *ret_n_bytes);

/* Random hex digits from the kernel, and a NUL. Returns 0 or a negative errno. */
int view_random_hex(char *text, size_t n_letters);
