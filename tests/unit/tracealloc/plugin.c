/* Loaded by victim-module. */
#include <stdlib.h>

__attribute__((noinline)) void *plugin_make(void);

void *plugin_make(void)
{
	void *block = malloc(3001);

	__asm__ volatile("" : : : "memory");
	return block;
}
