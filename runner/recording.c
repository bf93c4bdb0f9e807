#include "runner/recording.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "schemas/control.h"
#include "schemas/ring.h"

/* ---- What earlier recordings left ---- */

#define PREFIX "memsight-"
/* A folder without a lock file is either being made right now, or was left half made. */
#define HALF_MADE_SECONDS 60

/* Gone: its lock can be taken. In a folder in use it has been locked since it had this name. */
static bool collector_is_gone(int dir_fd)
{
	struct stat status;
	auto_close int lock_fd = openat(dir_fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (lock_fd >= 0)
		return flock(lock_fd, LOCK_EX | LOCK_NB) == 0;
	return errno == ENOENT && fstat(dir_fd, &status) == 0 &&
	       time(NULL) - status.st_mtime > HALF_MADE_SECONDS;
}

/* Remove what a recording puts into its folder. For recording_finish() and recording_sweep(). */
static void recording_empty(int dir_fd)
{
	static const char *const names[] = {
		"socket",	    RECORDING_STATIC_NAME, "lock",
		RECORDING_NEW_LOCK, RECORDING_LIBRARY,	   RECORDING_HEAP_LIBRARY
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(dir_fd, names[i], 0);
}

static bool sweep_one(int base_fd, const char *name)
{
	struct stat status;
	auto_close int dir_fd =
		openat(base_fd, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (dir_fd < 0 || fstat(dir_fd, &status) < 0 || status.st_uid != geteuid())
		return false;
	if (!collector_is_gone(dir_fd))
		return false;
	recording_empty(dir_fd);
	return unlinkat(base_fd, name, AT_REMOVEDIR) == 0;
}

/*
 * Remove the folders memsight-?????? of the calling user in base whose collector is gone. Returns
 * how many were removed, or a negative errno.
 */
static int recording_sweep(const char *base)
{
	auto_folder DIR *folder = opendir(base);
	struct dirent *entry;
	int n_removed = 0;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder)) != NULL) {
		if (strlen(entry->d_name) == sizeof(PREFIX) - 1 + 6 &&
		    strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) == 0)
			n_removed += sweep_one(dirfd(folder), entry->d_name);
	}
	return n_removed;
}

#define BACKLOG 1024

/*
 * Can nobody else but the administrator rename what lies in it? With sudo's -E, XDG_RUNTIME_DIR is
 * another user's: he could put a folder, and a socket, of his own in place of ours.
 */
static bool is_safe_base(const char *base)
{
	struct stat status;

	if (stat(base, &status) < 0 || !S_ISDIR(status.st_mode))
		return false;
	if (status.st_uid != 0 && status.st_uid != geteuid())
		return false;
	return !(status.st_mode & (S_IWGRP | S_IWOTH)) || (status.st_mode & S_ISVTX);
}

static int make_folder(const char *base, struct recording *recording)
{
	char folder[RECORDING_PATH_BYTES];
	int n = snprintf(folder, sizeof(folder), "%s/memsight-XXXXXX", base);

	/* The socket's name in it, and the NUL before an abstract one, must fit too. */
	if (base[0] != '/' || n < 0 || (size_t)n + sizeof("/socket") + 1 > sizeof(folder))
		return -ENAMETOOLONG;
	if (!is_safe_base(base))
		return -EPERM;
	recording_sweep(base);
	if (!mkdtemp(folder))
		return -errno;
	snprintf(recording->folder, sizeof(recording->folder), "%s", folder);
	return 0;
}

static int make_folder_somewhere(struct recording *recording)
{
	const char *bases[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
	int err = -ENOENT;

	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		if (!bases[i] || !*bases[i])
			continue;
		err = make_folder(bases[i], recording);
		if (err == 0)
			return 0;
	}
	return err;
}

/* It gets its name locked: another recorder that sweeps would take it for one left behind. */
static int make_lock(struct recording *recording)
{
	char unnamed[RECORDING_PATH_BYTES + 16];
	char path[RECORDING_PATH_BYTES + 8];

	snprintf(unnamed, sizeof(unnamed), "%s/" RECORDING_NEW_LOCK, recording->folder);
	snprintf(path, sizeof(path), "%s/lock", recording->folder);
	recording->lock_fd = open(unnamed, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (recording->lock_fd < 0 || flock(recording->lock_fd, LOCK_EX | LOCK_NB) < 0 ||
	    rename(unnamed, path) < 0)
		return -errno;
	return 0;
}

static int listen_at(const char *path, size_t skip, int *ret_fd)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	size_t length = strlen(path);
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	memcpy(name.sun_path + skip, path, length);
	if (bind(fd, (struct sockaddr *)&name,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + skip + length)) < 0)
		return -errno;
	if (listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = steal_fd(&fd);
	return 0;
}

int recording_init(struct recording *ret_recording)
{
	char path[RECORDING_PATH_BYTES + sizeof(RECORDING_STATIC_NAME)];
	struct recording recording = RECORDING_CLOSED;
	int err = make_folder_somewhere(&recording);

	if (err < 0)
		return err;
	err = make_lock(&recording);
	if (err == 0) {
		snprintf(recording.socket_path, sizeof(recording.socket_path), "%.*s/socket",
			 (int)(sizeof(recording.socket_path) - sizeof("/socket")),
			 recording.folder);
		err = listen_at(recording.socket_path, 0, &recording.listen_fds[0]);
	}
	if (err < 0)
		return recording_finish(&recording), err;
	/* Only programs that cannot see the folder need this one: its failure is no failure. */
	listen_at(recording.socket_path, 1, &recording.listen_fds[1]);
	snprintf(path, sizeof(path), "%s/" RECORDING_STATIC_NAME, recording.folder);
	for (size_t i = 0; i < 2; i++)
		listen_at(path, i, &recording.static_fds[i]);
	*ret_recording = recording;
	return 0;
}

