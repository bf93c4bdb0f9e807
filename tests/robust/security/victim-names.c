/* Names that would command a terminal, were they printed as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "memsight.h"

#define ESCAPE                                                                                     \
	"\033[31m\033]0;title\007\tx\ny\r\x7f\xc2\x9b"                                             \
	"2J"

int main(void)
{
	char *block;

	prctl(PR_SET_NAME, "e\033[31mil\n");
	memsight_region_push("region" ESCAPE);
	block = malloc(5000);
	memset(block, 1, 5000);
	memsight_name_range(block, 5000, "object" ESCAPE);
	memsight_mark("mark" ESCAPE);
	memsight_region_pop("region" ESCAPE);
	return block == NULL;
}
