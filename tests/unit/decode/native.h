#pragma once
/*
 * The real processor as an oracle: a stopped child process in which single instructions run with
 * chosen registers. Nothing that it does reaches the test but registers and one data area.
 */
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "decode/decode.h"

#define NATIVE_CODE	   0x20000000u /* in the child: readable and executable */
#define NATIVE_CODE_BYTES  4096u
#define NATIVE_DATA	   0x10000000u /* in child and parent: read and write */
#define NATIVE_DATA_BYTES  8192u
#define NATIVE_FIXED	   0x10010000u /* in the child: read only */
#define NATIVE_FIXED_BYTES 4096u

struct native {
	pid_t child;
	uint8_t *code; /* the parent's writable view */
	uint8_t *data; /* = NATIVE_DATA */
	uint8_t *fixed; /* = NATIVE_FIXED */
	struct user_regs_struct start; /* of the child when it stopped */
};

/* Start the child. Returns 0 or a negative errno (-EPERM: ptrace is not allowed here). */
int native_open(struct native *native);

/* Kill the child. */
void native_close(struct native *native);

/*
 * Run one instruction with regs (perf's order, with DECODE_IP), which are replaced by the state
 * after it. Each repetition of a string instruction is one step: up to max_steps are made while
 * the ip stays. Returns 0, or the number of the signal that it raised (the registers are then
 * those of the fault).
 */
int native_step(struct native *native, unsigned max_steps, uint64_t regs[DECODE_N_REGS]);

/*
 * The vector registers of a stopped child, and masks, as the processor has them. Setting leaves
 * what AVX-512 adds alone. 0 or a negative errno.
 */
int native_vectors_get(pid_t child, struct decode_vectors *ret_vectors);
int native_vectors_set(pid_t child, const struct decode_vectors *vectors);

/* Between the kernel's struct and perf's order. */
void native_regs_load(uint64_t regs[DECODE_N_REGS], const struct user_regs_struct *user);
void native_regs_store(const uint64_t regs[DECODE_N_REGS], struct user_regs_struct *user);
