#include <string.h>

#include "analyze/process/call-texts.h"
#include "tests/support/suite.h"

START_TEST(a_call_is_named_by_what_is_assigned)
{
	/* The column is that of "@", which is taken out. */
	static const struct {
		const char *line, *text, *function;
	} cases[] = {
		{ "\tA = @malloc(n); B = malloc(n);", "A = malloc(…)", "malloc" },
		{ "\tA = malloc(n); B = @malloc(n);", "B = malloc(…)", "malloc" },
		{ "\tdouble *A = (double *)@malloc(n);", "A = malloc(…)", "malloc" },
		{ "*out = @malloc(n);", "*out = malloc(…)", "malloc" },
		{ "char *p = f(), *q = @f();", "q = f(…)", "f" },
		{ "s->rows[i + f(1)].x = @calloc(1, 2);", "s->rows[i + f(1)].x = calloc(…)",
		  "calloc" },
		{ "auto p = static_cast<int *>(@malloc(4));", "p = malloc(…)", "malloc" },
		{ "auto p = std::make_unique<T>@(1);", "p = std::make_unique<T>(…)",
		  "std::make_unique<T>" },
		{ "int *a = @new int[7];", "a = new …", "new" },
		{ "int *a = new int[7@], *b;", "a = new …", "new" },
		{ "b = new std::map<int, Key>(3@);", "b = new …", "new" },
		{ "b = new @Key;", "b = new …", "new" },
		{ "free(@malloc(n));", "free(malloc(…))", "malloc" },
		{ "\treturn @malloc(n);", "malloc(…)", "malloc" },
		{ "if (a == @f(n))", "f(…)", "f" },
		{ "if (a @== f(n))", "", "" },
		{ "\tx = y@;", "", "" },
		{ "@3(4)", "", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[128] = "";
		const char *at = strchr(cases[i].line, '@');
		size_t n = (size_t)(at - cases[i].line);
		struct call_text text;
		memcpy(line, cases[i].line, n);
		strcpy(line + n, at + 1);
		ck_assert_int_eq(call_text(line, (int)n + 1, &text), *cases[i].text != '\0');
		ck_assert_str_eq(text.text, cases[i].text);
		ck_assert_str_eq(text.function, cases[i].function);
	}
}
END_TEST

START_TEST(a_column_out_of_the_line_and_a_long_text_are_no_call)
{
	struct call_text text;
	char line[400];

	ck_assert(!call_text("malloc(1)", 0, &text));
	ck_assert(!call_text("malloc(1)", 10, &text));
	ck_assert(!call_text("", 1, &text));
	memset(line, 'a', sizeof(line) - 2);
	strcpy(line + sizeof(line) - 2, "(");
	ck_assert(!call_text(line, 1, &text));
	ck_assert_str_eq(text.text, "");
	ck_assert_str_eq(text.function, "");
}
END_TEST

/* Any text and column: nothing is read beside the line (sanitizers see it), and all texts end. */
START_TEST(any_line_is_survived)
{
	static const char signs[] = "ab1_ .:->*()[]<>=;,{}\"'new malloc(";
	unsigned random = 7;
	struct call_text text;

	for (int i = 0; i < 20000; i++) {
		char line[24] = "";
		for (size_t k = 0; k + 1 < sizeof(line); k++) {
			random = random * 1103515245 + 12345;
			line[k] = signs[random / 65536 % (sizeof(signs) - 1)];
		}
		for (int column = 1; column < 24; column += 5)
			ck_assert_uint_lt(strlen((call_text(line, column, &text), text.text)),
					  CALL_TEXT_BYTES);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("call texts");
	TCase *tcase = tcase_create("call texts");

	tcase_add_test(tcase, a_call_is_named_by_what_is_assigned);
	tcase_add_test(tcase, a_column_out_of_the_line_and_a_long_text_are_no_call);
	tcase_add_test(tcase, any_line_is_survived);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
