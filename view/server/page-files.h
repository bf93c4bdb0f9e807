#pragma once
/* The files of the page, in the program: made from view/web/ by view/embed-web.py. */
#include <stddef.h>

struct view_file {
	/*
	 * below view/web/: "app.js", "vendor/uplot/uPlot.iife.min.js"; NULL: behind the
	 * last
	 */
	const char *name;
	const char *type; /* of its content */
	const char *bytes; /* with a NUL behind them */
	size_t n_bytes;
};

extern const struct view_file view_files[];

/* The file of a name, or NULL. No other file can be named. */
const struct view_file *view_file_find(const char *name);
