#include "view/server/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "view/server/feed.h"
#include "view/server/page-files.h"
#include "view/server/page.h"
#include "view/server/pool.h"

#define MAX_CONNECTIONS	  1000u
#define CONNECTION_BYTES  (16u << 10) /* of a request's head */
#define IDLE_SECONDS	  30u /* a browser connects ahead, and may ask much later */
#define OTHER_DESCRIPTORS 64u /* of this program */

struct view_server {
	struct MHD_Daemon *daemon;
	struct view_feed *feed; /* NULL: only databases are shown */
	_Atomic(struct view_pool *) pools[VIEW_SERVER_PARTS]; /* NULL: there is none yet */
	int socket; /* until the daemon has it */
	uint16_t port;
	char token[VIEW_TOKEN_LETTERS + 1];
	char address[VIEW_ADDRESS_BYTES];
};

/* One request, from its first line until its answer is sent. */
struct exchange {
	struct view_job job; /* first: what the pool gives back */
	struct view_server *server;
	struct MHD_Connection *connection;
	struct view_request request;
	struct view_pool *pool; /* that was asked; NULL: none, or the feed */
	bool is_begun; /* its head was seen */
	bool is_asked; /* the pool has it, or had it */
	char target[]; /* as it was sent */
};

/* ---- Answers ---- */

/* All answers: nothing is kept, nothing is shown elsewhere. */
static const struct {
	const char *name;
	const char *value;
} headers[] = {
	{ "Cache-Control", "no-store" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "X-Frame-Options", "DENY" },
};

#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'%s%s%s; style-src 'self'; img-src 'self' data:;"     \
	" connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* Whether there was memory for all of them. nonce: of the page's scripts; NULL: there are none. */
static bool add_headers(struct MHD_Response *response, unsigned status, const char *type,
			const char *nonce)
{
	char policy[sizeof(POLICY) + VIEW_NONCE_LETTERS + 16];

	snprintf(policy, sizeof(policy), POLICY, nonce ? " 'nonce-" : "", nonce ? nonce : "",
		 nonce ? "'" : "");
	bool are_all = MHD_add_response_header(response, "Content-Security-Policy", policy) &&
		       MHD_add_response_header(response, "Content-Type", type);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]) && are_all; i++)
		are_all = MHD_add_response_header(response, headers[i].name, headers[i].value);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED && are_all)
		are_all = MHD_add_response_header(response, "Allow", "GET, HEAD");
	return are_all;
}

/* Give an answer, unless it is NULL or its headers are not whole, and forget it. */
static bool try_response(struct MHD_Connection *connection, unsigned status,
			 struct MHD_Response *response, const char *type, const char *nonce)
{
	bool is_given = response && add_headers(response, status, type, nonce) &&
			MHD_queue_response(connection, status, response);

	if (response)
		MHD_destroy_response(response);
	return is_given;
}

/*
 * The same; instead of one that there is no memory for, say so. MHD_NO ends the connection without
 * an answer.
 */
static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned status,
				     struct MHD_Response *response, const char *type,
				     const char *nonce)
{
	static const char no_memory[] = "{\"error\":\"the server has no memory for the answer\"}";

	return try_response(connection, status, response, type, nonce) ||
			       try_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
					    MHD_create_response_from_buffer(sizeof(no_memory) - 1,
									    (void *)no_memory,
									    MHD_RESPMEM_PERSISTENT),
					    "application/json", NULL)
		       ? MHD_YES
		       : MHD_NO;
}

/* A response of a text, which is freed; NULL without memory, or of NULL. */
static struct MHD_Response *make_response(char *text, size_t n_bytes)
{
	struct MHD_Response *response =
		text ? MHD_create_response_from_buffer(n_bytes, text, MHD_RESPMEM_MUST_FREE) : NULL;

	if (!response)
		free(text);
	return response;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
			      const char *message)
{
	size_t n = 0;
	char *text = view_error_text(message, &n);

	return send_response(connection, status, make_response(text, n), "application/json", NULL);
}

static enum MHD_Result send_page(struct MHD_Connection *connection, bool is_live)
{
	char nonce[VIEW_NONCE_LETTERS + 1];
	char *text = NULL;
	size_t n = 0;

	if (view_random_hex(nonce, VIEW_NONCE_LETTERS) < 0 ||
	    view_page_make(nonce, is_live, &text, &n) < 0)
		return refuse(connection, 500, "the page cannot be made: out of memory");
	return send_response(connection, MHD_HTTP_OK, make_response(text, n),
			     "text/html; charset=utf-8", nonce);
}

static enum MHD_Result send_file(struct MHD_Connection *connection, const char *name)
{
	const struct view_file *file = view_file_find(name);

	if (!file)
		return refuse(connection, 404, "the page has no such file");
	return send_response(connection, MHD_HTTP_OK,
			     MHD_create_response_from_buffer(file->n_bytes, (void *)file->bytes,
							     MHD_RESPMEM_PERSISTENT),
			     file->type, NULL);
}

/* ---- Answers of the pool ---- */

