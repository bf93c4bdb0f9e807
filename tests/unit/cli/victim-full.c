/*
 * More events than a small disk takes: blocks of 100 bytes, each freed at once, but of each
 * thousandth, which has 200 bytes and stays; at the end 100 blocks of 5000 bytes, which stay too.
 * Argument: how many thousands.
 */
#include <stdlib.h>

static void *volatile kept;

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < n; i++) {
		for (int k = 0; k < 999; k++) {
			kept = malloc(100);
			free(kept);
		}
		kept = malloc(200);
	}
	for (int i = 0; i < 100; i++)
		kept = malloc(5000);
	return 0;
}
