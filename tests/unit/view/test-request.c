#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "view/request.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static unsigned parse(const char *target, struct view_request *ret_request)
{
	return view_request_parse(target, TOKEN, ret_request);
}

START_TEST(the_page_and_its_files_are_found)
{
	static const struct {
		const char *target;
		enum view_target found;
		const char *file;
	} cases[] = {
		{ "/" TOKEN "/", VIEW_PAGE, NULL },
		{ "/" TOKEN "/?x=1", VIEW_PAGE, NULL },
		{ "/" TOKEN "/web/core/app.js", VIEW_FILE, "core/app.js" },
		{ "/" TOKEN "/web/core/app.js?v=2", VIEW_FILE, "core/app.js" },
		{ "/" TOKEN "/web/vendor/uplot/uPlot.iife.min.js", VIEW_FILE,
		  "vendor/uplot/uPlot.iife.min.js" },
		{ "/" TOKEN "/web/../app.js", VIEW_FILE,
		  "../app.js" }, /* which is no file's name */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct view_request request;
		ck_assert_uint_eq(parse(cases[i].target, &request), 200);
		ck_assert_int_eq(request.target, cases[i].found);
		if (cases[i].file)
			ck_assert_str_eq(request.file, cases[i].file);
	}
}
END_TEST

START_TEST(who_does_not_know_the_token_gets_nothing)
{
	static const char *const targets[] = {
		"",
		"/",
		"//",
		"/" TOKEN,
		"/" TOKEN "x/",
		"/0123456789abcdef0123456789abcdee/",
		"/1123456789abcdef0123456789abcdef/",
		"/0123456789ABCDEF0123456789ABCDEF/",
		"/api/runs",
		"/favicon.ico",
		"//" TOKEN "/",
		"http://127.0.0.1/" TOKEN "/",
		"/%30123456789abcdef0123456789abcdef/",
		"*",
	};

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct view_request request;
		ck_assert_msg(parse(targets[i], &request) == 403, "%s", targets[i]);
		ck_assert_str_ne(request.message, "");
		ck_assert_ptr_null(strstr(request.message, TOKEN));
	}
}
END_TEST

START_TEST(what_is_not_there_is_not_found)
{
	static const char *const paths[] = { "x",	    "web",	    "api",     "api/",
					     "api/nothing", "api/run/",	    "%2e%2e/", "../",
					     ".git/config", "web%2fapp.js", "API/runs" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct view_request request;
		char target[128];
		snprintf(target, sizeof(target), "/" TOKEN "/%s", paths[i]);
		ck_assert_msg(parse(target, &request) == 404, "%s", target);
	}
}
END_TEST

START_TEST(an_address_that_is_too_long_is_refused)
{
	struct view_request request;
	char *target = malloc(2 * VIEW_TARGET_BYTES);

	memset(target, 'a', 2 * VIEW_TARGET_BYTES);
	target[2 * VIEW_TARGET_BYTES - 1] = '\0';
	ck_assert_uint_eq(parse(target, &request), 414);
	ck_assert_uint_eq(view_request_parse_api(target, &request), 414);
	target[VIEW_TARGET_BYTES - 1] = '\0';
	ck_assert_uint_eq(parse(target, &request), 403);
	free(target);
}
END_TEST

START_TEST(parameters_are_read_by_their_type)
{
	struct view_request request;

	ck_assert_uint_eq(parse("/" TOKEN
				"/api/picture?run=app.huge.3&from=0&to=9223372036854775807"
				"&width=2048&height=1&by=direction&source=7",
				&request),
			  200);
	ck_assert_int_eq(request.answer, VIEW_PICTURE);
	const struct view_values *values = &request.values;
	ck_assert_str_eq(values->texts[VIEW_RUN_NAME], "app.huge.3");
	ck_assert_int_eq(values->numbers[VIEW_TO], INT64_MAX);
	ck_assert_int_eq(values->numbers[VIEW_WIDTH], 2048);
	ck_assert_str_eq(values->texts[VIEW_BY], "direction");
	ck_assert(values->is_given[VIEW_FROM] && !values->is_given[VIEW_LOW]);
	ck_assert_int_eq(values->numbers[VIEW_LOW], 0);
}
END_TEST

START_TEST(text_is_decoded)
{
	struct view_request request;

	ck_assert_uint_eq(view_request_parse_api("objects?filter=a%20b+c%2B%26%3D%c3%A9%25&limit=0",
						 &request),
			  200);
	ck_assert_str_eq(request.values.texts[VIEW_FILTER], "a b c+&=\xc3\xa9%");
	ck_assert(request.values.is_given[VIEW_LIMIT]);
}
END_TEST

