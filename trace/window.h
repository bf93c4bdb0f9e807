#pragma once
/*
 * A file seen through one buffer that moves. By pread, not mmap: a file that shrinks while it is
 * read gives fewer bytes then, and not a SIGBUS.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct trace_window {
	int fd;
	uint64_t offset; /* of bytes[0] in the file */
	size_t n_bytes; /* read */
	size_t capacity;
	uint8_t *bytes;
	/* While the file grows: trace_reader_grows(). NULL: it is all there */
	int64_t (*wait)(void *context, uint64_t n_bytes);
	void *context;
	uint64_t whole_bytes; /* so far it may be read, while there is wait */
};

/* Free the memory; fd stays open. */
void trace_window_finish(struct trace_window *window);

/*
 * Look at n_bytes of the file from offset on. Returns how many of them there are, which is less
 * than n_bytes only at the end of the file, or a negative errno. Waits for those of a file that
 * grows. *ret_bytes is valid until the next call and not aligned.
 */
ssize_t trace_window_look(struct trace_window *window, uint64_t offset, size_t n_bytes,
			  const uint8_t **ret_bytes);
