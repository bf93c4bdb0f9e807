/*
 * What libc keeps for itself until the end, and with an argument one leak of the program's own
 * beside it.
 */
#include <libintl.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *wait_forever(void *unused)
{
	pause();
	return unused;
}

static void *volatile taken;

/* Needs neither a network nor a server. */
static struct addrinfo *look_up(void)
{
	const struct addrinfo hints = { .ai_flags = AI_CANONNAME };
	struct addrinfo *found = NULL;

	return getaddrinfo("localhost", NULL, &hints, &found) == 0 ? found : NULL;
}

static void leak(const char *what)
{
	FILE *file = NULL;

	if (strcmp(what, "file") == 0 && (file = fopen("/dev/null", "w")))
		fputs("x", file);
	else if (strcmp(what, "setvbuf") == 0)
		setvbuf(stdout, malloc(5000), _IOFBF, 5000);
	else if (strcmp(what, "strdup") == 0)
		taken = strdup("of the program");
	else if (strcmp(what, "getaddrinfo") == 0)
		taken = look_up();
	else if (strcmp(what, "newlocale") == 0)
		taken = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
}

int main(int argc, char **argv)
{
	char line[80] = "";
	pthread_t thread;
	time_t now = time(NULL);

	setlocale(LC_ALL, "C.UTF-8");
	pthread_create(&thread, NULL, wait_forever, NULL);
	getpwuid(0);
	freeaddrinfo(look_up());
	localtime(&now);
	setenv("OF_VICTIM_KEPT", "1", 1);
	taken = gettext("nothing translates this");
	if (argc > 1)
		leak(argv[1]);
	if (!fgets(line, sizeof(line), stdin))
		puts("no line");
	taken = NULL;
	puts(line);
	return 0;
}
