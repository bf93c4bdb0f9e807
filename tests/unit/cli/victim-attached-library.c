/* Opened by victim-attached while memsight is attached to it. */
#include <stdlib.h>

void make_blocks(int n);

void make_blocks(int n)
{
	for (int i = 0; i < n; i++)
		free(malloc(5432));
}
