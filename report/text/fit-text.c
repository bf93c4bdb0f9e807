#include "report/text/fit-text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define BETWEEN_FRAMES " < "
#define BEHIND_CALL    " \u203a "
#define ELLIPSIS       "\u2026"
#define HEX	       "0123456789abcdef"
#define MAX_INDENT     16u
#define MOST_OF_FRAME  8192u /* bytes */
#define LEAST_OF_FRAME 12u /* columns: less of it says nothing */

/* Bytes of what stands first in a text: a character, or what sets a colour (no columns). */
static size_t first_length(const char *text, unsigned *ret_columns)
{
	size_t n = 1;

	*ret_columns = *text != '\033';
	if (*text == '\033')
		return strcspn(text, "m") + (strchr(text, 'm') != NULL);
	while ((text[n] & 0xc0) == 0x80)
		n++;
	return n;
}

/* The bytes of a text's begin that have at most so many columns. */
static size_t begin_length(const char *text, unsigned width)
{
	const char *at = text;

	for (unsigned columns = 0, more = 0; *at; columns += more) {
		size_t n = first_length(at, &more);
		if (columns + more > width)
			break;
		at += n;
	}
	return (size_t)(at - text);
}

unsigned fit_columns(const char *text)
{
	unsigned n = 0;

	for (unsigned more = 0; *text; n += more)
		text += first_length(text, &more);
	return n;
}

/* ---- Names of C++ ---- */

/*
 * Brackets that are no group's: those of "operator<<" and "->", and of "(in libc.so)" and
 * "(anonymous namespace)".
 */
static bool is_of_name(const char *text, const char *bracket)
{
	static const char word[] = "operator";
	const char *at = bracket;

	if (*bracket == '(' || *bracket == ')')
		return *bracket == '(' && (at == text || at[-1] == ' ' || at[-1] == ':');
	while (at > text && (at[-1] == '<' || at[-1] == '>' || at[-1] == '-'))
		at--;
	return (bracket > text && *bracket == '>' && bracket[-1] == '-') ||
	       ((size_t)(at - text) >= strlen(word) &&
		strncmp(at - strlen(word), word, strlen(word)) == 0);
}

/* Where the group that opens here ends: at its bracket; NULL: it does not. */
static char *group_end(const char *text, char *open)
{
	char close = *open == '<' ? '>' : ')';
	int depth = 0;

	for (char *at = open; *at; at++) {
		if (*at == close && !is_of_name(text, at) && --depth == 0)
			return at;
		depth += *at == *open && (close == ')' || !is_of_name(text, at));
	}
	return NULL;
}

/*
 * What template arguments or parameters are is told by "…", one after the other, until the text
 * fits.
 */
static void shorten_groups(char *text, char bracket, unsigned width)
{
	for (char *at = text; *at && fit_columns(text) > width; at++) {
		char *end = *at == bracket && !is_of_name(text, at) ? group_end(text, at) : NULL;
		if (!end || (size_t)(end - at) <= strlen(ELLIPSIS))
			continue;
		memcpy(at + 1, ELLIPSIS, strlen(ELLIPSIS));
		memmove(at + 1 + strlen(ELLIPSIS), end, strlen(end) + 1);
		at += strlen(ELLIPSIS);
	}
}

/* The columns of a name's last component ("::function(…)") and what follows; 0: it has one only. */
static unsigned last_component(const char *text)
{
	const char *last = NULL;
	int depth = 0;

	for (const char *at = text; *at && !(*at == ' ' && depth == 0); at++) {
		depth += *at == '(' || (*at == '<' && !is_of_name(text, at));
		depth -= depth > 0 && (*at == ')' || (*at == '>' && !is_of_name(text, at)));
		if (depth == 0 && strncmp(at, "::", 2) == 0)
			last = at;
	}
	return last ? fit_columns(last) : 0;
}

/*
 * The last word, where it is a place, and a third of what is left for the rest; of a longer name
 * its last component.
 */
static unsigned columns_of_end(const char *text, unsigned width)
{
	const char *place = strrchr(text, ' ');
	unsigned n_component = last_component(text);
	unsigned n_place = place ? fit_columns(place) : 0;

	if (n_place > width / 2)
		n_place = width / 2;
	unsigned n_end = n_place + (width - 1 - n_place) / 3;
	return n_component > n_end && n_component < width - 1 ? n_component : n_end;
}

