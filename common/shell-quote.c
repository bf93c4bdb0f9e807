#include "common/shell-quote.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/text-stream.h"

static bool is_harmless(const char *word, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)word[i];

		if (!isalnum(c) && !strchr("-_./:=+,@%", c))
			return false;
	}
	return n > 0;
}

static void put_word(FILE *out, const char *word, size_t n)
{
	if (is_harmless(word, n)) {
		fwrite(word, 1, n, out);
		return;
	}
	fputc('\'', out);
	for (size_t i = 0; i < n; i++) {
		if (word[i] == '\'')
			fputs("'\\''", out);
		else
			fputc(word[i], out);
	}
	fputc('\'', out);
}

char *command_text(const char *arguments, size_t n_bytes)
{
	char *text = NULL;
	size_t n_text;
	FILE *out = text_stream_open(&text, &n_text);

	if (!out)
		return NULL;
	if (n_bytes && arguments[n_bytes - 1] == '\0')
		n_bytes--;
	for (size_t at = 0; at < n_bytes || (at == n_bytes && at > 0 && arguments[at - 1] == 0);) {
		size_t n = strnlen(arguments + at, n_bytes - at);

		if (at)
			fputc(' ', out);
		put_word(out, arguments + at, n);
		at += n + 1;
	}
	text_stream_close(out, &text);
	return text;
}
