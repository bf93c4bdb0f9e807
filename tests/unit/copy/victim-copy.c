/*
 * Allocates 100 blocks of 100 bytes and, by its library, 50 of 50; prints its name and words, and
 * ends with the number in its first word, or by the signal in its second.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void from_library(void);
char table[32 << 20]; /* zeroed memory behind what the file holds */

__attribute__((constructor)) static void begin(void)
{
	free(malloc(77));
}

int main(int argc, char **argv)
{
	char line[512] = "";

	table[sizeof(table) - 1] = (char)argc;
	for (int i = 0; i < 100; i++)
		free(malloc(100));
	from_library();
	for (int i = 0; i < argc && strlen(line) < 300; i++) {
		strcat(line, argv[i]);
		strcat(line, i + 1 < argc ? " " : "\n");
	}
	(void)!write(STDOUT_FILENO, line, strlen(line));
	if (argc > 2)
		raise(atoi(argv[2]));
	return argc > 1 ? atoi(argv[1]) : 0;
}
