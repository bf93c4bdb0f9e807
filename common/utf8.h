#pragma once
/* Text that others take for UTF-8, while names of files and threads may hold any byte. */
#include <stddef.h>

/* Length of the valid UTF-8 sequence at s, 1 to 4; 0: there is none. s ends with a NUL. */
int utf8_length(const unsigned char *s);

/*
 * Write the next letter of a text as it stands in a JSON string; what is no UTF-8 becomes U+FFFD.
 * Moves the text on. Returns how many bytes it wrote.
 */
size_t utf8_json(const char **text, char room[8]);

/* A copy with U+FFFD for each byte that is none of valid UTF-8; NULL: no memory. */
char *utf8_copy(const char *text);
