#pragma once
/*
 * A feed that reads and decodes ahead of who takes its items, in a thread of its own, by a bounded
 * number of bytes. Until everything was read, what it says of damage is what was known when it was
 * opened.
 */
#include "analyze/input/input.h"

/*
 * Put the reader in front of a feed that was opened and not read yet: *feed is the new one then,
 * and closes both. Returns 0, or a negative errno with the feed as it was.
 */
int feed_ahead(struct feed *feed);
