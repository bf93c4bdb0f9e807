#include "view/request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/parse.h"
#include "common/text.h"
#include "common/utf8.h"

enum value_type {
	TYPE_NUMBER, /* 0 to the parameter's most */
	TYPE_WORD, /* letters, digits, - and _ */
	TYPE_TEXT,
};

#define MAX_WORD	32u
#define MAX_TEXT	1024u
#define MAX_PART_DIGITS 4u

static const struct {
	const char *name;
	enum value_type type;
	int64_t least, most;
} parameters[VIEW_PARAMETER_COUNT] = {
	[VIEW_RUN_NAME] = { "run", TYPE_TEXT, 0, 0 },
	[VIEW_PROCESS] = { "process", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_THREAD] = { "thread", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_SOURCE] = { "source", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_SITE] = { "site", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_BLOCK] = { "block", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_A] = { "a", TYPE_TEXT, 0, 0 },
	[VIEW_B] = { "b", TYPE_TEXT, 0, 0 },
	[VIEW_FROM] = { "from", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_TO] = { "to", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_LOW] = { "low", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_HIGH] = { "high", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_ADDRESS] = { "address", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_WIDTH] = { "width", TYPE_NUMBER, 1, 2048 },
	[VIEW_HEIGHT] = { "height", TYPE_NUMBER, 1, 2048 },
	[VIEW_LIMIT] = { "limit", TYPE_NUMBER, 0, 100000 },
	[VIEW_OFFSET] = { "offset", TYPE_NUMBER, 0, INT64_MAX },
	[VIEW_BY] = { "by", TYPE_WORD, 0, 0 },
	[VIEW_SORT] = { "sort", TYPE_WORD, 0, 0 },
	[VIEW_KIND] = { "kind", TYPE_WORD, 0, 0 },
	[VIEW_FILTER] = { "filter", TYPE_TEXT, 0, 0 },
	[VIEW_INVERSE] = { "inverse", TYPE_NUMBER, 0, 1 },
	[VIEW_DESCENDING] = { "descending", TYPE_NUMBER, 0, 1 },
	[VIEW_FULL] = { "full", TYPE_NUMBER, 0, 1 },
};

static const struct {
	const char *name;
	const char *parameters; /* names, parted by blanks */
} answers[VIEW_COUNT] = {
#define VIEW(id, name, parameters, what) [VIEW_##id] = { name, parameters },
#include "schemas/view.def"
#undef VIEW
};

const char *view_parameter_name(enum view_parameter parameter)
{
	return parameters[parameter].name;
}

bool view_parameter_is_text(enum view_parameter parameter)
{
	return parameters[parameter].type != TYPE_NUMBER;
}

/* Whether a list of words parted by blanks has a word. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += n) {
		bool begins = at == list || at[-1] == ' ';
		if (begins && (at[n] == ' ' || at[n] == '\0'))
			return true;
	}
	return false;
}

bool view_answer_takes(enum view_answer answer, enum view_parameter parameter)
{
	return has_word(answers[answer].parameters, parameters[parameter].name);
}

/* ---- Parameters ---- */

#define refuse(status, message, ...) text_refuse(status, message, VIEW_MESSAGE_BYTES, __VA_ARGS__)

static int hex_digit(char letter)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = letter ? strchr(digits, letter | 0x20) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* %41 and + in place. False: no valid escape, or a NUL. */
static bool decode(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (*in == '%') {
			int high = hex_digit(in[1]);
			int low = high < 0 ? -1 : hex_digit(in[2]);
			if (low < 0 || (high == 0 && low == 0))
				return false;
			*out++ = (char)(high << 4 | low);
			in += 2;
		} else {
			*out++ = *in == '+' ? ' ' : *in;
		}
	}
	*out = '\0';
	return true;
}

static bool is_word(const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t n = strlen(text);

	return n > 0 && n <= MAX_WORD && strspn(text, letters) == n;
}

static bool is_text(const char *text)
{
	size_t n = 0;

	for (const char *at = text; *at; at += n) {
		n = (size_t)utf8_length((const unsigned char *)at);
		if (n == 0 || (unsigned char)*at < ' ')
			return false;
	}
	return strlen(text) <= MAX_TEXT;
}

static unsigned read_value(enum view_parameter parameter, char *text,
			   struct view_values *ret_values, char *message)
{
	const char *name = parameters[parameter].name;
	uint64_t number = 0;

	if (ret_values->is_given[parameter])
		return refuse(400, message, "%s is given twice", name);
	if (!decode(text))
		return refuse(400, message, "%s: has a %% without two hex digits behind it", name);
	if (parameters[parameter].type == TYPE_WORD && !is_word(text))
		return refuse(400, message, "%s is not a word", name);
	if (parameters[parameter].type == TYPE_TEXT && !is_text(text))
		return refuse(400, message, "%s is not text of at most %u bytes", name, MAX_TEXT);
	if (parameters[parameter].type == TYPE_NUMBER &&
	    (parse_number(text, &number) < 0 || number > (uint64_t)parameters[parameter].most ||
	     number < (uint64_t)parameters[parameter].least))
		return refuse(400, message, "%s is not a whole number from %lld to %lld", name,
			      (long long)parameters[parameter].least,
			      (long long)parameters[parameter].most);
	ret_values->is_given[parameter] = true;
	ret_values->numbers[parameter] = (int64_t)number;
	ret_values->texts[parameter] = text;
	return 200;
}

