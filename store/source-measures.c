#include "store/source-measures.h"

#include <stddef.h>
#include <string.h>

static const char *const words[] = {
	[MEASURES_TIME] = "time",   [MEASURES_FAULT] = "fault", [MEASURES_ACCESS] = "access",
	[MEASURES_WATCH] = "watch", [MEASURES_TASKS] = "tasks", [MEASURES_PAGES] = "pages",
};

/* All others measure accesses. */
static const struct {
	const char *name;
	enum source_measures measures;
} sources[] = {
	{ "clock", MEASURES_TIME },    { "signal", MEASURES_TIME }, { "faults", MEASURES_FAULT },
	{ "watch", MEASURES_WATCH },   { "tasks", MEASURES_TASKS }, { "pages", MEASURES_PAGES },
	{ "uprobes", MEASURES_TASKS },
};

enum source_measures source_measures_of(const char *source_name)
{
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		if (strcmp(sources[i].name, source_name) == 0)
			return sources[i].measures;
	}
	return MEASURES_ACCESS;
}

const char *source_measures_word(enum source_measures measures)
{
	return words[measures];
}

enum source_measures source_measures_read(const char *word)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], word) == 0)
			return (enum source_measures)i;
	}
	return MEASURES_ACCESS;
}
