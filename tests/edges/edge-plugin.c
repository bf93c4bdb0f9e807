/* A library to be opened. */
#include <stdlib.h>

void *allocate_in_plugin(void);

void *allocate_in_plugin(void)
{
	return malloc(1906);
}
