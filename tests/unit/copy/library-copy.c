#include <stdlib.h>

void from_library(void);

void from_library(void)
{
	for (int i = 0; i < 50; i++)
		free(malloc(50));
}
