#include "runner/control/client.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/parse.h"

#define SOCKETS_PATH   "/proc/net/unix"
#define FOLDER	       "/memsight-" /* runner/recording.c makes them */
#define SOCKET_NAME    "/socket"
#define STATUS_SECONDS 2 /* a recorder answers within some ms, if it runs at all */
#define PARTIAL_SUFFIX ".partial"

/* The file where its folder can be seen, else the abstract socket of the same name. */
static int connect_to(const char *path, int *ret_fd)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	size_t length = strlen(path);

	if (length + 2 > sizeof(name.sun_path))
		return -ENAMETOOLONG;
	for (size_t skip = 0; skip < 2; skip++) {
		auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		memset(name.sun_path, 0, sizeof(name.sun_path));
		memcpy(name.sun_path + skip, path, length);
		if (connect(fd, (struct sockaddr *)&name,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + skip + length)) ==
		    0) {
			*ret_fd = steal_fd(&fd);
			return 0;
		}
	}
	return -errno;
}

static int ask(const char *socket_path, struct control_request *request, unsigned seconds,
	       struct control_reply *ret_reply, int *ret_handed)
{
	struct timeval patience = { .tv_sec = seconds };
	auto_close int fd = -1;
	auto_close int handed_fd = -1;
	int err = connect_to(socket_path, &fd);

	if (err < 0)
		return err == -ECONNREFUSED || err == -ENOENT ? -EPIPE : err;
	request->magic = CONTROL_MAGIC;
	request->version = CONTROL_VERSION;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, request, sizeof(*request), MSG_NOSIGNAL) < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	ssize_t n = io_receive(fd, ret_reply, sizeof(*ret_reply), 0, &handed_fd);
	if (n < 0)
		return n == -EAGAIN ? -ETIMEDOUT : n == -ECONNRESET ? -EPIPE : (int)n;
	if (n != sizeof(*ret_reply) || ret_reply->magic != CONTROL_MAGIC ||
	    ret_reply->version != CONTROL_VERSION)
		return n == 0 ? -EPIPE : -EPROTO;
	ret_reply->output[sizeof(ret_reply->output) - 1] = '\0';
	ret_reply->path[sizeof(ret_reply->path) - 1] = '\0';
	ret_reply->message[sizeof(ret_reply->message) - 1] = '\0';
	if (ret_handed)
		*ret_handed = steal_fd(&handed_fd);
	return 0;
}

/* The socket of a recording that a line of /proc/net/unix tells of; NULL: another one. */
static const char *socket_of(char *line)
{
	char *path = strchr(line, '/');
	size_t n = path ? strcspn(path, "\n") : 0;

	if (!path)
		return NULL;
	path[n] = '\0';
	if (n < sizeof(SOCKET_NAME) || strcmp(path + n - strlen(SOCKET_NAME), SOCKET_NAME) != 0 ||
	    !strstr(path, FOLDER) || n >= sizeof(((struct control_recording *)0)->socket))
		return NULL;
	return path;
}

int control_list(uint32_t pid, struct control_recording recordings[CONTROL_MAX_RECORDINGS])
{
	auto_fclose FILE *file = fopen(SOCKETS_PATH, "re");
	char line[512];
	int n = 0;

	if (!file)
		return -errno;
	while (n < CONTROL_MAX_RECORDINGS && fgets(line, sizeof(line), file)) {
		struct control_request request = { .verb = CONTROL_STATUS, .pid = pid };
		struct control_recording *recording = &recordings[n];
		const char *path = socket_of(line);
		bool is_known = false;

		/* Each has two listening sockets, and one more for each connection. */
		for (int i = 0; path && i < n; i++)
			is_known |= strcmp(recordings[i].socket, path) == 0;
		if (!path || is_known)
			continue;
		snprintf(recording->socket, sizeof(recording->socket), "%s", path);
		if (ask(recording->socket, &request, STATUS_SECONDS, &recording->status, NULL) ==
			    0 &&
		    recording->status.error == 0)
			n++;
	}
	return n;
}

static bool is_same_file(const char *one, const char *other)
{
	auto_free char *first = realpath(one, NULL);
	auto_free char *second = first ? realpath(other, NULL) : NULL;

	return first && second && strcmp(first, second) == 0;
}

/*
 * Is what a user calls it this recording's trace? Either by the name that it will have, where an
 * older file may lie still (--force), or by that which it has now.
 */
static bool is_trace(const char *what, const struct control_recording *recording)
{
	const char *output = recording->status.output;
	char partial[PATH_MAX + sizeof(PARTIAL_SUFFIX)];
	char named[sizeof(partial)];

	snprintf(partial, sizeof(partial), "%s" PARTIAL_SUFFIX, output);
	if (strcmp(what, output) == 0 || is_same_file(what, partial) || is_same_file(what, output))
		return true;
	return snprintf(named, sizeof(named), "%s" PARTIAL_SUFFIX, what) < (int)sizeof(named) &&
	       is_same_file(named, partial);
}

int control_find(const char *what, struct control_recording *ret_recording)
{
	auto_free struct control_recording *all = calloc(CONTROL_MAX_RECORDINGS, sizeof(*all));
	uint64_t pid = 0;
	int n, found = -1;

	if (!all)
		return -ENOMEM;
	if (parse_number(what, &pid) < 0 || pid > INT32_MAX)
		pid = 0;
	n = control_list((uint32_t)pid, all);
	if (n < 0)
		return n;
	for (int i = 0; i < n; i++) {
		if (!all[i].status.knows_pid && !is_trace(what, &all[i]))
			continue;
		if (found >= 0)
			return -ENOTUNIQ;
		found = i;
	}
	if (found < 0)
		return -ENOENT;
	*ret_recording = all[found];
	return 0;
}

int control_ask(const struct control_recording *recording, struct control_request *request,
		struct control_reply *ret_reply)
{
	return control_ask_for(recording, request, 0, ret_reply);
}

int control_ask_for(const struct control_recording *recording, struct control_request *request,
		    unsigned seconds, struct control_reply *ret_reply)
{
	return ask(recording->socket, request, seconds, ret_reply, NULL);
}

int control_status(const struct control_recording *recording, struct control_reply *ret_reply)
{
	struct control_request request = { .verb = CONTROL_STATUS };

	return ask(recording->socket, &request, STATUS_SECONDS, ret_reply, NULL);
}

int control_totals(const struct control_recording *recording, struct control_reply *ret_reply,
		   int *ret_fd)
{
	struct control_request request = { .verb = CONTROL_TOTALS };

	return ask(recording->socket, &request, STATUS_SECONDS, ret_reply, ret_fd);
}
