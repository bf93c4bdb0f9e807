/*
 * What the view's server answers when one allocation fails: each place that an answer allocates
 * from, once. It must be an error that says so or the usual answer, byte for byte, and the next
 * question must be answered as usual.
 *
 * 	fail-view STRIDE QUESTIONS DATABASE...
 *
 * QUESTIONS has one a line, NAME?PARAMETER=VALUE..., as schemas/view.def has them. With a STRIDE of
 * more than 1 only every so many-th place is tried. FAIL_ONLY names one place to try, FAIL_SHOW as
 * in fail-calls.c.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/cleanup.h"
#include "tests/robust/failures/fail-calls.h"
#include "view/answers/answers.h"
#include "view/server/server.h"

#define MAX_PLACES    16384u
#define MAX_QUESTIONS 200u
#define MAX_SHOWN     20u
#define PATIENCE_S    120

/* A text that was answered. */
struct reply {
	unsigned status; /* 0: none came */
	char *text;
	size_t n_bytes;
};

static struct {
	size_t stride;
	uint64_t only;
	char *questions[MAX_QUESTIONS];
	size_t n_questions;
	uint64_t seen[MAX_PLACES]; /* places of questions before */
	size_t n_seen;
	size_t n_tried;
	size_t n_told;
	size_t n_problems;
} test;

static void drop(struct reply *reply)
{
	free(reply->text);
	*reply = (struct reply){ 0 };
}
#define auto_reply __attribute__((cleanup(drop)))