struct sent {
	struct view_pool *pool; /* NULL: it does not count */
	char *text;
	size_t n_bytes;
};

static void free_sent(void *user)
{
	struct sent *sent = user;

	if (sent->pool)
		view_pool_sent(sent->pool, sent->n_bytes);
	free(sent->text);
	free(sent);
}

static void job_is_done(struct view_job *job)
{
	MHD_resume_connection(((struct exchange *)job)->connection);
}

static void drop_answer(struct exchange *exchange)
{
	if (exchange->job.n_bytes && exchange->pool)
		view_pool_sent(exchange->pool, exchange->job.n_bytes);
	free(exchange->job.text);
	exchange->job.text = NULL;
	exchange->job.n_bytes = 0;
}

static enum MHD_Result send_answer(struct exchange *exchange)
{
	struct view_job *job = &exchange->job;
	struct sent *sent = job->text ? malloc(sizeof(*sent)) : NULL;

	if (!sent) {
		drop_answer(exchange);
		return refuse(exchange->connection, 503, "the server has no memory for the answer");
	}
	*sent = (struct sent){ exchange->pool, job->text, job->n_bytes };
	job->text = NULL;
	job->n_bytes = 0;
	struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
		sent->n_bytes, sent->text, free_sent, sent);
	if (!response)
		free_sent(sent);
	return send_response(exchange->connection, job->status, response, "application/json", NULL);
}

/* Have it answered by a thread of the pool, or of the feed. */
static enum MHD_Result ask(struct exchange *exchange)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	exchange->is_asked = true;
	exchange->job.answer = exchange->request.answer;
	exchange->job.values = &exchange->request.values;
	exchange->job.client = info ? info->connect_fd : -1;
	exchange->job.done = job_is_done;
	MHD_suspend_connection(exchange->connection);
	if (exchange->pool)
		view_pool_add(exchange->pool, &exchange->job);
	else
		view_feed_add(exchange->server->feed, &exchange->job);
	return MHD_YES;
}

/* ---- Requests ---- */

/* Before anything is parsed: the target as the client sent it. */
static void *begin_exchange(void *user, const char *target, struct MHD_Connection *connection)
{
	size_t n = strnlen(target, VIEW_TARGET_BYTES) + 1;
	struct exchange *exchange = calloc(1, sizeof(*exchange) + n);

	if (!exchange)
		return NULL;
	exchange->server = user;
	exchange->connection = connection;
	memcpy(exchange->target, target, n - 1);
	return exchange;
}

static void end_exchange(void *user, struct MHD_Connection *connection, void **exchange,
			 enum MHD_RequestTerminationCode code)
{
	(void)user;
	(void)connection;
	(void)code;
	if (!*exchange)
		return;
	drop_answer(*exchange);
	free(*exchange);
	*exchange = NULL;
}

/* ---- A run that is being recorded ---- */

static enum MHD_Result listen_to_feed(struct exchange *exchange)
{
	struct MHD_Response *response =
		view_feed_listen(exchange->server->feed, exchange->connection);

	if (!response)
		return refuse(exchange->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			      "too many pages look at this run: close one");
	return send_response(exchange->connection, MHD_HTTP_OK, response, "text/event-stream",
			     NULL);
}

static enum MHD_Result ask_feed(struct exchange *exchange)
{
	if (exchange->request.answer == VIEW_LIVE)
		return listen_to_feed(exchange);
	if (view_feed_has(exchange->request.answer))
		return ask(exchange);
	return refuse(exchange->connection, MHD_HTTP_NOT_FOUND,
		      "the run is being recorded: this is known when it has ended");
}

