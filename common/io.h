#pragma once
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Write all of the bytes to fd, going on after short writes and EINTR.
 * Returns 0, or a negative errno (then part of it may be written).
 */
int io_write_all(int fd, const void *bytes, size_t n_bytes);

/*
 * Read up to n_bytes from fd, going on after short reads and EINTR.
 * Returns the number read (less than n_bytes only at the end of the file), or a negative errno.
 */
ssize_t io_read_full(int fd, void *bytes, size_t n_bytes);

/* The same from an offset on, of a file whose position stays. Also a program_read_fn. */
ssize_t io_read_at(int fd, void *bytes, size_t n_bytes, uint64_t at);

/*
 * Read a whole small file (as in /proc) into an allocated, NUL-terminated buffer of at most
 * max_bytes. The caller frees *ret_text. *ret_bytes (may be NULL) is its length without the NUL.
 * Returns 0 or a negative errno (-EFBIG when it is longer).
 */
int io_read_file(const char *path, size_t max_bytes, char **ret_text, size_t *ret_bytes);

/* The same of /proc/PID/NAME. */
int io_read_proc(pid_t pid, const char *name, size_t max_bytes, char **ret_text, size_t *ret_bytes);

/*
 * The next name of a folder that is a number above 0, as processes in /proc and threads in their
 * task are; 0: there is none. folder may be NULL.
 */
pid_t io_next_number(DIR *folder);

void io_close_folder(DIR **folder);
#define auto_folder __attribute__((cleanup(io_close_folder))) /* NULL: none */

/*
 * A file without a name in a folder, to read and write; where the file system knows none, one that
 * loses its name at once. Returns the descriptor or a negative errno.
 */
int io_open_unnamed(const char *folder);

/*
 * Copy bytes from one file to another, each from an offset of its own on; neither is moved in. By
 * reference where the file system can. Returns 0, or a negative errno (-EIO: there are not so
 * many).
 */
int io_copy_range(int from_fd, uint64_t from, int to_fd, uint64_t to, uint64_t n_bytes);

/* What goes through a socket at once, and descriptors that go with it. */
struct io_message {
	const void *bytes;
	size_t n_bytes;
	int fds[2];
	size_t n_fds;
};

/*
 * Send a message to a socket, with the flags of sendmsg(2), but never with a SIGPIPE. Returns 0 or
 * a negative errno.
 */
int io_send(int fd, const struct io_message *message, int flags);

/*
 * Receive up to n_bytes from a socket, going on after EINTR, with the flags of recvmsg(2). *ret_fd
 * (NULL: none is expected) is the descriptor that came with them, close-on-exec, or -1. Returns the
 * number received, 0 at the end, or a negative errno.
 */
ssize_t io_receive(int fd, void *bytes, size_t n_bytes, int flags, int *ret_fd);
