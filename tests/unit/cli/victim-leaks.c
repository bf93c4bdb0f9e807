/* Leaks as many blocks as its argument says; "kill": it kills itself, "exit": it fails. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 1000

static void *volatile last;

__attribute__((noinline)) static void leak_one(void)
{
	last = malloc(BLOCK);
	last = NULL;
}

int main(int n_arguments, char **arguments)
{
	const char *what = n_arguments > 1 ? arguments[1] : "0";

	puts("done");
	last = malloc(BLOCK);
	free(last);
	for (int i = 0; i < atoi(what); i++)
		leak_one();
	if (strcmp(what, "kill") == 0)
		raise(SIGKILL);
	return strcmp(what, "exit") == 0 ? 3 : 0;
}
