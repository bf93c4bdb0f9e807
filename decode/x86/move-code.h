#pragma once
/*
 * Instructions that run at another place than where they were: their code there, and which bytes of
 * it depend on the two places. Intel SDM volume 2: JMP, Jcc, CALL, LOOP, JCXZ, ModR/M.
 */
#include <stddef.h>
#include <stdint.h>

#include "schemas/functions-plan.h"

/*
 * Move the instructions that make up the first n_moved of these bytes, which lie at `address`, and
 * jump behind them: fills in code, n_code, fixes, n_fixes and ends_in_call. A call must be the last
 * of them: it returns to where it would have. Returns 0, or -EINVAL: one of them cannot run
 * elsewhere.
 */
int move_code(const uint8_t *bytes, size_t n_moved, uint64_t address, struct plan_function *ret);

/*
 * The same for a probe, whose nop lies place behind `address`: there the stub of probes is called.
 * All registers, flags, and what lies below the stack pointer are kept. Or what lies there is a
 * branch to the nop, which leads to the stub then, and from there behind the nop (ret->behind).
 */
int move_probe(const uint8_t *bytes, size_t n_moved, uint64_t address, size_t place,
	       struct plan_function *ret);
