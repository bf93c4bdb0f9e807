#include "common/text.h"

#include <stdbool.h>
#include <string.h>

/* U+0080 to U+009F. */
static bool is_second_set(const unsigned char *c)
{
	return c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f;
}

char *text_hide_controls(char *text)
{
	for (unsigned char *c = (unsigned char *)text; c && *c; c++) {
		if (*c < 0x20 || *c == 0x7f) {
			*c = '?';
		} else if (is_second_set(c)) {
			*c++ = '?';
			*c = '?';
		}
	}
	return text;
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

uint64_t text_name_id(const char *name)
{
	uint64_t id = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		id = (id ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return id ? id : 1;
}
