#pragma once
/*
 * What a browser asks for, out of the first line of its request: pure functions on bytes that
 * anybody may have sent. A target is /TOKEN/ (the page), /TOKEN/web/NAME (a file of it) or
 * /TOKEN/api/NAME?parameters (schemas/view.def). A number may follow
 * the token (/TOKEN/2/api/...): of a snapshot's page (server/server.h). Paths are compared as they
 * stand and never decoded.
 */
#include <stdbool.h>
#include <stdint.h>

#define VIEW_TOKEN_LETTERS 32u /* 128 bits in hex */

/* The answers of schemas/view.def. */
enum view_answer {
#define VIEW(id, ...) VIEW_##id,
#include "schemas/view.def"
#undef VIEW
	VIEW_COUNT
};

/* Every parameter of schemas/view.def. */
enum view_parameter {
	VIEW_RUN_NAME, /* "run" */
	VIEW_PROCESS,
	VIEW_THREAD,
	VIEW_SOURCE,
	VIEW_SITE,
	VIEW_BLOCK,
	VIEW_A,
	VIEW_B,
	VIEW_FROM,
	VIEW_TO,
	VIEW_LOW,
	VIEW_HIGH,
	VIEW_ADDRESS,
	VIEW_WIDTH,
	VIEW_HEIGHT,
	VIEW_LIMIT,
	VIEW_OFFSET,
	VIEW_BY,
	VIEW_SORT,
	VIEW_KIND,
	VIEW_FILTER,
	VIEW_INVERSE,
	VIEW_DESCENDING,
	VIEW_FULL,
	VIEW_PARAMETER_COUNT
};

/* The values that were given; one that was not is 0 and NULL. */
struct view_values {
	bool is_given[VIEW_PARAMETER_COUNT];
	int64_t numbers[VIEW_PARAMETER_COUNT]; /* none is negative */
	const char *texts[VIEW_PARAMETER_COUNT]; /* all, also those that are numbers */
};

enum view_target { VIEW_PAGE, VIEW_FILE, VIEW_API };

#define VIEW_TARGET_BYTES  4096u /* of a target, with its NUL; longer ones are refused */
#define VIEW_MESSAGE_BYTES 160u

struct view_request {
	enum view_target target;
	unsigned part; /* the number between TOKEN and what follows; 0: there is none */
	enum view_answer answer; /* VIEW_API */
	const char *file; /* VIEW_FILE: what follows web/; it may not exist */
	struct view_values values; /* VIEW_API */
	char message[VIEW_MESSAGE_BYTES]; /* why it is refused; valid UTF-8 */
	char buffer[VIEW_TARGET_BYTES]; /* what the texts point into */
};

/*
 * Parse a target as the client sent it, NUL-terminated. token: VIEW_TOKEN_LETTERS hex digits;
 * compared in a time that does not depend on where it differs. Returns 200, or the status to refuse
 * it with: 400, 403 (no token, or another), 404, 414. ret_request points into itself: it must not
 * be copied.
 */
unsigned view_request_parse(const char *target, const char *token,
			    struct view_request *ret_request);

/*
 * The same of what follows api/: "NAME?parameters". Returns 200, 400, 404 or 414.
 */
unsigned view_request_parse_api(const char *text, struct view_request *ret_request);

/*
 * The name of a parameter, whether its value is no number, and whether an answer takes it.
 */
const char *view_parameter_name(enum view_parameter parameter);
bool view_parameter_is_text(enum view_parameter parameter);
bool view_answer_takes(enum view_answer answer, enum view_parameter parameter);

/*
 * Whether a Host header (NULL: there was none) is that of a server at 127.0.0.1:port. Any other
 * name means that a page from elsewhere got its name to lead here (DNS rebinding).
 */
bool view_host_is_ours(const char *host, uint16_t port);