static unsigned read_pair(enum view_answer answer, char *pair, struct view_values *ret_values,
			  char *message)
{
	char *value = strchr(pair, '=');

	if (!value)
		return refuse(400, message, "parameters are name=value, with & between them");
	*value++ = '\0';
	for (int i = 0; i < VIEW_PARAMETER_COUNT; i++) {
		if (strcmp(parameters[i].name, pair) != 0)
			continue;
		if (!view_answer_takes(answer, (enum view_parameter)i))
			break;
		return read_value((enum view_parameter)i, value, ret_values, message);
	}
	return refuse(400, message, "%s takes none but these parameters: %s", answers[answer].name,
		      answers[answer].parameters[0] ? answers[answer].parameters : "(none)");
}

/*
 * Parse the part behind '?' for an answer, in place. Returns 200 or 400 with a message of
 * VIEW_MESSAGE_BYTES.
 */
static unsigned view_values_parse(enum view_answer answer, char *query,
				  struct view_values *ret_values, char *message)
{
	char *rest = NULL;
	unsigned status = 200;

	*ret_values = (struct view_values){ 0 };
	for (char *pair = strtok_r(query, "&", &rest); pair && status == 200;
	     pair = strtok_r(NULL, "&", &rest))
		status = read_pair(answer, pair, ret_values, message);
	return status;
}

/* ---- Targets ---- */

/* Both have VIEW_TOKEN_LETTERS letters at least. */
static bool is_token(const char *text, const char *token)
{
	unsigned difference = 0;

	for (size_t i = 0; i < VIEW_TOKEN_LETTERS; i++)
		difference |= (unsigned)(unsigned char)text[i] ^ (unsigned char)token[i];
	return difference == 0;
}

static unsigned find_answer(char *name, struct view_request *request)
{
	char *query = strchr(name, '?');

	if (query)
		*query++ = '\0';
	for (int i = 0; i < VIEW_COUNT; i++) {
		if (strcmp(answers[i].name, name) != 0)
			continue;
		request->target = VIEW_API;
		request->answer = (enum view_answer)i;
		return view_values_parse(request->answer, query ? query : name + strlen(name),
					 &request->values, request->message);
	}
	return refuse(404, request->message, "there is no such answer");
}

/* "12/" in front of a path: another page's. Returns what follows. */
static char *skip_part(char *path, unsigned *ret_part)
{
	size_t n = strspn(path, "0123456789");

	*ret_part = 0;
	if (n == 0 || n > MAX_PART_DIGITS || path[n] != '/')
		return path;
	for (size_t i = 0; i < n; i++)
		*ret_part = 10 * *ret_part + (unsigned)(path[i] - '0');
	return path + n + 1;
}

static unsigned find_target(char *path, struct view_request *request)
{
	static const char api[] = "api/", web[] = "web/";

	path = skip_part(path, &request->part);

	if (strncmp(path, api, sizeof(api) - 1) == 0)
		return find_answer(path + sizeof(api) - 1, request);
	path[strcspn(path, "?")] = '\0';
	if (path[0] == '\0') {
		request->target = VIEW_PAGE;
		return 200;
	}
	if (strncmp(path, web, sizeof(web) - 1) != 0)
		return refuse(404, request->message, "there is no such page");
	request->target = VIEW_FILE;
	request->file = path + sizeof(web) - 1;
	return 200;
}

unsigned view_request_parse_api(const char *text, struct view_request *ret_request)
{
	size_t n = strnlen(text, VIEW_TARGET_BYTES);

	ret_request->message[0] = '\0';
	ret_request->part = 0;
	if (n == VIEW_TARGET_BYTES)
		return refuse(414, ret_request->message, "the request is too long");
	memcpy(ret_request->buffer, text, n + 1);
	return find_answer(ret_request->buffer, ret_request);
}

unsigned view_request_parse(const char *target, const char *token, struct view_request *ret_request)
{
	size_t n = strnlen(target, VIEW_TARGET_BYTES);

	ret_request->message[0] = '\0';
	if (n == VIEW_TARGET_BYTES)
		return refuse(414, ret_request->message, "the address is too long");
	memcpy(ret_request->buffer, target, n + 1);
	char *text = ret_request->buffer;
	if (n < VIEW_TOKEN_LETTERS + 2 || text[0] != '/' || !is_token(text + 1, token) ||
	    text[VIEW_TOKEN_LETTERS + 1] != '/')
		return refuse(403, ret_request->message,
			      "this is not the address that memsight view printed: each start has "
			      "a secret of its own in it");
	return find_target(text + VIEW_TOKEN_LETTERS + 2, ret_request);
}

bool view_host_is_ours(const char *host, uint16_t port)
{
	static const char *const names[] = { "127.0.0.1", "localhost" };
	char ours[32];

	for (size_t i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(ours, sizeof(ours), "%s:%u", names[i], port);
		if (strcasecmp(host, ours) == 0 || (port == 80 && strcasecmp(host, names[i]) == 0))
			return true;
	}
	return false;
}
