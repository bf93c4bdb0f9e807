/* A library that allocates in a function of its own; built twice, with PLUGIN_SIZE told apart. */
#include <stdlib.h>

void *plugin_allocate(void);

__attribute__((noinline)) static void *PLUGIN_FUNCTION(void)
{
	void *block = malloc(PLUGIN_SIZE);

	__asm__ volatile("" : "+r"(block)); /* no tail call */
	return block;
}

void *plugin_allocate(void)
{
	return PLUGIN_FUNCTION();
}
