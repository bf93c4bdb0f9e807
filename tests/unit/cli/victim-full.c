/*
 * Does what it reads, and answers each line with one: "churn N SIZE" makes N thousand blocks of
 * SIZE bytes, each freed at once but each thousandth, which has 200 bytes and stays; "keep N" makes
 * N blocks of 300 to 1299 bytes that stay. At the end 100 blocks of 5000 bytes, which stay too.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept;

static void churn(int n, size_t size)
{
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < 999; k++) {
			kept = malloc(size);
			free(kept);
		}
		kept = malloc(200);
	}
}

/* Without stdio, which has blocks of its own. */
static bool read_line(char *line, size_t size)
{
	size_t n = 0;

	while (n < size - 1 && read(0, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	return n > 0;
}

int main(void)
{
	char line[64];
	size_t size;
	int n;

	while (read_line(line, sizeof(line))) {
		if (sscanf(line, "churn %d %zu", &n, &size) == 2)
			churn(n, size);
		else if (sscanf(line, "keep %d", &n) == 1)
			for (int i = 0; i < n; i++)
				kept = malloc(300 + (unsigned)rand() % 1000);
		if (write(1, "done\n", 5) != 5)
			return 1;
	}
	for (int i = 0; i < 100; i++)
		kept = malloc(5000);
	return 0;
}
