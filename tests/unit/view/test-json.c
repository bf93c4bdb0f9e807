#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "report/text/json.h"

static void check_is(struct json *json, const char *expected)
{
	char *text = NULL;
	size_t n_bytes = 0;

	ck_assert_int_eq(json_finish(json, &text, &n_bytes), 0);
	ck_assert_str_eq(text, expected);
	ck_assert_uint_eq(n_bytes, strlen(expected));
	free(text);
}

START_TEST(commas_stand_between_values_only)
{
	struct json json = { 0 };

	json_open(&json, '{');
	json_set_integer(&json, "a", -1);
	json_name(&json, "b");
	json_open(&json, '[');
	json_integer(&json, INT64_MIN);
	json_open(&json, '[');
	json_close(&json, ']');
	json_null(&json);
	json_close(&json, ']');
	json_name(&json, "c");
	json_open(&json, '{');
	json_close(&json, '}');
	json_set_text(&json, "d", NULL);
	json_close(&json, '}');
	check_is(&json, "{\"a\":-1,\"b\":[-9223372036854775808,[],null],\"c\":{},\"d\":null}");
}
END_TEST

START_TEST(text_is_quoted_and_valid)
{
	static const struct {
		const char *text;
		const char *expected;
	} cases[] = {
		{ "", "\"\"" },
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
		{ "\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\"" },
		{ "</script>", "\"\\u003c/script>\"" },
		{ "\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
		{ "\xff", "\"\xef\xbf\xbd\"" },
		{ "a\xc3", "\"a\xef\xbf\xbd\"" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json json = { 0 };
		json_text(&json, cases[i].text);
		check_is(&json, cases[i].expected);
	}
}
END_TEST

START_TEST(numbers_are_raw_and_finite)
{
	struct json json = { 0 };

	json_open(&json, '[');
	json_real(&json, 0.5);
	json_real(&json, 1e300);
	json_real(&json, NAN);
	json_real(&json, -INFINITY);
	json_close(&json, ']');
	check_is(&json, "[0.5,1e+300,null,null]");
}
END_TEST

/* RFC 4648, section 10. */
START_TEST(bytes_are_base64)
{
	static const char *const pairs[][2] = {
		{ "", "\"\"" },
		{ "f", "\"Zg==\"" },
		{ "fo", "\"Zm8=\"" },
		{ "foo", "\"Zm9v\"" },
		{ "foob", "\"Zm9vYg==\"" },
		{ "fooba", "\"Zm9vYmE=\"" },
		{ "foobar", "\"Zm9vYmFy\"" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct json json = { 0 };
		json_base64(&json, pairs[i][0], strlen(pairs[i][0]));
		check_is(&json, pairs[i][1]);
	}
}
END_TEST

START_TEST(columns_are_lists_of_one_length)
{
	static const char *const names[] = { "id", "name" };
	struct json json = { 0 };
	struct columns columns;

	columns_begin(&columns, names, 2);
	json_integer(columns_at(&columns, 0), 1);
	json_text(columns_at(&columns, 1), "a");
	columns_end_row(&columns);
	json_integer(columns_at(&columns, 0), 2);
	json_null(columns_at(&columns, 1));
	columns_end_row(&columns);
	columns_write(&columns, &json);
	check_is(&json, "{\"n\":2,\"columns\":{\"id\":[1,2],\"name\":[\"a\",null]}}");
	columns_begin(&columns, names, 2);
	columns_write(&columns, &json);
	check_is(&json, "{\"n\":0,\"columns\":{\"id\":[],\"name\":[]}}");
}
END_TEST

START_TEST(what_is_too_large_is_an_error_and_no_text)
{
	struct json json = { 0 };
	char *text = NULL;
	size_t n_bytes = 0, n = JSON_MAX_BYTES / 4 * 3;
	char *bytes = calloc(1, n);

	json_open(&json, '[');
	json_base64(&json, bytes, n);
	json_integer(&json, 1);
	ck_assert_int_eq(json_finish(&json, &text, &n_bytes), -EFBIG);
	ck_assert_ptr_null(text);
	ck_assert_ptr_null(json.bytes);
	free(bytes);
}
END_TEST

/* ---- Runs ---- */

static int letter_value(char letter)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	return (int)(strchr(letters, letter) - letters);
}

static size_t from_base64(const char *text, uint8_t *out)
{
	size_t n = 0;

	for (; *text != '"'; text += 4) {
		int word = letter_value(text[0]) << 18 | letter_value(text[1]) << 12 |
			   (text[2] == '=' ? 0 : letter_value(text[2]) << 6) |
			   (text[3] == '=' ? 0 : letter_value(text[3]));
		out[n++] = (uint8_t)(word >> 16);
		if (text[2] != '=')
			out[n++] = (uint8_t)(word >> 8);
		if (text[3] != '=')
			out[n++] = (uint8_t)word;
	}
	return n;
}

/* As the page does it. */
static size_t unpack(const uint8_t *packed, size_t n_packed, uint8_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < n_packed;) {
		size_t control = packed[i++];
		size_t length = control < 128 ? control + 1 : control - 126;
		for (size_t j = 0; j < length; j++)
			out[n++] = packed[control < 128 ? i + j : i];
		i += control < 128 ? length : 1;
	}
	return n;
}

START_TEST(runs_give_back_what_went_in)
{
	enum { MOST = 5000 };
	static uint8_t in[MOST], packed[2 * MOST], out[MOST];

	for (unsigned seed = 0; seed < 400; seed++) {
		size_t n = seed * 11;
		unsigned state = seed + 1;
		struct json json = { 0 };
		/* From all equal to all different. */
		for (size_t i = 0; i < n; i++) {
			state = state * 1103515245u + 12345u;
			in[i] = (state >> 16) % 40 < seed % 41 || i == 0 ? (uint8_t)(state >> 24)
									 : in[i - 1];
		}
		packed_write_u8(&json, in, n, true);
		ck_assert_int_eq(json.bytes[1], '!');
		size_t n_packed = from_base64(json.bytes + 2, packed);
		ck_assert_uint_eq(unpack(packed, n_packed, out), n);
		ck_assert(memcmp(in, out, n) == 0);
		json_drop(&json);
	}
}
END_TEST

START_TEST(numbers_of_two_bytes_are_low_bytes_then_high_ones)
{
	static const uint32_t numbers[] = { 1, 0x0203, 70000 };
	struct json json = { 0 };
	uint8_t packed[16], out[16];

	packed_write_u16(&json, numbers, 3, false);
	ck_assert_uint_eq(from_base64(json.bytes + 1, packed), 6);
	ck_assert(memcmp(packed, "\x01\x00\x03\x02\xff\xff", 6) == 0);
	json_drop(&json);
	packed_write_u16(&json, numbers, 3, true);
	size_t n = unpack(packed, from_base64(json.bytes + 2, packed), out);
	ck_assert_uint_eq(n, 6);
	ck_assert(memcmp(out, "\x01\x03\xff\x00\x02\xff", 6) == 0);
	json_drop(&json);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("json");
	TCase *tests = tcase_create("json");

	tcase_add_test(tests, commas_stand_between_values_only);
	tcase_add_test(tests, text_is_quoted_and_valid);
	tcase_add_test(tests, numbers_are_raw_and_finite);
	tcase_add_test(tests, bytes_are_base64);
	tcase_add_test(tests, columns_are_lists_of_one_length);
	tcase_add_test(tests, what_is_too_large_is_an_error_and_no_text);
	tcase_add_test(tests, runs_give_back_what_went_in);
	tcase_add_test(tests, numbers_of_two_bytes_are_low_bytes_then_high_ones);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
