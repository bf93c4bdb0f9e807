#pragma once
/* Places in symbols-target.c whose lines and names test-symbols.c knows. */
#include <stdint.h>

/* The return address of a call, and the line on which it stands. */
struct place {
	uint64_t pc;
	int line;
};

extern const int target_table[16]; /* read only */
extern int target_counter; /* .data */

const char *target_literal(void); /* "nobody's" */
uint64_t target_static_address(void); /* of a static variable in .bss, 40 bytes */

struct place target_plain(void);
struct place target_inlined(int *ret_call_line);
uint64_t target_noreturn(void);
