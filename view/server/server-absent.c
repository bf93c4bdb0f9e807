/* In place of server.c, where libmicrohttpd is not there. */
#include "view/server/server.h"

#include <errno.h>
#include <stddef.h>

int view_server_start(const struct view_shown *shown, uint16_t port,
		      struct view_server **ret_server, int *ret_is_socket)
{
	(void)shown;
	(void)port;
	(void)ret_server;
	*ret_is_socket = 1;
	return -ENOSYS;
}

int view_server_show(struct view_server *server, unsigned part, const struct view_files *files)
{
	(void)server;
	(void)part;
	(void)files;
	return -ENOSYS;
}

const char *view_server_address(const struct view_server *server)
{
	(void)server;
	return "";
}

uint16_t view_server_port(const struct view_server *server)
{
	(void)server;
	return 0;
}

struct view_server *view_server_stop(struct view_server *server)
{
	(void)server;
	return NULL;
}
