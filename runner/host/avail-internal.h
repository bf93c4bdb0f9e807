#pragma once
/* The sections of avail_look(). Each returns 0 or the sink's negative result. */
#include "runner/host/avail.h"

/* Where things go. */
struct avail {
	avail_sink sink;
	void *user;
};

int avail_give(const struct avail *avail, const struct avail_item *item);

int avail_sources(const struct avail *avail);
int avail_events(const struct avail *avail);
int avail_counters(const struct avail *avail);
int avail_kinds(const struct avail *avail);
int avail_nodes(const struct avail *avail);
int avail_privileges(const struct avail *avail);
