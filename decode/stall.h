#pragma once
#include "decode/block.h"

/* Fill in the window's stall, from the window as it is. */
void decode_stall_find(const struct block_code *code, const struct decode_sample *sample,
		       struct decode_window *window);
