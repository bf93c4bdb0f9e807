#pragma once
#include "decode/block.h"
#include "decode/ways.h"

/* Fill in the window's stall, from the window as it is, and from where samples were so far. */
void decode_stall_find(const struct block_code *code, struct ways_cache *ways,
		       const struct decode_sample *sample, struct decode_window *window);
