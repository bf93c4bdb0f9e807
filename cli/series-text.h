#pragma once
/* What a person sees of a series: its plan, its progress, its end. */
#include <stdbool.h>
#include <stdio.h>

#include "series/run.h"

/* The plan of a series: programs, modes, order. */
void series_text_plan(FILE *to, const struct series_plan *plan);

/* Where progress goes. */
struct series_text {
	FILE *log; /* a line for each run; NULL: none */
	bool is_quiet;
	bool is_terminal; /* standard error: one line that changes */
	unsigned columns;
};

/* A series_observer's functions; user is a struct series_text. */
void series_text_progress(void *user, const struct series_progress *progress);
void series_text_warn(void *user, const char *line);

/* The runs that did not end as expected, one a line, at most 20. */
void series_text_failures(const struct series_plan *plan, const struct series_folder *folder);
