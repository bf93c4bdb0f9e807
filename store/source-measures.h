#pragma once
/* What samples of a source measure: source.measures, set once, at import, by the name. */

enum source_measures {
	MEASURES_TIME, /* its weight is CPU time; at most one such source gives samples in a run */
	MEASURES_FAULT, /* page faults */
	MEASURES_ACCESS, /* accesses that hardware picked, or any other event */
	MEASURES_WATCH, /* all accesses to chosen bytes: no sample of the program's */
	MEASURES_TASKS, /* nothing: it says when threads, maps and calls come and go */
	MEASURES_PAGES, /* touched pages, without samples: page_interval */
};

/* Of a source that is called so (trace_source). Any thread. */
enum source_measures source_measures_of(const char *source_name);

/* The word in the column, and back; an unknown word is that of an access. Any thread. */
const char *source_measures_word(enum source_measures measures);
enum source_measures source_measures_read(const char *word);
