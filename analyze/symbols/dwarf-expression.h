#pragma once
/*
 * DWARF expressions of unwind tables (DWARF 5, 2.5 and 6.4.2): a stack machine on the registers and
 * the memory of one frame. Pure.
 */
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPRESSION_N_REGISTERS 17 /* x86-64: the last one is the return address */

#define EXPRESSION_ALL_REGISTERS ((UINT32_C(1) << EXPRESSION_N_REGISTERS) - 1)

struct expression_frame {
	uint64_t registers[EXPRESSION_N_REGISTERS]; /* by DWARF's numbers */
	uint32_t known; /* a bit for each register; operations on others are refused */
	uint64_t cfa;
	/* 8 bytes at an address. False: they are not known. */
	bool (*read)(void *user, uint64_t address, uint64_t *ret_value);
	void *user;
};

/*
 * Evaluate; *ret_is_value: the result is a value (or a register's content), not the address of one.
 * Returns false for what it does not know: an operation, a register, memory.
 */
bool expression_evaluate(const struct expression_frame *frame, const Dwarf_Op *ops, size_t n_ops,
			 uint64_t *ret_result, bool *ret_is_value);
