#pragma once
/* The page itself: as it is served, and as one file with all that it needs. */
#include <stdbool.h>
#include <stddef.h>

#define VIEW_NONCE_LETTERS 32u

/*
 * The page with a nonce for its scripts, allocated; is_live: that of a run that is being recorded.
 * Returns 0, -ENOMEM, or -ENOENT when it was not built in.
 */
int view_page_make(const char *nonce, bool is_live, char **ret_text, size_t *ret_n_bytes);

/*
 * The page with its files inside: style sheets in their places, modules as data: URLs of the import
 * map, the answers as JSON (valid in HTML: without '<'), and a policy that lets nothing be fetched.
 * Errors as above.
 */
int view_page_store(const char *answers, char **ret_text, size_t *ret_n_bytes);

/* Random hex digits from the kernel, and a NUL. Returns 0 or a negative errno. */
int view_random_hex(char *text, size_t n_letters);
