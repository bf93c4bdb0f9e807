#pragma once
#include <stddef.h>

/*
 * Add what one record has of a look at pages to what those before it had: bytes is the address of a
 * pointer to n of them, or NULL; TRACE_VARINT_SLACK zeros follow. Returns 0, -EBADMSG where it is
 * more than any look has, or -ENOMEM. intervals.c
 */
int pages_gather(void *bytes, size_t *n, const char *more, size_t n_more);