int recording_listen_for(struct recording *recording, pid_t pid)
{
	struct stat our_status, their_status;
	char path[64];
	int err, fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	auto_close int theirs = open(path, O_RDONLY | O_CLOEXEC);
	auto_close int ours = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (theirs < 0 || ours < 0 || fstat(theirs, &their_status) < 0 ||
	    fstat(ours, &our_status) < 0)
		return -errno;
	if (their_status.st_ino == our_status.st_ino)
		return 0;
	if (setns(theirs, CLONE_NEWNET) < 0)
		return -errno;
	err = listen_at(recording->socket_path, 1, &fd);
	if (setns(ours, CLONE_NEWNET) < 0)
		err = -errno;
	if (err < 0)
		return cleanup_close(&fd), err;
	cleanup_close(&recording->listen_fds[1]);
	recording->listen_fds[1] = fd;
	return 0;
}

static void remove_folder(const char *folder)
{
	auto_close int dir_fd = open(folder, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (dir_fd < 0)
		return;
	recording_empty(dir_fd);
	rmdir(folder);
}

void recording_finish(struct recording *recording)
{
	if (recording->folder[0])
		remove_folder(recording->folder);
	for (int i = 0; i < 2; i++) {
		cleanup_close(&recording->listen_fds[i]);
		cleanup_close(&recording->static_fds[i]);
	}
	cleanup_close(&recording->lock_fd);
	*recording = RECORDING_CLOSED;
}

int recording_accept(const struct recording *recording)
{
	struct pollfd polls[2];
	int err = -EAGAIN;

	/* accept(2) makes a socket before it looks whether anybody is there. */
	for (int i = 0; i < 2; i++)
		polls[i] = (struct pollfd){ .fd = recording->listen_fds[i], .events = POLLIN };
	if (poll(polls, 2, 0) <= 0)
		return err;
	for (int i = 0; i < 2; i++) {
		if (!polls[i].revents)
			continue;
		int fd = accept4(polls[i].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			return fd;
		if (errno != EAGAIN)
			err = -errno;
	}
	return err;
}

/* Another build's hello may go on otherwise; its version is for the caller to refuse. */
static bool is_hello(const struct recording_greeting *greeting, size_t n_bytes)
{
	const struct recording_hello *hello = &greeting->hello;

	return n_bytes >= offsetof(struct recording_hello, command_bytes) &&
	       hello->magic == RECORDING_MAGIC &&
	       (hello->version != RING_VERSION ||
		(hello->command_bytes <= RECORDING_TEXT_BYTES &&
		 hello->maps_bytes <= RECORDING_TEXT_BYTES &&
		 n_bytes == sizeof(*hello) + hello->command_bytes + hello->maps_bytes));
}

static int peer_of(int fd, struct ucred *ret_peer)
{
	socklen_t n_bytes = sizeof(*ret_peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &n_bytes) < 0 ? -errno : 0;
}

int recording_receive_lent(int fd, int *ret_lent, struct ucred *ret_peer)
{
	struct recording_lent word = { 0 };
	ssize_t n = recv(fd, &word, sizeof(word), MSG_DONTWAIT | MSG_PEEK);
	int err, lent;

	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	if (n != sizeof(word) || word.magic != RECORDING_LENT_MAGIC)
		return -ENOMSG;
	n = io_receive(fd, &word, sizeof(word), MSG_DONTWAIT, &lent);
	if (n < 0 || lent < 0)
		return n < 0 ? (int)n : -EPROTO;
	err = word.version == RING_VERSION ? peer_of(fd, ret_peer) : -EPROTO;
	if (err < 0)
		close(lent);
	else
		*ret_lent = lent;
	return err;
}

int recording_receive_control(int fd, struct control_request *ret_request, struct ucred *ret_peer)
{
	uint32_t magic = 0;
	ssize_t n = recv(fd, &magic, sizeof(magic), MSG_DONTWAIT | MSG_PEEK);

	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	if (n != sizeof(magic) || magic != CONTROL_MAGIC)
		return -ENOMSG;
	n = recv(fd, ret_request, sizeof(*ret_request), MSG_DONTWAIT);
	if (n != sizeof(*ret_request) || ret_request->version != CONTROL_VERSION)
		return n < 0 ? -errno : -EPROTO;
	ret_request->text[sizeof(ret_request->text) - 1] = '\0';
	return peer_of(fd, ret_peer);
}

int recording_receive(int fd, struct recording_greeting *ret_greeting, struct ucred *ret_peer)
{
	ssize_t n = recv(fd, ret_greeting, sizeof(*ret_greeting), MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	if (n == 0)
		return -EPIPE;
	if (!is_hello(ret_greeting, (size_t)n))
		return -EPROTO;
	return peer_of(fd, ret_peer);
}

bool recording_is_closed(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

int recording_answer(int fd, const struct recording_welcome *welcome, int pool_fd, int plan_fd)
{
	const struct io_message message = { welcome,
					    sizeof(*welcome),
					    { pool_fd, plan_fd },
					    pool_fd < 0 ? 0 : 1 + (welcome->plan_bytes != 0) };

	return io_send(fd, &message, MSG_DONTWAIT);
}