START_TEST(values_of_another_type_are_refused)
{
	static const char *const requests[] = {
		"picture?width=0",
		"picture?width=2049",
		"picture?width=-1",
		"picture?width=1.5",
		"picture?width=1e3",
		"picture?width=",
		"picture?width=0x10",
		"picture?width=%201",
		"picture?width=1%00",
		"picture?from=9223372036854775808",
		"picture?from=-1",
		"picture?by=",
		"picture?by=a%20b",
		"picture?by=a;b",
		"picture?by='",
		"picture?by=%3B",
		"picture?by=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"picture?from=1&from=1",
		"picture?nothing=1",
		"picture?limit=1",
		"picture?width",
		"picture?=1",
		"picture?width=1&&x",
		"flame?inverse=2",
		"objects?limit=100001",
		"objects?filter=%",
		"objects?filter=%4",
		"objects?filter=%zz",
		"objects?filter=%00",
		"objects?filter=%ff",
		"objects?filter=a%0ab",
		"runs?run=1",
		"run?RUN=1",
	};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct view_request request;
		ck_assert_msg(view_request_parse_api(requests[i], &request) == 400, "%s",
			      requests[i]);
		ck_assert_str_ne(request.message, "");
	}
}
END_TEST

START_TEST(messages_repeat_nothing_that_the_client_sent)
{
	struct view_request request;

	ck_assert_uint_eq(view_request_parse_api("picture?<script>=1", &request), 400);
	ck_assert_ptr_null(strchr(request.message, '<'));
	ck_assert_uint_eq(view_request_parse_api("picture?by=<script>", &request), 400);
	ck_assert_ptr_null(strchr(request.message, '<'));
	ck_assert_uint_eq(view_request_parse_api("<script>", &request), 404);
	ck_assert_ptr_null(strchr(request.message, '<'));
}
END_TEST

START_TEST(every_parameter_of_the_contract_has_a_type)
{
	for (int i = 0; i < VIEW_COUNT; i++) {
		int n = 0;
		for (int parameter = 0; parameter < VIEW_PARAMETER_COUNT; parameter++)
			n += view_answer_takes((enum view_answer)i, (enum view_parameter)parameter);
		/* As many as there are words in schemas/view.def. */
		static const char *const told[] = {
#define VIEW(id, name, parameters, what) parameters,
#include "schemas/view.def"
#undef VIEW
		};
		int n_words = told[i][0] != '\0';
		for (const char *at = told[i]; *at; at++)
			n_words += *at == ' ';
		ck_assert_msg(n == n_words, "%d: %s", i, told[i]);
	}
}
END_TEST

START_TEST(only_this_host_at_this_port_is_ours)
{
	static const char *const ours[] = { "127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080" };
	static const char *const others[] = {
		"",
		"127.0.0.1",
		"localhost",
		"127.0.0.1:80801",
		"127.0.0.1:808",
		"evil.example:8080",
		"127.0.0.1.evil.example:8080",
		"evil.example",
		"[::1]:8080",
		"0.0.0.0:8080",
		"127.0.0.2:8080",
		"localhost:8080 ",
		" localhost:8080",
		"localhost:08080",
		"127.0.0.1:8080, evil.example",
	};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		ck_assert_msg(view_host_is_ours(ours[i], 8080), "%s", ours[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ck_assert_msg(!view_host_is_ours(others[i], 8080), "%s", others[i]);
	ck_assert(!view_host_is_ours(NULL, 8080));
	ck_assert(view_host_is_ours("127.0.0.1", 80));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("request");
	TCase *tests = tcase_create("request");

	tcase_add_test(tests, the_page_and_its_files_are_found);
	tcase_add_test(tests, who_does_not_know_the_token_gets_nothing);
	tcase_add_test(tests, what_is_not_there_is_not_found);
	tcase_add_test(tests, an_address_that_is_too_long_is_refused);
	tcase_add_test(tests, parameters_are_read_by_their_type);
	tcase_add_test(tests, text_is_decoded);
	tcase_add_test(tests, values_of_another_type_are_refused);
	tcase_add_test(tests, messages_repeat_nothing_that_the_client_sent);
	tcase_add_test(tests, every_parameter_of_the_contract_has_a_type);
	tcase_add_test(tests, only_this_host_at_this_port_is_ours);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
