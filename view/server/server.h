#pragma once
/*
 * The local server of the page: HTTP on 127.0.0.1 only, GET and HEAD only (POST to control a run
 * that is being recorded), and nothing without the secret that is part of the address. What it
 * needs is bounded, whatever clients do or leave undone.
 */
#include <stdint.h>

#include "view/context.h"

#define VIEW_ADDRESS_BYTES 80u
#define VIEW_SERVER_PARTS  64u /* databases, each with a page of its own */

struct view_server;
struct json;

/* What looks at a run that is being recorded, from two threads of the server, at the same time. */
struct view_live {
	/*
	 * Look, and write what an event of the answer "live" is, unless json is NULL: nobody
	 * listens. Returns 0; 1: nothing will change any more; or -ENOMEM.
	 */
	int (*look)(void *user, struct json *json);
	/*
	 * Answer CURVE, STACK or CONTROL. Returns 0 or a negative errno, with a message or "":
	 * -EINVAL, -ENOENT, -ENOMEM, others: it cannot be done now.
	 */
	int (*answer)(void *user, enum view_answer answer, const struct view_values *values,
		      struct json *json, char message[static VIEW_MESSAGE_BYTES]);
	void *user;
};

/* What is shown at first: one of both. */
struct view_shown {
	const struct view_files *files;
	const struct view_live *live; /* copied; its user must stay until the server has stopped */
};

/*
 * Serve a database, or a run that is being recorded, at a port (0: one that is free). Its threads
 * block all signals. Returns 0; as
 * view_context_open() for the database with *ret_is_socket false; an errno of socket, bind or
 * listen with *ret_is_socket true; -ENOSYS: built without libmicrohttpd.
 */
int view_server_start(const struct view_shown *shown, uint16_t port,
		      struct view_server **ret_server, int *ret_is_socket);

/*
 * Serve a database as well, for good: number 0 in the place of the run that was recorded, others at
 * http://127.0.0.1:PORT/SECRET/NUMBER/. The files are not needed any more afterwards. From one
 * thread. Returns 0, as view_context_open(), or -EEXIST: the number is taken, or too large.
 */
int view_server_show(struct view_server *server, unsigned part, const struct view_files *files);

/* "http://127.0.0.1:PORT/SECRET/" */
const char *view_server_address(const struct view_server *server);
uint16_t view_server_port(const struct view_server *server);

/* End all connections and threads. Accepts NULL, returns NULL. */
struct view_server *view_server_stop(struct view_server *server);
