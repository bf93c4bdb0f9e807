#pragma once
/*
 * What the recorder has worked out of the functions that are chosen (record --function-include) and
 * of static probes of allocators (--usdt-from): which bytes of which files become a jump, and what
 * runs elsewhere in their place. A program gets it as a sealed file that comes with its welcome,
 * and needs no decoder to obey it. Same build only, like ring.h. x86-64.
 *
 * The file: struct plan_head, n_files of struct plan_file, n_functions of struct plan_function,
 * file by file, in order of address.
 */
#include <stdint.h>

#define PLAN_MAGIC	   UINT64_C(0x314e414c50534d00) /* "\0MSPLAN1" */
#define PLAN_HEAD_BYTES	   24u
#define PLAN_CODE_BYTES	   96u
#define PLAN_MAX_FIXES	   8u
#define PLAN_JUMP_BYTES	   5u
#define PLAN_SHORT_BYTES   2u
#define PLAN_MAX_FUNCTIONS (UINT32_C(1) << 20)
#define PLAN_MAX_ARGUMENTS 12u

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
	PLAN_FIX_OWN, /* 4 bytes: the distance to where the address of its own record lies */
	PLAN_FIX_STUB, /* 4 bytes: the distance to where the address of the probes' stub lies */
};

/* Bytes of moved code that depend on where it, or the file, lies. */
struct plan_fix {
	uint64_t target; /* ELF address */
	uint8_t at; /* offset in the moved code */
	uint8_t behind; /* offset of the end of the instruction */
	uint8_t kind; /* enum plan_fix_kind */
	uint8_t reserved[5];
};

enum plan_kind {
	PLAN_FUNCTION,
	PLAN_PROBE_ALLOC, /* arguments: the block, its size, the bytes that it stands for */
	PLAN_PROBE_FREE, /* the block */
};

enum plan_argument_kind {
	PLAN_ARGUMENT_NONE,
	PLAN_ARGUMENT_CONSTANT, /* add */
	PLAN_ARGUMENT_REGISTER, /* base, from bit `shift` on */
	PLAN_ARGUMENT_MEMORY, /* at base + (index << shift) + add */
	PLAN_ARGUMENT_IN_FILE, /* at the ELF address add */
};

#define PLAN_ARGUMENTS	 3u
#define PLAN_NO_REGISTER 16u

/* Where an argument of a probe is found. Registers by their numbers in instructions. */
struct plan_argument {
	int64_t add;
	uint8_t kind; /* enum plan_argument_kind */
	uint8_t base; /* or PLAN_NO_REGISTER, as index */
	uint8_t index;
	uint8_t shift;
	uint8_t n_bytes; /* 1, 2, 4, 8 */
	uint8_t is_signed;
	uint8_t reserved[2];
};

/* A word that a call has: the number of an argument, from 1; 0: none. */
#define PLAN_PLACE_NUMBER 0x0fu
#define PLAN_PLACE_INT	  0x10u /* its lower 32 bits */
#define PLAN_PLACE_RESULT 0x20u /* no argument, but what the function returns */
#define PLAN_PLACE_FILE	  0x40u /* of a pool: in a variable of the file (plan_function.variable) */
#define PLAN_PLACE_MEMBER 0x80u /* of a block: in what the argument points to, at pointer_at */

/* What a function of an allocator is called with (record --alloc-function). */
struct plan_rule {
	uint8_t is_rule; /* 0: it is recorded as a region */
	uint8_t size; /* times count, or bytes */
	uint8_t count;
	uint8_t pointer; /* the result, or what this argument points to when 0 is returned */
	uint8_t old; /* the block that it takes the place of */
	uint8_t free; /* a block that ends */
	uint8_t next; /* where in that the address of another one stands that ends, too */
	uint8_t pool;
	uint8_t create; /* as pointer: a pool that is empty */
	uint8_t reset; /* a pool, all blocks of which end */
	uint8_t ref; /* a block that is referred to once more */
	uint8_t unref; /* once less; | PLAN_PLACE_RESULT: 0 is returned where it ends by that */
	uint32_t bytes; /* not 0: what size would say */
	uint16_t pointer_at; /* of PLAN_PLACE_MEMBER */
	uint16_t end_at; /* likewise: the end of the block, which says its size; 0: size does */
	uint32_t reserved;
};
_Static_assert(sizeof(struct plan_rule) == 24, "is shared");

/* Where the kernel says that a function is entered or left (--function-method uprobe). */
struct plan_uprobe {
	const char *path;
	uint64_t offset; /* in the file */
	uint64_t name_id; /* as trace_text.id */
	uint32_t what; /* enum trace_probed_what */
};

struct plan_function {
	uint64_t address; /* ELF address of what the jump replaces */
	uint64_t name_id; /* as trace_text.id; of a probe or with a rule: the allocator */
	uint8_t before[PLAN_HEAD_BYTES]; /* what lies there, n_before of them */
	uint8_t filling[PLAN_JUMP_BYTES]; /* and at address + long_at, where is_short */
	uint8_t reserved;
	int16_t long_at;
	uint8_t n_before;
	uint8_t n_moved; /* bytes of instructions that run elsewhere */
	uint8_t is_short; /* 2 bytes jump to the filling, which holds the long jump */
	uint8_t reserved2;
	uint8_t ends_in_call; /* what is moved: its callee returns to address + n_moved */
	uint8_t n_code;
	uint8_t n_fixes;
	uint8_t kind; /* enum plan_kind */
	uint8_t code[PLAN_CODE_BYTES]; /* what is moved; its end jumps back */
	struct plan_fix fixes[PLAN_MAX_FIXES];
	/* of a probe: */
	uint64_t behind; /* ELF address behind its nop */
	uint64_t semaphore; /* ELF address of 16 bits that count who listens; 0: none */
	struct plan_argument arguments[PLAN_ARGUMENTS];
	struct plan_rule rule;
	uint64_t variable; /* ELF address, where the rule has PLAN_PLACE_FILE */
};
_Static_assert(sizeof(struct plan_function) == 376, "is shared");
