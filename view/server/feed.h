#pragma once
/*
 * A run that is being recorded, for the server: one thread looks at it twice a second and hands
 * what it sees to all who listen (server-sent events); another answers what is asked of it. Who
 * reads slowly gets the newest look and none in between, so that a listener costs one text at most.
 */
#include <microhttpd.h>

#include "view/server/pool.h"
#include "view/server/server.h"

#define VIEW_FEED_LISTENERS 64u

struct view_feed;

/* Start both threads. 0 or a negative errno. */
int view_feed_start(const struct view_live *live, struct view_feed **ret_feed);

/* Whether it, and no database, is asked for an answer. */
bool view_feed_has(enum view_answer answer);

/* As view_pool_add(). */
void view_feed_add(struct view_feed *feed, struct view_job *job);

/*
 * A response that goes on for as long as somebody reads it: the newest look, and each that follows.
 * NULL: there are VIEW_FEED_LISTENERS already, or no memory. From the daemon's thread.
 */
struct MHD_Response *view_feed_listen(struct view_feed *feed, struct MHD_Connection *connection);

/*
 * End the threads, finish all jobs (499) and wake all listeners, whose responses then end. The feed
 * must stay until they have.
 */
void view_feed_end(struct view_feed *feed);

/* Accepts NULL, returns NULL. */
struct view_feed *view_feed_free(struct view_feed *feed);