__attribute__((format(printf, 3, 4))) static void complain(uint64_t place, const char *question,
							   const char *format, ...)
{
	va_list arguments;

	if (test.n_problems++ >= MAX_SHOWN)
		return;
	printf("%s, place %016llx: ", question, (unsigned long long)place);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

static bool is_same(const struct reply *a, const struct reply *b)
{
	return a->status == b->status && a->n_bytes == b->n_bytes &&
	       memcmp(a->text, b->text, a->n_bytes) == 0;
}

/* The places that were listed and not seen before, of which every so many-th is to be tried. */
static size_t take_places(uint64_t *places)
{
	static uint64_t listed[MAX_PLACES];
	size_t n_listed = fail_calls_listed(listed, MAX_PLACES), n = 0;

	for (size_t i = 0; i < n_listed; i++) {
		size_t at = 0;
		while (at < test.n_seen && test.seen[at] != listed[i])
			at++;
		if (at < test.n_seen || test.n_seen == MAX_PLACES)
			continue;
		test.seen[test.n_seen++] = listed[i];
		if (test.only ? test.only == listed[i] : test.n_seen % test.stride == 0)
			places[n++] = listed[i];
	}
	return n;
}

/* An answer while something failed. */
static void check_failed(uint64_t place, const char *question, const struct reply *reply,
			 const struct reply *usual)
{
	bool is_error = reply->status == 500 || reply->status == 503;

	test.n_tried++;
	test.n_told += is_error;
	if (is_error && (!reply->text || !strstr(reply->text, "{\"error\":\"")))
		complain(place, question, "status %u without an error's text: %s", reply->status,
			 reply->text ? reply->text : "nothing");
	else if (is_error && !strstr(reply->text, "memory"))
		complain(place, question, "the error does not say why: %s", reply->text);
	else if (!is_error && !is_same(reply, usual))
		complain(place, question, "another answer, and status %u, of %zu and not %zu bytes",
			 reply->status, reply->n_bytes, usual->n_bytes);
}

static void check_next(uint64_t place, const char *question, const struct reply *next,
		       const struct reply *usual)
{
	if (!is_same(next, usual))
		complain(place, question, "the next answer is another one, with status %u: %.*s",
			 next->status, 200, next->text ? next->text : "nothing");
}

/* ---- Answers ---- */

static void answer(struct view_context *context, const char *question, struct reply *ret_reply)
{
	struct view_request request;

	*ret_reply = (struct reply){ 0 };
	if (view_request_parse_api(question, &request) != 200)
		errx(2, "%s: no question", question);
	ret_reply->status = view_answer_make(context, request.answer, &request.values,
					     &ret_reply->text, &ret_reply->n_bytes);
}

static struct view_context *open_context(const char *database)
{
	const struct view_files files = { .database = database };
	struct view_context *context = NULL;
	int r = view_context_open(&files, &context);

	if (r < 0)
		errx(2, "%s: %s", database, strerror(-r));
	return context;
}

/* Returns whether the place was reached, near where it was listed or anywhere. */
static bool try_answer(const char *database, const char *question, uint64_t place, bool is_near,
		       const struct reply *usual)
{
	long n_live = fail_calls_n_live();
	struct view_context *context = open_context(database);
	struct reply failed, next;

	fail_calls_at(place, is_near);
	answer(context, question, &failed);
	bool has_failed = fail_calls_end();
	if (!failed.text && failed.status >= 500) /* the server has words of its own */
		failed.text = strdup("{\"error\":\"memory\"}");
	check_failed(place, question, &failed, usual);
	answer(context, question, &next);
	check_next(place, question, &next, usual);
	drop(&failed);
	drop(&next);
	view_context_close(context);
	if (fail_calls_n_live() > n_live)
		complain(place, question, "%ld blocks are never freed",
			 fail_calls_n_live() - n_live);
	return has_failed;
}

static void try_answers(const char *database, const char *question)
{
	static uint64_t places[MAX_PLACES];
	struct view_context *context = open_context(database);
	auto_reply struct reply usual = { 0 };

	fail_calls_list();
	answer(context, question, &usual);
	fail_calls_end();
	view_context_close(context);
	if (usual.status != 200)
		errx(2, "%s of %s without any failure: %u: %s", question, database, usual.status,
		     usual.text);
	size_t n = take_places(places);
	for (size_t i = 0; i < n; i++) {
		if (!try_answer(database, question, places[i], true, &usual))
			try_answer(database, question, places[i], false, &usual);
	}
}

/* ---- The server ---- */

struct target {
	const char *method;
	const char *path; /* behind the token */
	unsigned status;
};

/* The first one is what is asked for to see whether a server works. */
static const struct target targets[] = {
	{ "GET", "api/runs", 200 },
	{ "GET", "", 200 },
	{ "GET", "web/core/app.js", 200 },
	{ "GET", "web/absent.js", 404 },
	{ "GET", "api/run?run=1", 200 },
	{ "GET", "api/flame?run=1&by=bytes&from=1&to=100000", 200 },
	{ "GET", "api/objects?run=1&sort=nothing", 400 },
	{ "GET", "api/nothing", 404 },
	{ "POST", "api/runs", 405 },
};

static int connect_to(uint16_t port)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		err(2, "connect");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* All that comes until the server closes. */
static void receive(int fd, struct reply *reply)
{
	FILE *to = open_memstream(&reply->text, &reply->n_bytes);
	char bytes[65536];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		fwrite(bytes, 1, (size_t)n, to);
	if (n < 0 && errno == EAGAIN)
		fputs("(and then nothing)", to);
	fclose(to);
}

/* Leave out what is another one each time: the date, and the nonce of scripts. */
static void normalise(struct reply *reply)
{
	size_t n = 0;
	char *date = strstr(reply->text, "\r\nDate: ");

	if (date)
		memset(date + 2, 'x', strcspn(date + 2, "\r"));
	for (const char *at = reply->text; *at; n++) {
		size_t n_digits = strspn(at, "0123456789abcdef");
		at += n_digits == 32 ? 32 : 0;
		reply->text[n] = *at;
		at += *at != '\0';
	}
	reply->n_bytes = n < reply->n_bytes ? n : reply->n_bytes;
	reply->text[reply->n_bytes] = '\0';
}

static void get(const struct view_server *server, const struct target *target,
		struct reply *ret_reply)
{
	const char *token = strchr(view_server_address(server) + strlen("http://"), '/');
	auto_close int fd = connect_to(view_server_port(server));
	char head[512];

	*ret_reply = (struct reply){ 0 };
	int n = snprintf(head, sizeof(head),
			 "%s %s%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 0\r\n"
			 "Connection: close\r\n\r\n",
			 target->method, token, target->path, view_server_port(server));
	if (send(fd, head, (size_t)n, MSG_NOSIGNAL) != n)
		err(2, "send");
	receive(fd, ret_reply);
	if (sscanf(ret_reply->text, "HTTP/1.1 %u", &ret_reply->status) != 1)
		ret_reply->status = 0;
	normalise(ret_reply);
}

static void try_target(const struct view_server *server, const struct target *target)
{
	static uint64_t places[MAX_PLACES];
	auto_reply struct reply usual = { 0 };

	fail_calls_list();
	get(server, target, &usual);
	fail_calls_end();
	if (usual.status != target->status)
		errx(2, "%s %s without any failure: %s", target->method, target->path, usual.text);
	size_t n = take_places(places);
	for (size_t i = 0; i < n; i++) {
		auto_reply struct reply failed = { 0 };
		auto_reply struct reply next = { 0 };
		fail_calls_at(places[i], true);
		get(server, target, &failed);
		if (!fail_calls_end()) {
			drop(&failed);
			fail_calls_at(places[i], false);
			get(server, target, &failed);
			fail_calls_end();
		}
		check_failed(places[i], target->path, &failed, &usual);
		get(server, target, &next);
		check_next(places[i], target->path, &next, &usual);
	}
}

/* How a server starts, whose answers are asked for only where it does. */
static void try_start(const char *database, uint64_t place, const struct reply *usual)
{
	const struct view_files files = { .database = database };
	const struct view_shown shown = { .files = &files };
	auto_reply struct reply reply = { 0 };
	struct view_server *server = NULL;
	int is_socket = 0;

	fail_calls_spare(false);
	fail_calls_at(place, false);
	int r = view_server_start(&shown, 0, &server, &is_socket);
	fail_calls_end();
	fail_calls_spare(true);
	test.n_tried++;
	test.n_told += r < 0;
	if (r < 0 && r != -ENOMEM && r != -EAGAIN)
		complain(place, "start", "the error does not say why: %s", strerror(-r));
	if (r == 0) {
		get(server, &targets[0], &reply);
		check_next(place, "start", &reply, usual);
	}
	view_server_stop(server);
}

static void try_server(const char *database)
{
	static uint64_t places[MAX_PLACES];
	const struct view_files files = { .database = database };
	const struct view_shown shown = { .files = &files };
	auto_reply struct reply usual = { 0 };
	struct view_server *server = NULL;
	int is_socket = 0;

	fail_calls_list();
	int r = view_server_start(&shown, 0, &server, &is_socket);
	fail_calls_end();
	if (r == -ENOSYS)
		return;
	if (r < 0)
		errx(2, "the server does not start: %s", strerror(-r));
	size_t n = take_places(places);
	fail_calls_spare(true);
	get(server, &targets[0], &usual);
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		try_target(server, &targets[i]);
	view_server_stop(server);
	for (size_t i = 0; i < n; i++)
		try_start(database, places[i], &usual);
}

/* ---- All of it ---- */

static void read_questions(const char *path)
{
	auto_fclose FILE *file = fopen(path, "re");
	size_t n_allocated = 0;

	if (!file)
		err(2, "%s", path);
	while (test.n_questions < MAX_QUESTIONS &&
	       getline(&test.questions[test.n_questions], &n_allocated, file) > 0) {
		char *question = test.questions[test.n_questions++];
		question[strcspn(question, "\n")] = '\0';
		n_allocated = 0;
	}
}

int main(int n, char **arguments)
{
	const char *only = getenv("FAIL_ONLY");

	if (n < 4)
		errx(2, "usage: fail-view STRIDE QUESTIONS DATABASE...");
	signal(SIGPIPE, SIG_IGN);
	test.stride = strtoul(arguments[1], NULL, 10);
	test.only = only ? strtoull(only, NULL, 16) : 0;
	read_questions(arguments[2]);
	for (int i = 3; i < n; i++) {
		for (size_t j = 0; j < test.n_questions; j++)
			try_answers(arguments[i], test.questions[j]);
	}
	size_t n_answers = test.n_seen;
	try_server(arguments[3]);
	printf("%zu of %zu places of answers and %zu of the server failed, %zu of them were told, "
	       "%zu problems\n",
	       test.n_tried, n_answers, test.n_seen - n_answers, test.n_told, test.n_problems);
	return test.n_problems || (!test.n_tried && !test.only);
}
