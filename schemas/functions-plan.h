#pragma once
/*
 * What the recorder has worked out of the functions that are chosen (record --function-include):
 * which bytes of which files become a jump, and what runs elsewhere in their place. A program gets
 * it as a sealed file that comes with its welcome, and needs no decoder to obey it. Same build
 * only, like ring.h. x86-64.
 *
 * The file: struct plan_head, n_files of struct plan_file, n_functions of struct plan_function,
 * file by file, in order of address.
 */
#include <stdint.h>

#define PLAN_MAGIC	   UINT64_C(0x314e414c50534d00) /* "\0MSPLAN1" */
#define PLAN_HEAD_BYTES	   24u
#define PLAN_CODE_BYTES	   64u
#define PLAN_MAX_FIXES	   6u
#define PLAN_JUMP_BYTES	   5u
#define PLAN_SHORT_BYTES   2u
#define PLAN_MAX_FUNCTIONS (UINT32_C(1) << 20)

struct plan_head {
	uint64_t magic;
	uint32_t n_files;
	uint32_t n_functions;
};

struct plan_file {
	uint64_t device; /* as stat has them */
	uint64_t inode;
	uint32_t first; /* its functions */
	uint32_t n;
};

enum plan_fix_kind {
	PLAN_FIX_NEAR, /* 4 bytes: the distance from `behind` to the target */
	PLAN_FIX_ADDRESS, /* 8 bytes: the target's address */
};

/* Bytes of moved code that depend on where it, or the file, lies. */
struct plan_fix {
	uint64_t target; /* ELF address */
	uint8_t at; /* offset in the moved code */
	uint8_t behind; /* offset of the end of the instruction */
	uint8_t kind; /* enum plan_fix_kind */
	uint8_t reserved[5];
};

struct plan_function {
	uint64_t address; /* ELF address of what the jump replaces */
	uint64_t name_id; /* as trace_text.id */
	uint8_t before[PLAN_HEAD_BYTES]; /* what lies there, n_before of them */
	uint8_t filling[8]; /* and PLAN_JUMP_BYTES of them that end at address - filling_back */
	uint8_t n_before;
	uint8_t n_moved; /* bytes of instructions that run elsewhere */
	uint8_t is_short; /* 2 bytes jump back to the filling, which holds the long jump */
	uint8_t filling_back;
	uint8_t ends_in_call; /* what is moved: its callee returns to address + n_moved */
	uint8_t n_code;
	uint8_t n_fixes;
	uint8_t reserved;
	uint8_t code[PLAN_CODE_BYTES]; /* what is moved; its end jumps back */
	struct plan_fix fixes[PLAN_MAX_FIXES];
};
_Static_assert(sizeof(struct plan_function) == 216, "is shared");
