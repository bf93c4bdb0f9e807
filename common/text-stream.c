#include "common/text-stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define FIRST_BYTES 128u

/* What the stream writes to. */
struct text {
	char **bytes;
	size_t *n_bytes;
	size_t n_allocated;
};

/* 0 is an error, which sticks to the stream. */
static ssize_t write_text(void *user, const char *bytes, size_t n_bytes)
{
	struct text *text = user;

	if (grow_array_by(text->bytes, *text->n_bytes, n_bytes + 1, &text->n_allocated, 1) < 0) {
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
	if (grow_array_by(text, 0, FIRST_BYTES, &opened->n_allocated, 1) < 0)
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
