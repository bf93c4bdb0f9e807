#pragma once
/*
 * Shared by watches.c, arming.c and rate.c: one target and the debug registers that watch it,
 * from when to when. What happens is a WATCH record in the trace.
 */
#include "runner/watch/watch.h"

/* What a target turned out to be. */
struct watch_found {
	const struct image *image;
	uint64_t address;
	uint64_t n_bytes; /* of the object; 0: not known */
	uint64_t object; /* see struct watch_item */
	uint64_t born_ticks;
};

/*
 * Watch what was found, unless the item is over. While it is armed another thing of its name is
 * only counted; what cannot be watched is refused.
 */
void watches_arm(struct watches *watches, struct watch_item *item, const struct watch_found *found);

/* End an item that is armed: its registers are free. */
void watches_end_item(struct watches *watches, struct watch_item *item, uint64_t ticks);

/* Let an armed item rest, and watch on (if that fails it rests on). */
void watches_pause(struct watches *watches, struct watch_item *item);
void watches_resume(struct watches *watches, struct watch_item *item);

/* What was asked for cannot be had, and will not be tried again; told once. */
void watches_refuse(struct watches *watches, struct watch_item *item, const char *why);
