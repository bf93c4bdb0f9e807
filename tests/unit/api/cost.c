/*
 * Functions that call memsight.h and do nothing else: what is there of it in a program, see
 * cost.py.
 */
#include "include/memsight.h"

void cost_push(void);
void cost_push_pop(void);
void cost_pause(void);
void cost_block(const void *pointer, size_t size);

void cost_push(void)
{
	memsight_region_push("region");
}

void cost_push_pop(void)
{
	memsight_region_push("region");
	memsight_region_pop("region");
}

void cost_pause(void)
{
	memsight_pause();
}

void cost_block(const void *pointer, size_t size)
{
	memsight_block(pointer, size, pointer);
}

int main(void)
{
	static int memory[4];

	cost_block(memory, sizeof(memory));
	cost_push();
	cost_push_pop();
	cost_pause();
	return 0;
}
