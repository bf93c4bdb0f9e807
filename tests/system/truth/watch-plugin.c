/* A library that is loaded late, with a variable and a function that stores to it. */
#include <stdint.h>

uint64_t plugin_counter;

void store_plugin(unsigned n);

void store_plugin(unsigned n)
{
	for (uint64_t i = 0; i < n; i++)
		__asm__ volatile("movq %1, %0" : "=m"(plugin_counter) : "r"(i));
}
