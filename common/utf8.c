#include "common/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

int utf8_length(const unsigned char *s)
{
	int n = s[0] < 0x80		      ? 1
		: s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		: (s[0] & 0xf0) == 0xe0	      ? 3
		: s[0] >= 0xf0 && s[0] < 0xf5 ? 4
					      : 0;

	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and what lies behind U+10FFFF. */
	bool is_bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		      (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
	return is_bad ? 0 : n;
}

size_t utf8_json(const char **text, char room[8])
{
	const char *at = *text;
	size_t n = (size_t)utf8_length((const unsigned char *)at);

	*text += n ? n : 1;
	if (n == 0)
		return (size_t)snprintf(room, 8, REPLACEMENT);
	if (*at == '"' || *at == '\\')
		return (size_t)snprintf(room, 8, "\\%c", *at);
	if (n == 1 && *at < 0x20)
		return (size_t)snprintf(room, 8, "\\u%04x", *at);
	memcpy(room, at, n);
	return n;
}

char *utf8_copy(const char *text)
{
	char *copy = malloc((sizeof(REPLACEMENT) - 1) * strlen(text) + 1);
	char *to = copy;

	if (!copy)
		return NULL;
	while (*text) {
		int n = utf8_length((const unsigned char *)text);
		memcpy(to, n ? text : REPLACEMENT, n ? (size_t)n : sizeof(REPLACEMENT) - 1);
		to += n ? (size_t)n : sizeof(REPLACEMENT) - 1;
		text += n ? n : 1;
	}
	*to = '\0';
	return copy;
}
