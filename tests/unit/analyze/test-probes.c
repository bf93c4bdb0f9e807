/*
 * Arguments of static probes as compilers write them into notes (analyze/functions/probes.c): those
 * of x86-64 that the GNU assembler's syntax has.
 */
#include <check.h>
#include <string.h>

#include "analyze/functions/probes.h"
#include "tests/support/suite.h"

#define NONE PLAN_NO_REGISTER

static const struct {
	const char *text;
	struct plan_argument is;
} readable[] = {
	{ "8@%rdi", { .kind = PLAN_ARGUMENT_REGISTER, .base = 7, .index = NONE, .n_bytes = 8 } },
	{ "4@%eax", { .kind = PLAN_ARGUMENT_REGISTER, .base = 0, .index = NONE, .n_bytes = 4 } },
	{ "-4@%r8d",
	  { .kind = PLAN_ARGUMENT_REGISTER,
	    .base = 8,
	    .index = NONE,
	    .n_bytes = 4,
	    .is_signed = 1 } },
	{ "2@%r15w", { .kind = PLAN_ARGUMENT_REGISTER, .base = 15, .index = NONE, .n_bytes = 2 } },
	{ "2@%sp", { .kind = PLAN_ARGUMENT_REGISTER, .base = 4, .index = NONE, .n_bytes = 2 } },
	{ "1@%sil", { .kind = PLAN_ARGUMENT_REGISTER, .base = 6, .index = NONE, .n_bytes = 1 } },
	{ "1@%bl", { .kind = PLAN_ARGUMENT_REGISTER, .base = 3, .index = NONE, .n_bytes = 1 } },
	{ "1@%dh",
	  { .kind = PLAN_ARGUMENT_REGISTER, .base = 2, .index = NONE, .shift = 8, .n_bytes = 1 } },
	{ "-8@$-12",
	  { .kind = PLAN_ARGUMENT_CONSTANT,
	    .base = NONE,
	    .index = NONE,
	    .add = -12,
	    .n_bytes = 8,
	    .is_signed = 1 } },
	{ "8@$0xffffffffffffffff",
	  { .kind = PLAN_ARGUMENT_CONSTANT,
	    .base = NONE,
	    .index = NONE,
	    .add = -1,
	    .n_bytes = 8 } },
	{ "8@(%rsp)", { .kind = PLAN_ARGUMENT_MEMORY, .base = 4, .index = NONE, .n_bytes = 8 } },
	{ "8@-24(%rbp)",
	  { .kind = PLAN_ARGUMENT_MEMORY, .base = 5, .index = NONE, .add = -24, .n_bytes = 8 } },
	{ "4@16(%rax,%r9)",
	  { .kind = PLAN_ARGUMENT_MEMORY, .base = 0, .index = 9, .add = 16, .n_bytes = 4 } },
	{ "8@(%rdx,%rcx,8)",
	  { .kind = PLAN_ARGUMENT_MEMORY, .base = 2, .index = 1, .shift = 3, .n_bytes = 8 } },
	{ "8@4096(,%rsi,4)",
	  { .kind = PLAN_ARGUMENT_MEMORY,
	    .base = NONE,
	    .index = 6,
	    .shift = 2,
	    .add = 4096,
	    .n_bytes = 8 } },
};

START_TEST(each_form_is_read)
{
	for (size_t i = 0; i < sizeof(readable) / sizeof(readable[0]); i++) {
		struct plan_argument argument;

		ck_assert_msg(probe_argument_parse(NULL, readable[i].text, &argument), "%s",
			      readable[i].text);
		ck_assert_msg(memcmp(&argument, &readable[i].is, sizeof(argument)) == 0, "%s",
			      readable[i].text);
	}
}
END_TEST

START_TEST(what_cannot_be_read_is_refused)
{
	static const char *const texts[] = {
		"",
		"8",
		"8@",
		"@%rdi",
		"3@%eax",
		"16@%xmm0",
		"8f@%xmm0",
		"8@%xmm0",
		"8@%rip",
		"8@%fs:-8(%rax)",
		"8@$",
		"8@$12x",
		"8@12",
		"8@(%rax",
		"8@(%rax,%rbx,3)",
		"8@(%rax,%rbx,8",
		"8@(%xmm0)",
		"8@()",
		"8@(,)",
		"8@(%rax)x",
		"8@16x(%rax)",
		"8@nobody(%rip)",
		"8@nobody+8",
		"0@%rax",
		"8@%rdiq",
		"8@(%rax,%rbx,)",
		"8@%",
		"8@(%)",
		"8@(%rax,%)",
		"-@%rax",
		"9@%rax",
		"-9223372036854775808@%rax",
		"99999999999999999999@%rax",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct plan_argument argument;

		ck_assert_msg(!probe_argument_parse(NULL, texts[i], &argument), "%s", texts[i]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("probes");
	TCase *tests = tcase_create("arguments");

	tcase_add_test(tests, each_form_is_read);
	tcase_add_test(tests, what_cannot_be_read_is_refused);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
