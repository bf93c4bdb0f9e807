/* Expressions of unwind tables, as compilers and linkers write them. */
#include <check.h>
#include <dwarf.h>

#include "analyze/symbols/dwarf-expression.h"
#include "tests/support/suite.h"

static bool read_memory(void *user, uint64_t address, uint64_t *ret_value)
{
	(void)user;
	*ret_value = address * 2;
	return address < 0x8000;
}

static const struct expression_frame frame = {
	.registers = { [3] = 0x33, [6] = 0x6000, [7] = 0x7008, [16] = 0x40000b },
	.known = EXPRESSION_ALL_REGISTERS & ~(UINT32_C(1) << 12),
	.cfa = 0x7018,
	.read = read_memory,
};

static const struct {
	Dwarf_Op ops[10];
	size_t n;
	uint64_t result;
	bool is_value;
} expressions[] = {
	{ { { DW_OP_breg7, 8, 0, 0 } }, 1, 0x7010, false },
	{ { { DW_OP_bregx, 6, (Dwarf_Word)-16, 0 } }, 1, 0x5ff0, false },
	{ { { DW_OP_call_frame_cfa, 0, 0, 0 }, { DW_OP_plus_uconst, (Dwarf_Word)-8, 0, 0 } },
	  2,
	  0x7010,
	  false },
	{ { { DW_OP_reg3, 0, 0, 0 } }, 1, 0x33, true },
	{ { { DW_OP_breg6, 0, 0, 0 }, { DW_OP_deref, 0, 0, 0 } }, 2, 0xc000, false },
	{ { { DW_OP_lit5, 0, 0, 0 }, { DW_OP_stack_value, 0, 0, 0 } }, 2, 5, true },
	/* of .plt: rsp + 8 + ((rip & 15) >= 11) << 3 */
	{ { { DW_OP_breg7, 8, 0, 0 },
	    { DW_OP_breg16, 0, 0, 0 },
	    { DW_OP_lit15, 0, 0, 0 },
	    { DW_OP_and, 0, 0, 0 },
	    { DW_OP_lit11, 0, 0, 0 },
	    { DW_OP_ge, 0, 0, 0 },
	    { DW_OP_lit3, 0, 0, 0 },
	    { DW_OP_shl, 0, 0, 0 },
	    { DW_OP_plus, 0, 0, 0 } },
	  9,
	  0x7018,
	  false },
	{ { { DW_OP_const1s, (Dwarf_Word)-2, 0, 0 },
	    { DW_OP_lit1, 0, 0, 0 },
	    { DW_OP_lt, 0, 0, 0 } },
	  3,
	  1,
	  false },
};

START_TEST(an_expression_gives_its_result)
{
	uint64_t result = 0;
	bool is_value = false;

	ck_assert(expression_evaluate(&frame, expressions[_i].ops, expressions[_i].n, &result,
				      &is_value));
	ck_assert_uint_eq(result, expressions[_i].result);
	ck_assert(is_value == expressions[_i].is_value);
}
END_TEST

static const Dwarf_Op refused[][2] = {
	{ { DW_OP_plus, 0, 0, 0 }, { DW_OP_nop, 0, 0, 0 } },
	{ { DW_OP_lit1, 0, 0, 0 }, { DW_OP_piece, 0, 0, 0 } },
	{ { DW_OP_breg12, 0, 0, 0 }, { DW_OP_stack_value, 0, 0, 0 } },
	{ { DW_OP_breg31, 0, 0, 0 }, { DW_OP_stack_value, 0, 0, 0 } },
	{ { DW_OP_constu, 0x9000, 0, 0 }, { DW_OP_deref, 0, 0, 0 } },
	{ { DW_OP_dup, 0, 0, 0 }, { DW_OP_dup, 0, 0, 0 } },
};

START_TEST(what_is_not_known_is_refused)
{
	uint64_t result;
	bool is_value;

	ck_assert(!expression_evaluate(&frame, refused[_i], 2, &result, &is_value));
	ck_assert(!expression_evaluate(&frame, refused[_i], 0, &result, &is_value));
}
END_TEST

START_TEST(the_stack_of_values_is_bounded)
{
	Dwarf_Op many[100];
	uint64_t result;
	bool is_value;

	for (size_t i = 0; i < 100; i++)
		many[i] = (Dwarf_Op){ .atom = DW_OP_lit1 };
	ck_assert(!expression_evaluate(&frame, many, 100, &result, &is_value));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("expression");
	TCase *tcase = tcase_create("expression");

	tcase_add_loop_test(tcase, an_expression_gives_its_result, 0,
			    sizeof(expressions) / sizeof(expressions[0]));
	tcase_add_loop_test(tcase, what_is_not_known_is_refused, 0,
			    sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(tcase, the_stack_of_values_is_bounded);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
