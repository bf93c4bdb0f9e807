/* A library to be opened in unusual ways. */
#include <stdlib.h>

void *allocate_in_plugin(void);
void free_in_plugin(void *block);

void *allocate_in_plugin(void)
{
	return malloc(1906);
}

void free_in_plugin(void *block)
{
	free(block);
}
