#include "analyze/symbols/debuginfod.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_DEBUGINFOD
#define LIBRARY	    "libdebuginfod.so.1"
#define PATIENCE_NS INT64_C(20000000000) /* without an answer, or without a byte */

/* As in elfutils/debuginfod.h. */
typedef int (*progress_function)(debuginfod_client *client, long n_bytes, long n_all_bytes);
typedef void (*set_progress_function)(debuginfod_client *client, progress_function progress);
typedef void (*set_user_function)(debuginfod_client *client, void *user);
typedef void *(*get_user_function)(debuginfod_client *client);
typedef int (*find_function)(debuginfod_client *client, const unsigned char *build_id,
			     int build_id_bytes, char **ret_path);

/* A function of the library, which libdw has loaded if it has a client at all. */
static void *function_of(const char *name)
{
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL); /* and stays */

	return library ? dlsym(library, name) : NULL;
}

/* ISO C has no cast from an object's address to a function's. */
#define LOAD(variable, name)                                                                       \
	do {                                                                                       \
		void *symbol_ = function_of(name);                                                 \
		memcpy(&(variable), &symbol_, sizeof(variable));                                   \
	} while (0)

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Called a few times in a second while a server is waited for; other than 0 ends it. */
static int on_progress(debuginfod_client *client, long n_bytes, long n_all_bytes)
{
	get_user_function get_user;
	LOAD(get_user, "debuginfod_get_user_data");
	struct debug_server *server = get_user ? get_user(client) : NULL;

	if (!server || server->has_given_up)
		return 1;
	/* Before a server has answered, n_bytes only counts how often it was looked. */
	if (n_all_bytes > 0 && n_bytes != server->n_bytes)
		server->began_ns = now_ns();
	server->n_bytes = n_bytes;
	if (now_ns() - server->began_ns > PATIENCE_NS)
		server->has_given_up = true;
	if (server->places->fetching && n_all_bytes > 0)
		server->places->fetching(server->places->context, server->path, n_bytes,
					 n_all_bytes);
	return server->has_given_up;
}

static debuginfod_client *client_of(struct debug_server *server, Dwfl *dwfl)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	debuginfod_client *client = urls && *urls && dwfl ? dwfl_get_debuginfod_client(dwfl) : NULL;
	set_progress_function set_progress;
	set_user_function set_user;

	if (!client)
		return NULL;
	LOAD(set_progress, "debuginfod_set_progressfn");
	LOAD(set_user, "debuginfod_set_user_data");
	if (!set_progress || !set_user)
		return NULL;
	set_user(client, server);
	set_progress(client, on_progress);
	return client;
}

void debug_server_expect(struct debug_server *server, Dwfl *dwfl, const char *path)
{
	server->path = path;
	server->n_bytes = 0;
	server->began_ns = now_ns();
	client_of(server, dwfl);
}

int debug_server_fetch(struct debug_server *server, Dwfl *dwfl, const char *build_id,
		       char **ret_path)
{
	debuginfod_client *client = server->has_given_up ? NULL : client_of(server, dwfl);
	find_function find;

	if (!client)
		return -1;
	LOAD(find, "debuginfod_find_executable");
	return find ? find(client, (const unsigned char *)build_id, 0, ret_path) : -1;
}
#else
void debug_server_expect(struct debug_server *server, Dwfl *dwfl, const char *path)
{
	(void)dwfl;
	server->path = path;
}

int debug_server_fetch(struct debug_server *server, Dwfl *dwfl, const char *build_id,
		       char **ret_path)
{
	(void)server;
	(void)dwfl;
	(void)build_id;
	(void)ret_path;
	return -1;
}
#endif

void debug_server_init(struct debug_server *server, const struct symbol_places *places)
{
	*server = (struct debug_server){ .places = places };
}
