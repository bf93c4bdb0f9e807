/*
 * expect: COUNT allocations of 64 bytes (default 100), all freed; ends as told. With a third
 * argument it says "ready" in a file when it is attached, and waits until one of that name appears.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end(const char *how)
{
	if (strcmp(how, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "_exit") == 0)
		_exit(5);
	if (strcmp(how, "wait") == 0)
		pause();
	exit(atoi(how));
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 100;

	if (argc > 3) {
		free(malloc(1));
		close(creat("ready", 0600));
	}
	while (argc > 3 && access(argv[3], F_OK) < 0)
		usleep(1000);
	for (int i = 0; i < n; i++)
		free(malloc(64)); /* built with -fno-builtin, or the compiler removes the pair */
	if (argc > 2)
		end(argv[2]);
	return 0;
}
