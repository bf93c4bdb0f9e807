#include "symbols-target.h"

#include <setjmp.h>
#include <stdlib.h>

const int target_table[16] = { 1, 2, 3 };
int target_counter = 7;

static char static_buffer[40];

const char *target_literal(void)
{
	return "nobody's";
}

uint64_t target_static_address(void)
{
	return (uint64_t)(uintptr_t)static_buffer;
}

static __attribute__((noinline)) uint64_t return_address(void)
{
	return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

__attribute__((noinline)) struct place target_plain(void)
{
	struct place place = { .line = __LINE__ + 2 };

	place.pc = return_address();
	return place;
}

static inline __attribute__((always_inline)) struct place inlined_body(void)
{
	struct place place = { .line = __LINE__ + 2 };

	place.pc = return_address();
	return place;
}

__attribute__((noinline)) struct place target_inlined(int *ret_call_line)
{
	*ret_call_line = __LINE__ + 1;
	struct place place = inlined_body();
	target_counter++;
	return place;
}

static jmp_buf back;
static uint64_t noreturn_pc;

static __attribute__((noinline, noreturn)) void leave(void)
{
	noreturn_pc = (uint64_t)(uintptr_t)__builtin_return_address(0);
	longjmp(back, 1);
}

/* The call is the last instruction: the return address lies behind the function's end. */
static __attribute__((noinline, noreturn)) void calls_at_its_end(void)
{
	leave();
}

uint64_t target_noreturn(void)
{
	if (setjmp(back) == 0)
		calls_at_its_end();
	return noreturn_pc;
}
