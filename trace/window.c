#include "trace/window.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/io.h"

/* At least so much is read at once: frames of small streams are many and short. */
#define READ_BYTES (256u << 10)

void trace_window_finish(struct trace_window *window)
{
	free(window->bytes);
	window->bytes = NULL;
	window->n_bytes = 0;
	window->capacity = 0;
}

/* Returns 0 when the file can be read up to end, or is all there. */
static int wait_for(struct trace_window *window, uint64_t end)
{
	while (window->wait && window->whole_bytes < end) {
		int64_t n = window->wait(window->context, window->whole_bytes);

		if (n < 0)
			return (int)n;
		if ((uint64_t)n <= window->whole_bytes)
			window->wait = NULL;
		else
			window->whole_bytes = (uint64_t)n;
	}
	return 0;
}

/* Move the window to offset. */
static int fill(struct trace_window *window, uint64_t offset, size_t n_bytes)
{
	if (window->wait && n_bytes > window->whole_bytes - offset)
		n_bytes = window->whole_bytes - offset;
	int r = grow_array_by(&window->bytes, 0, n_bytes, &window->capacity, 1);
	if (r < 0)
		return r;

	ssize_t n = io_read_at(window->fd, window->bytes, n_bytes, offset);
	window->offset = offset;
	window->n_bytes = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

ssize_t trace_window_look(struct trace_window *window, uint64_t offset, size_t n_bytes,
			  const uint8_t **ret_bytes)
{
	uint64_t end = window->offset + window->n_bytes;
	int r = wait_for(window, offset + n_bytes);

	if (r < 0)
		return r;
	if (offset < window->offset || offset > end || end - offset < n_bytes) {
		r = fill(window, offset, n_bytes > READ_BYTES ? n_bytes : READ_BYTES);
		if (r < 0)
			return r;
		end = window->offset + window->n_bytes;
	}
	*ret_bytes = window->bytes + (offset - window->offset);
	return (ssize_t)(end - offset < n_bytes ? end - offset : n_bytes);
}
