#include "runner/host/avail.h"

#include "runner/host/avail-internal.h"

int avail_give(const struct avail *avail, const struct avail_item *item)
{
	return avail->sink(avail->user, item);
}

int avail_look(avail_sink sink, void *user)
{
	static int (*const sections[])(const struct avail *) = {
		avail_sources, avail_events, avail_counters,
		avail_kinds,   avail_nodes,  avail_privileges,
	};
	struct avail avail = { sink, user };
	int err = 0;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && err == 0; i++)
		err = sections[i](&avail);
	return err;
}
