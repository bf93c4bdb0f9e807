#pragma once
/*
 * The local server of the page: HTTP on 127.0.0.1 only, GET and HEAD only, and nothing without the
 * secret that is part of the address. What it needs is bounded, whatever clients do or leave
 * undone.
 */
#include <stdint.h>

#include "view/context.h"

#define VIEW_ADDRESS_BYTES 80u

struct view_server;

/*
 * Serve a database at a port (0: one that is free). Its threads block all signals. Returns 0; as
 * view_context_open() for the database with *ret_is_socket false; an errno of socket, bind or
 * listen with *ret_is_socket true; -ENOSYS: built without libmicrohttpd.
 */
int view_server_start(const struct view_files *files, uint16_t port,
		      struct view_server **ret_server, int *ret_is_socket);

/* "http://127.0.0.1:PORT/SECRET/" */
const char *view_server_address(const struct view_server *server);
uint16_t view_server_port(const struct view_server *server);

/* End all connections and threads. Accepts NULL, returns NULL. */
struct view_server *view_server_stop(struct view_server *server);
