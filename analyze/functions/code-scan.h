#pragma once
/*
 * The code of one ELF file for x86-64, looked through once: how many instructions each function
 * has, what leads into its first bytes, and whether entering it can be led through code of ours.
 *
 * A function is entered through a jump of 5 bytes in place of its first instructions, which run
 * elsewhere. That is right when the jump covers whole instructions that can run at another place,
 * and control comes to none of them but the first. Behind endbr64, which stays. Ways into a
 * function are: direct jumps and calls of all code of the file; tables of jumps, and addresses that
 * code takes or that lie in data.
 *
 * Where 5 bytes are too many, 2 may do: a short jump to filling bytes before a function near by,
 * which hold the long one. A probe has no such place, but instructions before it may move as well.
 * Intel SDM volume 2: JMP, Jcc, ENDBR64, multi-byte NOP.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_JUMP_BYTES	 5u
#define CODE_SHORT_BYTES 2u
#define CODE_HEAD_BYTES	 24u /* of a function that are looked at for ways in */

enum code_way {
	CODE_WAY_NOPS, /* its first bytes do nothing: -fpatchable-function-entry, -mnop-mcount */
	CODE_WAY_JUMP,
	CODE_WAY_SHORT_JUMP,
	CODE_WAY_UPROBE, /* nothing is replaced: the kernel tells */
	CODE_WAY_NONE, /* why says it */
};

enum code_why {
	CODE_WHY_NOT,
	CODE_WHY_SHORT, /* and no filling near it */
	CODE_WHY_ENTERED, /* something leads into the first instructions */
	CODE_WHY_FIXED, /* an instruction that can run at no other place */
	CODE_WHY_UNKNOWN, /* bytes that are no instruction */
	CODE_WHY_MISSING, /* the file does not hold its code */
	CODE_WHY_RESOLVER, /* the symbol is of a function that chooses one (ifunc) */
	CODE_WHY_START, /* begins or ends the program, or a file of it */
	CODE_WHY_TWICE, /* returns more than once: setjmp, vfork, getcontext */
	CODE_WHY_CALLER, /* ends in a jump to dlopen, which looks at who has called it */
	CODE_WHY_NEEDED, /* locks, allocators, the loader: what entries may interrupt */
	CODE_WHY_NEAR, /* another probe, or a function that is chosen, has its jump there */
	CODE_WHY_ARGUMENTS, /* of a probe: they lie where memsight cannot read them */
	CODE_WHY_VARIABLE, /* of an allocator: its file has none of that name */
	CODE_WHY_COUNT
};

/* One function; the caller fills in the first two, in order of start, which differ. */
struct code_function {
	uint64_t start; /* ELF address */
	uint64_t end;
	uint32_t entered; /* bit i: control comes to byte i in some other way */
	uint32_t n_instructions;
	uint32_t filling_bytes; /* before it, where nothing runs ... */
	uint32_t n_taken; /* ... of which so many, at the end, hold long jumps */
	int16_t long_at; /* CODE_WAY_SHORT_JUMP: where that lies, from the short one on */
	uint8_t way; /* enum code_way */
	uint8_t why; /* enum code_why, with CODE_WAY_NONE */
	uint8_t at; /* the jump would begin so many bytes behind start */
	uint8_t place; /* of a probe: and its nop, or the branch to it, lies so many behind that */
	uint8_t n_moved_bytes; /* of instructions that the jump covers */
	bool loops; /* it jumps to its own begin */
	bool loops_behind; /* or behind an endbr64 there */
	bool ends_in_open; /* it jumps to dlopen */
	uint8_t head[CODE_HEAD_BYTES]; /* its bytes from there on */
	uint8_t filling[CODE_JUMP_BYTES]; /* with CODE_WAY_SHORT_JUMP: what lies at long_at */
};

/*
 * A static probe: a nop amid a function. Its jump may begin before it: `code` has where, as of a
 * function that starts there. Where no jump fits, but nothing comes to the nop except some
 * branches, these can be changed in its place: a second scan has them as probes. The caller fills
 * in place and nop, in order of place.
 */
#define CODE_AROUND   32u
#define CODE_BRANCHES 4u
struct code_probe {
	uint64_t place; /* ELF address of the nop, or of a branch to it */
	uint64_t nop;
	uint64_t entered; /* bit i: control comes to byte i of those from place - CODE_AROUND on */
	uint64_t starts; /* an instruction begins there */
	uint64_t branches[CODE_BRANCHES]; /* all that leads to the nop, if n_branches > 0 */
	unsigned n_branches; /* above CODE_BRANCHES: too many */
	bool is_led_to; /* to the nop, by something else than a branch */
	struct code_function code;
};

struct object;

/* What is looked for in one file. */
struct code_wish {
	struct code_function *functions;
	size_t n_functions;
	struct code_probe *probes;
	size_t n_probes;
};

/*
 * Fill in the rest. Returns 0; -ENOEXEC: the object is no ELF file for x86-64, or none at all;
 * -ENOMEM.
 */
int code_scan(struct object *object, const struct code_wish *wish);
