#pragma once
/*
 * What `memsight top` shows: live totals of a recording (schemas/live-totals.h), as rows by the
 * places that allocated, and how they changed. One thread.
 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/live-totals.h"

#define TOP_POINTS  120u /* of curves */
#define TOP_UNNAMED 256u /* sites whose names are asked for at once */
#define TOP_PAST    10u /* refreshes that growth is measured over */

enum top_sort { TOP_LIVE, TOP_GROWTH, TOP_RATE, TOP_LEAKED, TOP_BLOCKS, TOP_AGE, TOP_SORTS };

/* Sites of one name. */
struct top_row {
	const char *name; /* the top's */
	uint32_t site; /* the one with most live bytes: its stack is shown */
	uint64_t live_bytes;
	uint64_t n_live;
	double variance; /* of live_bytes */
	uint64_t leaked_bytes;
	uint64_t age_ms; /* added over live blocks */
	uint64_t n_allocations;
	double growth; /* bytes a second, over the last TOP_PAST refreshes */
	double rate; /* allocations a second, since the last one */
};

/* Of everything. */
struct top_now {
	double seconds; /* since the program began */
	uint64_t live_bytes;
	double half_width; /* of the 95 % interval of live_bytes; 0: exact */
	uint64_t n_live;
	uint64_t leaked_bytes;
	uint64_t rss_bytes;
	uint64_t n_allocations;
	uint64_t allocated_bytes;
	double rate; /* allocations a second */
	double bytes_rate; /* bytes a second */
	double growth; /* bytes a second */
	uint64_t n_lost;
	uint32_t n_threads; /* ever */
	uint32_t n_processes;
	uint32_t one_in; /* new blocks that are followed */
	bool is_paused;
};

struct top_site; /* what is known of a site beside its totals */
struct top_names; /* symbols */

struct top {
	const struct live_header *header;
	struct top_site *sites; /* LIVE_MAX_SITES */
	struct top_row *rows; /* sorted, those that the filter lets through */
	size_t n_rows;
	size_t n_unnamed;
	uint32_t unnamed[TOP_UNNAMED];
	size_t n_found; /* sites that have something, before the filter, those of a name each */
	struct top_now now;
	uint64_t refreshed_ns; /* CLOCK_MONOTONIC of the last refresh; 0: none */
	uint64_t past_ns[TOP_PAST];
	uint64_t past_live[TOP_PAST];
	uint32_t n_refreshes;
	uint64_t live_points[TOP_POINTS]; /* as a ring: point i at i % TOP_POINTS */
	uint64_t rss_points[TOP_POINTS];
	struct top_names *names;
};

/* Begin with the memory behind fd, which stays the caller's. 0 or a negative errno. */
int top_begin(struct top *top, int fd);

/* Safe on a zeroed struct. */
void top_end(struct top *top);

/* What to show. */
struct top_wish {
	enum top_sort sort;
	const char *filter; /* only rows whose names have it, letters in either case; NULL: all */
	size_t n_rows; /* whose names are wanted; 0: all */
	bool is_for_all_sorts; /* so many by each column, not by sort alone */
	bool is_hurried; /* names are found by somebody else: top_unnamed() */
	int64_t interval_ns; /* between looks */
	sigset_t quitting; /* signals that are blocked, and are as good as q */
};

/*
 * Look at the totals anew and make rows. began_ns: CLOCK_MONOTONIC when the program began. 0 or
 * -ENOMEM.
 */
int top_refresh(struct top *top, const struct top_wish *wish, uint64_t began_ns);

/* The same totals in other rows. 0 or -ENOMEM. */
int top_arrange(struct top *top, const struct top_wish *wish);

/* Sites that had no name at the last look; at most n. Returns how many. */
size_t top_unnamed(const struct top *top, uint32_t *sites, size_t n);

/*
 * A site's name, which may take seconds; allocated, NULL without memory. Beside all other functions
 * but top_frame(); then hand it over.
 */
char *top_find_name(struct top *top, uint32_t site);
void top_set_name(struct top *top, uint32_t site, char *name);

/* Cells of a row, up to the name, as wide as the head. */
#define TOP_CELLS_BYTES 192u
void top_write_cells(const struct top_row *row, char cells[static TOP_CELLS_BYTES]);
/* ret_at and ret_width (may be NULL): where the column that rows are sorted by stands in it. */
void top_write_head(enum top_sort sort, char head[static TOP_CELLS_BYTES], int *ret_at,
		    int *ret_width);

/* The line above the table: what holds for everything. */
#define TOP_LINE_BYTES 512u
void top_write_now(const struct top_now *now, char line[static TOP_LINE_BYTES]);

/* Frame i of a site's stack, "function file:line"; NULL: there is none. The top's. */
const char *top_frame(struct top *top, uint32_t site, size_t i);

/* How many frames of a site there are, whatever its memory says. */
static inline uint32_t top_count_frames(const struct live_site *site)
{
	uint32_t n = atomic_load_explicit(&site->n_frames, memory_order_acquire);

	return n < LIVE_FRAMES ? n : LIVE_FRAMES;
}

/* ---- top-names.c ---- */

/* 0 or -ENOMEM. End with top_names_destroy() (accepts NULL, returns NULL). */
int top_names_create(struct top_names **ret_names);
struct top_names *top_names_destroy(struct top_names *names);

/*
 * The name of a site, by the program's first calls ("f a.c:1 › push_back < g a.c:2"). Allocated;
 * NULL without memory.
 */
char *top_names_site(struct top_names *names, const struct live_site *site);

/* The functions at a return address of a process, "f a.c:1", the innermost inlined one first. */
char *top_names_frame(struct top_names *names, const struct live_site *site, size_t i);

/* ---- top-screen.c ---- */

struct top_session; /* session.h */

/* Whether there is one: built with ncurses, and TERM names it. */
bool top_has_screen(void);

/* Show it in the terminal until somebody quits. Returns an exit status. */
int top_screen(struct top *top, struct top_session *session, const struct top_wish *wish);
