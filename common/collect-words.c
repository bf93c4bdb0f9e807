#include "common/collect-words.h"

#include <stdio.h>

void collect_format(uint32_t bits, char text[COLLECT_TEXT_BYTES])
{
	static const char *const words[] = {
#define EVENTS(id, word, bit, meaning)	[bit] = #word,
#define SAMPLES(id, word, bit, meaning) [bit] = #word,
#include "schemas/events.def"
#undef EVENTS
#undef SAMPLES
	};
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (bits >> i & 1)
			n += (size_t)snprintf(text + n, COLLECT_TEXT_BYTES - n, "%s%s",
					      n ? "," : "", words[i]);
	}
}
