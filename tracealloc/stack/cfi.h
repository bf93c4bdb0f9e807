#pragma once
/*
 * How to find the caller's frame at an address, from a module's .eh_frame (LSB core, "Exception
 * Frames"; DWARF 5 section 6.4; register numbers of the processor's psABI). Reads only the module's
 * mapped bytes, allocates nothing, signal safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/arch/arch.h"
#include "tracealloc/stack/module.h"

enum ta_cfi_register {
	TA_CFI_RBP = TA_DWARF_FRAME, /* or what serves as rbp and rsp elsewhere */
	TA_CFI_RSP = TA_DWARF_STACK,
	TA_CFI_RETURN = TA_DWARF_RETURN,
};

/* Where a register of the caller is found. */
enum ta_cfi_place {
	TA_CFI_SAME, /* not changed */
	TA_CFI_UNDEFINED, /* of the return address: there is no caller */
	TA_CFI_AT_CFA, /* stored at CFA + offset */
	TA_CFI_AT_RBP, /* stored at rbp + offset, rbp as it is in the frame itself */
	TA_CFI_OTHER, /* by an expression, or in another register */
};

struct ta_cfi_rule {
	uintptr_t start; /* of the function, or of the part of it */
	uint64_t cfa_register; /* CFA = this register + cfa_offset */
	int64_t cfa_offset;
	bool cfa_is_other; /* by the expression */
	bool is_signal_frame; /* what it returns to was interrupted: pc is exact there */
	uint8_t rbp_place; /* enum ta_cfi_place */
	uint8_t return_place;
	int64_t rbp_offset;
	int64_t return_offset;
	const uint8_t *cfa_expression; /* bytes of the module */
	uint32_t cfa_expression_bytes;
};

/*
 * The rule for the instruction at pc (of a return address: the byte before it). 0, -ENOENT when
 * the module says nothing about pc, -EBADMSG when what it says cannot be read.
 */
int ta_cfi_find(const struct ta_module *module, uintptr_t pc, struct ta_cfi_rule *ret_rule);
