/* Reads whatever bytes as a file of suppressions, and looks for its patterns in its own lines. */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "report/known-leaks.h"
#include "tests/robust/fuzz/fuzz.h"

/* Whether all patterns are tried in time, whatever stars they hold; a text contains itself. */
static void match_lines(char *text)
{
	char *rest = text, *line, *before = text;

	while ((line = strsep(&rest, "\n"))) {
		const char *pattern = strncmp(line, "leak:", 5) == 0 ? line + 5 : line;
		bool is_plain = !strpbrk(pattern, "*^$");
		if (is_plain && *pattern && !suppressions_match(pattern, line))
			abort();
		if (suppressions_match(pattern, before) && *before == '\0')
			abort();
		before = line;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct suppressions *suppressions = NULL;
	unsigned line = 0;
	auto_free char *text = strndup((const char *)bytes, n_bytes);
	int r = suppressions_parse((const char *)bytes, n_bytes, &suppressions, &line);

	if (!text || (r < 0 && line == 0) || (r == 0 && !suppressions))
		abort();
	suppressions_free(suppressions);
	match_lines(text);
	return 0;
}
