/*
 * Reads whatever bytes as what a browser asks memsight view for: the first line of a request, a
 * Host header behind the first newline. What is accepted has the token, and values of their types;
 * what is refused says why.
 */
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/utf8.h"
#include "tests/robust/fuzz/fuzz.h"
#include "view/request.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static bool is_inside(const struct view_request *request, const char *text)
{
	return text >= request->buffer && text < request->buffer + sizeof(request->buffer);
}

static void check_values(const struct view_request *request)
{
	const struct view_values *values = &request->values;

	for (int i = 0; i < VIEW_PARAMETER_COUNT; i++) {
		enum view_parameter parameter = (enum view_parameter)i;
		FUZZ_REQUIRE(values->numbers[i] >= 0);
		if (!values->is_given[i])
			continue;
		FUZZ_REQUIRE(view_answer_takes(request->answer, parameter));
		FUZZ_REQUIRE(is_inside(request, values->texts[i]));
		for (const char *at = values->texts[i]; *at;) {
			int n = utf8_length((const unsigned char *)at);
			FUZZ_REQUIRE(n > 0 && (unsigned char)*at >= ' ');
			at += n;
		}
	}
	FUZZ_REQUIRE(values->numbers[VIEW_WIDTH] <= 2048 && values->numbers[VIEW_HEIGHT] <= 2048);
}

static void check(unsigned status, const struct view_request *request, const char *target)
{
	FUZZ_REQUIRE(strnlen(request->message, VIEW_MESSAGE_BYTES) < VIEW_MESSAGE_BYTES);
	FUZZ_REQUIRE((status == 200) == (request->message[0] == '\0'));
	if (status != 200)
		return;
	FUZZ_REQUIRE(strncmp(target, "/" TOKEN "/", VIEW_TOKEN_LETTERS + 2) == 0);
	if (request->target == VIEW_FILE)
		FUZZ_REQUIRE(is_inside(request, request->file));
	if (request->target == VIEW_API)
		check_values(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	auto_free char *target = strndup((const char *)bytes, n_bytes);
	auto_free struct view_request *request = malloc(sizeof(*request));

	FUZZ_REQUIRE(target && request);
	char *host = strchr(target, '\n');
	if (host)
		*host++ = '\0';
	if (view_host_is_ours(host, 8080))
		FUZZ_REQUIRE(strlen(host) == strlen("127.0.0.1:8080"));
	check(view_request_parse(target, TOKEN, request), request, target);
	if (view_request_parse_api(target, request) == 200)
		check_values(request);
	return 0;
}
