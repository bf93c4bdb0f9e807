/*
 * Blocks that are born and freed in one pause: 100 with a pause inside of it between their birth
 * and their free, 100 whose realloc failed meanwhile. None of their frees is that of a recorded
 * block.
 */
#include <stdint.h>
#include <stdlib.h>

#include "include/memsight.h"

int main(void)
{
	void *blocks[100];

	memsight_pause();
	for (int i = 0; i < 100; i++)
		blocks[i] = malloc(64);
	memsight_pause();
	memsight_resume();
	for (int i = 0; i < 100; i++)
		free(blocks[i]);
	for (int i = 0; i < 100; i++) {
		void *block = malloc(64);

		if (realloc(block, SIZE_MAX / 2))
			return 1;
		free(block);
	}
	memsight_resume();
	return 0;
}
