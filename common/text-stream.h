#pragma once
/*
 * A stream that writes into memory. glibc's open_memstream() leaves text out in silence when it
 * finds no memory for more of it: neither ferror() nor fclose() tells. This one tells.
 */
#include <stddef.h>
#include <stdio.h>

/*
 * Open one. *text and *n_bytes are the stream's until text_stream_close(): no moving them. Returns
 * NULL without memory, with *text NULL.
 */
FILE *text_stream_open(char **text, size_t *n_bytes);

/*
 * End it: *text is all that was written, NUL-terminated and to be freed, of *n_bytes. Returns 0 or
 * -ENOMEM; then *text is NULL.
 */
int text_stream_close(FILE *stream, char **text);