/* Of "f (libgvc.so.6+0x4ea75)" the library goes, frame by frame, until it fits: f is there. */
static void shorten_places(char *text, unsigned width)
{
	for (char *at = strstr(text, " ("); at && fit_columns(text) > width;
	     at = strstr(at + 1, " (")) {
		char *end = strchr(at, ')');
		char *offset = strstr(at, "+0x");

		if (end && offset && offset < end && offset[3 + strspn(offset + 3, HEX)] == ')')
			memmove(at + strlen(" ("), offset, strlen(offset) + 1);
	}
}

static void write_middle_cut(FILE *out, const char *given, unsigned width)
{
	/* Without an allocation that could fail: what is longer is cut as it is. */
	char shortened[MOST_OF_FRAME];
	const char *text = given;

	if (width < 3) {
		fwrite(text, 1, begin_length(text, width), out);
		return;
	}
	if (strlen(given) < sizeof(shortened)) {
		text = strcpy(shortened, given);
		shorten_groups(shortened, '<', width);
		shorten_groups(shortened, '(', width);
	}

	unsigned columns = fit_columns(text);
	if (columns <= width) {
		fputs(text, out);
		return;
	}
	unsigned n_end = columns_of_end(text, width);
	fwrite(text, 1, begin_length(text, width - 1 - n_end), out);
	fputs(ELLIPSIS, out);
	fputs(text + begin_length(text, columns - n_end), out);
}

/* Of the frames, from the innermost on, the bytes of those that fit. 0: not even the first does. */
static size_t frames_length(const char *text, unsigned width)
{
	size_t n = begin_length(text, width), n_frames = 0;

	for (const char *at = strstr(text, BETWEEN_FRAMES); at && (size_t)(at - text) <= n;
	     at = strstr(at + 1, BETWEEN_FRAMES))
		n_frames = (size_t)(at - text);
	return n_frames;
}

/*
 * The frame behind those that fit, cut: often it is what tells two rows apart. Returns whether some
 * of it was written.
 */
static bool write_next_frame(FILE *out, const char *rest, unsigned room)
{
	char next[MOST_OF_FRAME];

	rest += strlen(BETWEEN_FRAMES);
	const char *end = strstr(rest, BETWEEN_FRAMES);
	size_t n = end ? (size_t)(end - rest) : strlen(rest);
	if (room < LEAST_OF_FRAME || n >= sizeof(next) || strcmp(rest, ELLIPSIS) == 0)
		return false;
	memcpy(next, rest, n);
	next[n] = '\0';
	/* All of it would not say that more frames follow. */
	if (end && fit_columns(next) <= room)
		return false;
	fputs(BETWEEN_FRAMES, out);
	fit_write(out, next, room);
	return true;
}

static void write_frames(FILE *out, const char *text, unsigned width)
{
	unsigned room = width - fit_columns(BETWEEN_FRAMES ELLIPSIS);
	size_t n = frames_length(text, room);

	if (n > 0) {
		fwrite(text, 1, n, out);
		unsigned used =
			fit_columns(text) - fit_columns(text + n) + fit_columns(BETWEEN_FRAMES);
		if (used < width && write_next_frame(out, text + n, width - used))
			return;
	} else {
		/* Without an allocation that could fail: of more only the begin is looked at. */
		char first[MOST_OF_FRAME];
		n = (size_t)(strstr(text, BETWEEN_FRAMES) - text);
		n = n < sizeof(first) ? n : sizeof(first) - 1;
		memcpy(first, text, n);
		first[n] = '\0';
		fit_write(out, first, room);
	}
	fputs(BETWEEN_FRAMES ELLIPSIS, out);
}

/*
 * A call of the program with what it called of libraries: the innermost of that goes first, and the
 * program's own call is cut last.
 */
static void write_call(FILE *out, const char *text, unsigned width)
{
	char call[MOST_OF_FRAME];
	unsigned room = width - fit_columns(BEHIND_CALL ELLIPSIS);
	size_t n = begin_length(text, room), n_kept = 0;
	const char *first = strstr(text, BEHIND_CALL);

	for (const char *at = first; at && (size_t)(at - text) <= n;
	     at = strstr(at + 1, BEHIND_CALL))
		n_kept = (size_t)(at - text);
	if (n_kept > 0) {
		fwrite(text, 1, n_kept, out);
	} else {
		n = (size_t)(first - text);
		n = n < sizeof(call) ? n : sizeof(call) - 1;
		memcpy(call, text, n);
		call[n] = '\0';
		write_middle_cut(out, call, room);
	}
	fputs(BEHIND_CALL ELLIPSIS, out);
}

