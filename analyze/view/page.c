#include "analyze/view/page.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "analyze/view/file.h"
#include "common/cleanup.h"

int view_random_hex(char *text, size_t n_letters)
{
	uint8_t bytes[32];
	size_t n_bytes = (n_letters + 1) / 2;

	if (n_bytes > sizeof(bytes))
		return -EINVAL;
	if (getrandom(bytes, n_bytes, 0) != (ssize_t)n_bytes)
		return errno ? -errno : -EIO;
	for (size_t i = 0; i < n_letters; i++)
		text[i] = "0123456789abcdef"[i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
	text[n_letters] = '\0';
	return 0;
}

int view_page_make(const char *nonce, char **ret_text, size_t *ret_n_bytes)
{
	static const char mark[] = "@NONCE@";
	const struct view_file *file = view_file_find("index.html");
	auto_free char *text = NULL;
	FILE *out = file ? open_memstream(&text, ret_n_bytes) : NULL;

	if (!out)
		return file ? -ENOMEM : -ENOENT;
	const char *at = file->bytes;
	for (const char *next; (next = strstr(at, mark)); at = next + sizeof(mark) - 1)
		fprintf(out, "%.*s%s", (int)(next - at), at, nonce);
	fputs(at, out);
	if (fclose(out) != 0)
		return -ENOMEM;
	*ret_text = steal_ptr(&text);
	return 0;
}
