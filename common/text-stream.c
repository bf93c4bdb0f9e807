#include "common/text-stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 128u

/* What the stream writes to. */
struct text {
	char **bytes;
	size_t *n_bytes;
	size_t n_allocated;
};

/* Room for n_bytes more and a NUL. Returns 0 or -ENOMEM. */
static int reserve(struct text *text, size_t n_bytes)
{
	size_t wanted = *text->n_bytes + n_bytes + 1;
	size_t capacity = text->n_allocated;

	if (wanted <= capacity)
		return 0;
	while (capacity < wanted)
		capacity = capacity ? 2 * capacity : FIRST_BYTES;
	char *larger = realloc(*text->bytes, capacity);
	if (!larger)
		return -ENOMEM;
	*text->bytes = larger;
	text->n_allocated = capacity;
	return 0;
}

/* 0 is an error, which sticks to the stream. */
static ssize_t write_text(void *user, const char *bytes, size_t n_bytes)
{
	struct text *text = user;

	if (reserve(text, n_bytes) < 0) {
		errno = ENOMEM;
		return 0;
	}
	memcpy(*text->bytes + *text->n_bytes, bytes, n_bytes);
	*text->n_bytes += n_bytes;
	(*text->bytes)[*text->n_bytes] = '\0';
	return (ssize_t)n_bytes;
}

static int close_text(void *user)
{
	free(user);
	return 0;
}

/* Free what an open stream has. */
static FILE *drop(struct text *text)
{
	free(*text->bytes);
	*text->bytes = NULL;
	free(text);
	return NULL;
}

FILE *text_stream_open(char **text, size_t *n_bytes)
{
	const cookie_io_functions_t functions = { .write = write_text, .close = close_text };
	struct text *opened = calloc(1, sizeof(*opened));

	*text = NULL;
	*n_bytes = 0;
	if (!opened)
		return NULL;
	*opened = (struct text){ .bytes = text, .n_bytes = n_bytes };
	if (reserve(opened, 0) < 0)
		return drop(opened);
	**text = '\0';
	FILE *stream = fopencookie(opened, "we", functions);
	return stream ? stream : drop(opened);
}

int text_stream_close(FILE *stream, char **text)
{
	int is_whole = fflush(stream) == 0 && !ferror(stream);

	if (fclose(stream) == 0 && is_whole)
		return 0;
	free(*text);
	*text = NULL;
	return -ENOMEM;
}