void fit_write(FILE *out, const char *given, unsigned width)
{
	/* Without an allocation that could fail: what is longer is cut as it is. */
	char shortened[MOST_OF_FRAME];
	const char *text = given;

	if (width > 0 && strlen(given) < sizeof(shortened)) {
		text = strcpy(shortened, given);
		shorten_places(shortened, width);
	}
	if (width == 0 || fit_columns(text) <= width)
		fputs(text, out);
	else if (strstr(text, BETWEEN_FRAMES) && width > 8)
		write_frames(out, text, width);
	else if (strstr(text, BEHIND_CALL) && width > 8)
		write_call(out, text, width);
	else
		write_middle_cut(out, text, width);
}

/* ---- Lines ---- */

struct fit {
	FILE *out;
	unsigned width;
	char *line; /* what came of it so far */
	size_t n;
	size_t n_allocated;
	int *error;
};

/* Where a line goes on: behind "hint: ", or under the text of a column; else a bit further in. */
static unsigned indent_of(const char *line)
{
	size_t n_spaces = strspn(line, " ");
	const char *gap = strstr(line + n_spaces, "  ");

	if (strncmp(line, "hint: ", 6) == 0 || strncmp(line, "next: ", 6) == 0)
		return 6;
	if (gap) {
		size_t column = (size_t)(gap - line) + strspn(gap, " ");
		if (column <= MAX_INDENT)
			return (unsigned)column;
	}
	return n_spaces < MAX_INDENT ? (unsigned)n_spaces + 2 : 2;
}

/* The bytes of the words that fit; a word that alone is too long is broken. */
static size_t words_length(const char *text, unsigned room, size_t n_least)
{
	size_t n = begin_length(text, room);

	for (size_t i = n; i > n_least; i--) {
		if (text[i] == ' ')
			return i;
	}
	return n;
}

static void write_line(const struct fit *fit, const char *line)
{
	unsigned indent = indent_of(line);
	unsigned room = fit->width;
	size_t n_least = indent;

	while (fit_columns(line) > room) {
		size_t n = words_length(line, room, n_least), n_shown = n;
		while (n_shown > 0 && line[n_shown - 1] == ' ')
			n_shown--;
		fprintf(fit->out, "%.*s\n%*s", (int)n_shown, line, (int)indent, "");
		line += n;
		line += strspn(line, " ");
		room = fit->width - indent;
		n_least = 0;
	}
	fputs(line, fit->out);
}

static ssize_t take(void *cookie, const char *bytes, size_t n)
{
	struct fit *fit = cookie;

	for (size_t i = 0; i < n; i++) {
		bool is_end = bytes[i] == '\n';
		if (grow_array(&fit->line, fit->n, &fit->n_allocated, 1) < 0) {
			*fit->error = -ENOMEM;
			return 0;
		}
		fit->line[fit->n++] = is_end ? '\0' : bytes[i];
		if (!is_end)
			continue;
		write_line(fit, fit->line);
		fputc('\n', fit->out);
		fit->n = 0;
	}
	return ferror(fit->out) ? 0 : (ssize_t)n;
}

static int finish(void *cookie)
{
	struct fit *fit = cookie;

	if (fit->n > 0)
		fwrite(fit->line, 1, fit->n, fit->out);
	free(fit->line);
	free(fit);
	return 0;
}

/*
 * A stream that writes its lines to another one, which stays the caller's: those that have more
 * columns than width are broken between words, and set in under the text behind their label.
 * Nothing is left out. To be closed with fclose(), which ends the last line. *error, which must
 * live as long, becomes -ENOMEM where a line gets no memory. Returns NULL without memory.
 */
static FILE *fit_lines_open(FILE *out, unsigned width, int *error)
{
	const cookie_io_functions_t calls = { .write = take, .close = finish };
	struct fit *fit = calloc(1, sizeof(*fit));

	if (!fit)
		return NULL;
	fit->out = out;
	fit->error = error;
	fit->width = width > 2 * MAX_INDENT ? width : 2 * MAX_INDENT;

	FILE *stream = fopencookie(fit, "w", calls);
	if (!stream)
		free(fit);
	return stream;
}

int fit_lines_write(FILE *out, unsigned width, int (*write)(FILE *out, void *user), void *user)
{
	int error = 0;
	FILE *lines = width ? fit_lines_open(out, width, &error) : out;

	if (!lines)
		return -ENOMEM;
	int r = write(lines, user);
	bool is_bad = lines != out && fclose(lines) != 0;
	if (error < 0)
		return error;
	return is_bad && r == 0 ? -EIO : r;
}
