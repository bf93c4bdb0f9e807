#pragma once
/*
 * The place where traced programs find their collector: a folder that only its user can enter, with
 * a socket in it, and the same name as an abstract socket (schemas/recording.h). It also keeps a
 * lock file, so that a later recording can tell a folder whose collector was killed from one in
 * use.
 */
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "schemas/recording.h"

#define RECORDING_NEW_LOCK   "new-lock" /* the lock, until it is held */
#define RECORDING_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

struct recording {
	char folder[RECORDING_PATH_BYTES];
	char socket_path[RECORDING_PATH_BYTES]; /* what MEMSIGHT_RECORDING names */
	int lock_fd; /* holds a flock as long as the collector lives */
	int listen_fds[2]; /* in the folder, abstract; -1: could not be made */
	int static_fds[2]; /* likewise, of RECORDING_STATIC_NAME: for who answers there */
};

#define RECORDING_CLOSED                                                                           \
	((struct recording){ .lock_fd = -1, .listen_fds = { -1, -1 }, .static_fds = { -1, -1 } })

/*
 * Make the folder (in XDG_RUNTIME_DIR, else TMPDIR, else /tmp) and its sockets, and remove folders
 * of killed recordings of the same user there. Returns 0 or a negative errno. The caller ends it
 * with recording_finish().
 */
int recording_init(struct recording *ret_recording);

/* Close the sockets and remove the folder. Safe on RECORDING_CLOSED and twice. */
void recording_finish(struct recording *recording);

/*
 * Have the abstract name where a process looks for it: containers have a network of their own. For
 * the administrator; before anybody was accepted, and while no other thread runs. 0 or a negative
 * errno: it is where it was.
 */
int recording_listen_for(struct recording *recording, pid_t pid);

/*
 * Take the next waiting connection of either socket: non-blocking, close-on-exec. Returns a file
 * descriptor, or a negative errno (-EAGAIN: nobody waits).
 */
int recording_accept(const struct recording *recording);

/*
 * Read the hello of a connection and who sent it, as the kernel says. Returns 0, -EAGAIN (not there
 * yet), -EPIPE (the program went away), -EPROTO (not a hello) or another negative errno. Its text,
 * of as many bytes as it says, is of a program of this version only; behind it there is no NUL.
 */
int recording_receive(int fd, struct recording_greeting *ret_greeting, struct ucred *ret_peer);

/*
 * Read what a program lends instead of saying hello: *ret_lent is its descriptor, close-on-exec, to
 * be closed. Returns as recording_receive(), or -ENOMSG, and nothing is read: it says something
 * else.
 */
int recording_receive_lent(int fd, int *ret_lent, struct ucred *ret_peer);

/*
 * Read what `memsight ctl' asks for. Returns as recording_receive_lent(); -EPROTO: of another
 * version.
 */
struct control_request;
int recording_receive_control(int fd, struct control_request *ret_request, struct ucred *ret_peer);

/* Whether the program at the other end has closed the connection: it has waited for too long. */
bool recording_is_closed(int fd);

/*
 * Send the welcome; pool_fd goes with it unless it is -1, and plan_fd behind that where the welcome
 * tells of a plan. Returns 0 or a negative errno.
 */
int recording_answer(int fd, const struct recording_welcome *welcome, int pool_fd, int plan_fd);