static bool is_readable(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static enum MHD_Result answer_target(struct exchange *exchange)
{
	struct view_server *server = exchange->server;
	const struct view_request *request = &exchange->request;
	bool is_live = server->feed && request->part == 0;

	if (request->target == VIEW_FILE)
		return send_file(exchange->connection, request->file);
	if (request->part < VIEW_SERVER_PARTS)
		exchange->pool = atomic_load(&server->pools[request->part]);
	if (request->target == VIEW_PAGE && (exchange->pool || is_live))
		return send_page(exchange->connection, !exchange->pool);
	/* Who still listens when the database is there learns of that. */
	if (is_live && (request->answer == VIEW_LIVE || !exchange->pool)) {
		exchange->pool = NULL;
		return ask_feed(exchange);
	}
	return exchange->pool
		       ? ask(exchange)
		       : refuse(exchange->connection, MHD_HTTP_NOT_FOUND,
				"there is no such page, or its trace is still being analysed");
}

static enum MHD_Result answer_request(struct exchange *exchange, const char *method)
{
	struct MHD_Connection *connection = exchange->connection;
	const struct view_server *server = exchange->server;
	struct view_request *request = &exchange->request;
	const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");

	if (!view_host_is_ours(host, server->port))
		return refuse(
			connection, MHD_HTTP_FORBIDDEN,
			"ask for 127.0.0.1 or localhost, with the port that memsight view printed");
	unsigned status = view_request_parse(exchange->target, server->token, request);
	bool is_order = status == 200 && request->target == VIEW_API &&
			request->answer == VIEW_CONTROL && server->feed;
	if (is_order && strcmp(method, "POST") != 0)
		return refuse(connection, MHD_HTTP_NOT_FOUND, "orders are sent by POST");
	if (!is_order && !is_readable(method))
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
	if (status != 200)
		return refuse(connection, status, request->message);
	return answer_target(exchange);
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **exchange)
{
	(void)user;
	(void)url;
	(void)version;
	(void)upload;
	bool has_body = *upload_bytes > 0; /* nobody asked for one */
	*upload_bytes = 0;
	if (!*exchange)
		return refuse(connection, 503, "the server has no memory for the request");
	struct exchange *request = *exchange;
	if (request->is_asked)
		return send_answer(request);
	/* Whoever is answered before the request's end loses the connection. */
	bool is_first = !request->is_begun;
	request->is_begun = true;
	bool waits = is_first ? is_readable(method) || strcmp(method, "POST") == 0 : has_body;
	return waits ? MHD_YES : answer_request(request, method);
}

/* ---- Begin and end ---- */

static int listen_at(struct view_server *server, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	socklen_t n_bytes = sizeof(address);
	const int one = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->socket < 0)
		return -errno;
	setsockopt(server->socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(server->socket, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(server->socket, SOMAXCONN) < 0 ||
	    getsockname(server->socket, (struct sockaddr *)&address, &n_bytes) < 0)
		return -errno;
	server->port = ntohs(address.sin_port);
	snprintf(server->address, sizeof(server->address), "http://127.0.0.1:%u/%s/", server->port,
		 server->token);
	return 0;
}

/* How many connections there is room for. */
static unsigned connection_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return MAX_CONNECTIONS / 4;
	rlim_t wanted = MAX_CONNECTIONS + OTHER_DESCRIPTORS;
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= wanted)
		return MAX_CONNECTIONS;
	return limit.rlim_cur > 2 * OTHER_DESCRIPTORS ? (unsigned)limit.rlim_cur - OTHER_DESCRIPTORS
						      : OTHER_DESCRIPTORS;
}

static int start_daemon(struct view_server *server)
{
	server->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle,
		server, MHD_OPTION_LISTEN_SOCKET, server->socket, MHD_OPTION_URI_LOG_CALLBACK,
		begin_exchange, server, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, NULL,
		MHD_OPTION_CONNECTION_LIMIT, connection_limit(), MHD_OPTION_CONNECTION_TIMEOUT,
		IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_END);
	if (!server->daemon)
		return errno ? -errno : -EIO;
	server->socket = -1;
	return 0;
}

static int start(struct view_server *server, const struct view_shown *shown, uint16_t port,
		 int *ret_is_socket)
{
	int r = view_random_hex(server->token, VIEW_TOKEN_LETTERS);

	*ret_is_socket = 1;
	r = r ?: listen_at(server, port);
	if (r < 0)
		return r;
	*ret_is_socket = 0;
	r = shown->live ? view_feed_start(shown->live, &server->feed)
			: view_server_show(server, 0, shown->files);
	if (r < 0)
		return r;
	*ret_is_socket = 1;
	return start_daemon(server);
}

int view_server_start(const struct view_shown *shown, uint16_t port,
		      struct view_server **ret_server, int *ret_is_socket)
{
	struct view_server *server = calloc(1, sizeof(*server));
	sigset_t all, before;

	*ret_is_socket = 0;
	if (!server)
		return -ENOMEM;
	server->socket = -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = start(server, shown, port, ret_is_socket);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		view_server_stop(server);
	else
		*ret_server = server;
	return r;
}

int view_server_show(struct view_server *server, unsigned part, const struct view_files *files)
{
	struct view_pool *pool = NULL;
	sigset_t all, before;

	if (part >= VIEW_SERVER_PARTS || atomic_load(&server->pools[part]))
		return -EEXIST;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = view_pool_start(files, &pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0)
		atomic_store(&server->pools[part], pool);
	return r;
}

const char *view_server_address(const struct view_server *server)
{
	return server->address;
}

uint16_t view_server_port(const struct view_server *server)
{
	return server->port;
}

struct view_server *view_server_stop(struct view_server *server)
{
	if (!server)
		return NULL;
	if (server->daemon)
		server->socket = MHD_quiesce_daemon(server->daemon);
	/* Who waits is resumed: the daemon insists on that. */
	for (unsigned i = 0; i < VIEW_SERVER_PARTS; i++)
		if (atomic_load(&server->pools[i]))
			view_pool_end(atomic_load(&server->pools[i]));
	if (server->feed)
		view_feed_end(server->feed);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	for (unsigned i = 0; i < VIEW_SERVER_PARTS; i++)
		view_pool_free(atomic_load(&server->pools[i]));
	view_feed_free(server->feed);
	if (server->socket >= 0)
		close(server->socket);
	free(server);
	return NULL;
}
