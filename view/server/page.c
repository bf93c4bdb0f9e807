#include "view/server/page.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/cleanup.h"
#include "common/text-stream.h"
#include "report/text/json.h"
#include "view/server/page-files.h"

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

/* What a mark in the page becomes. */
struct writer {
	FILE *out;
	const char *nonce;
	const char *start; /* the module to begin with */
	const char *answers; /* NULL: the page is served */
	int error; /* negative errno */
};

struct mark {
	const char *text;
	/*
	 * Write what stands in place of it; rest is what follows. Returns how much of that is used
	 * up.
	 */
	size_t (*write)(struct writer *writer, const char *rest);
	bool is_stored_only;
};

static size_t write_nonce(struct writer *writer, const char *rest)
{
	(void)rest;
	fputs(writer->nonce, writer->out);
	return 0;
}

static size_t write_start(struct writer *writer, const char *rest)
{
	(void)rest;
	fputs(writer->start, writer->out);
	return 0;
}

/* The file that is named up to the next quote; NULL: none of ours. */
static const struct view_file *find_named(const char *rest, size_t *ret_length)
{
	char name[128];
	size_t n = strcspn(rest, "\"");

	*ret_length = n;
	if (n >= sizeof(name))
		return NULL;
	memcpy(name, rest, n);
	name[n] = '\0';
	return view_file_find(name);
}

/* A style sheet; what follows is NAME"> */
static size_t write_style(struct writer *writer, const char *rest)
{
	size_t n = 0;
	const struct view_file *file = find_named(rest, &n);

	fprintf(writer->out, "<style nonce=\"%s\">\n%s\n</style>", writer->nonce,
		file ? file->bytes : "");
	return n + strlen("\">");
}

/* A module in the import map; what follows is NAME" */
static size_t write_module(struct writer *writer, const char *rest)
{
	struct json json = { 0 };
	size_t n = 0;
	const struct view_file *file = find_named(rest, &n);

	json_base64(&json, file ? file->bytes : "", file ? file->n_bytes : 0);
	if (json.error)
		writer->error = json.error;
	else
		fprintf(writer->out, "\"data:text/javascript;base64,%.*s\"", (int)json.n_bytes - 2,
			json.bytes + 1);
	json_drop(&json);
	return n + strlen("\"");
}

static size_t write_policy(struct writer *writer, const char *rest)
{
	(void)rest;
	fprintf(writer->out,
		"<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\""
		"default-src 'none'; script-src 'nonce-%s' data:; style-src 'nonce-%s'; img-src"
		" data:; base-uri 'none'; form-action 'none'\">",
		writer->nonce, writer->nonce);
	return 0;
}

static size_t write_answers(struct writer *writer, const char *rest)
{
	(void)rest;
	fprintf(writer->out,
		"<script type=\"application/json\" id=\"memsight-answers\">%s</script>\n</body>",
		writer->answers);
	return 0;
}

static const struct mark marks[] = {
	{ "@NONCE@", write_nonce, false },
	{ "@START@", write_start, false },
	{ "<meta charset=\"utf-8\">", write_policy, true },
	{ "<link rel=\"stylesheet\" href=\"web/", write_style, true },
	{ "\"./web/", write_module, true },
	{ "</body>", write_answers, true },
};

/* The mark that comes next, and where. */
static const struct mark *find_mark(const char *at, bool is_stored, const char **ret_place)
{
	const struct mark *first = NULL;

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *place =
			marks[i].is_stored_only && !is_stored ? NULL : strstr(at, marks[i].text);
		if (!place || (first && place >= *ret_place))
			continue;
		first = &marks[i];
		*ret_place = place;
	}
	return first;
}

static void write_page(struct writer *writer, const char *at)
{
	const char *place = NULL;
	const struct mark *mark;

	while ((mark = find_mark(at, writer->answers, &place))) {
		fwrite(at, 1, (size_t)(place - at), writer->out);
		place += strlen(mark->text);
		at = place + mark->write(writer, place);
	}
	fputs(at, writer->out);
}

static int make(struct writer *writer, char **ret_text, size_t *ret_n_bytes)
{
	const struct view_file *file = view_file_find("index.html");
	auto_free char *text = NULL;

	writer->out = file ? text_stream_open(&text, ret_n_bytes) : NULL;
	if (!writer->out)
		return file ? -ENOMEM : -ENOENT;
	write_page(writer, file->bytes);
	if (text_stream_close(writer->out, &text) < 0)
		return -ENOMEM;
	if (writer->error)
		return writer->error;
	*ret_text = steal_ptr(&text);
	return 0;
}

int view_page_make(const char *nonce, bool is_live, char **ret_text, size_t *ret_n_bytes)
{
	struct writer writer = { .nonce = nonce, .start = is_live ? "live" : "app" };

	return make(&writer, ret_text, ret_n_bytes);
}

int view_page_store(const char *answers, char **ret_text, size_t *ret_n_bytes)
{
	char nonce[VIEW_NONCE_LETTERS + 1];
	struct writer writer = { .nonce = nonce, .start = "app", .answers = answers };
	int r = view_random_hex(nonce, VIEW_NONCE_LETTERS);

	return r < 0 ? r : make(&writer, ret_text, ret_n_bytes);
}

const struct view_file *view_file_find(const char *name)
{
	for (const struct view_file *file = view_files; file->name; file++) {
		if (strcmp(file->name, name) == 0)
			return file;
	}
	return NULL;
}
