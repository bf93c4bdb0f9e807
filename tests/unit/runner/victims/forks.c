/* expect: DEPTH levels of forks; level i makes 10 * (i + 1) allocations of 64 bytes
 * and ends with status i. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(int n)
{
	for (int i = 0; i < n; i++)
		free(malloc(64));
}

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 3;

	for (int level = 0; level < depth; level++) {
		pid_t pid;

		allocate(10 * (level + 1));
		pid = level < depth - 1 ? fork() : 1;
		if (pid > 0) {
			while (wait(NULL) > 0)
				continue;
			return level;
		}
	}
	return 0;
}
