#pragma once
/*
 * What the page of `memsight view --live` shows (schemas/view.def: live, curve, control): a
 * recording that is under way, seen as `memsight top` sees it.
 */
#include <limits.h>

#include "view/server/server.h"

struct live_page;

/*
 * Find a recording of this user by its trace or by the number of a process. Says what is wrong and
 * returns an exit status; end with live_page_close() (accepts NULL, returns NULL).
 */
int live_page_open(const char *what, struct live_page **ret_page);
struct live_page *live_page_close(struct live_page *page);

/* For the server; the page's. */
const struct view_live *live_page_source(const struct live_page *page);

/* A trace that is to be analysed and shown: number 0 is the run, which has ended. */
struct live_order {
	unsigned part; /* of view_server_show() */
	char trace[PATH_MAX];
};

/* What is to be done next; false: nothing yet. From the thread that does it. */
bool live_page_next(struct live_page *page, struct live_order *ret_order);

/* It is shown, or (the reason was said) cannot be. */
void live_page_done(struct live_page *page, unsigned part, bool is_shown);
