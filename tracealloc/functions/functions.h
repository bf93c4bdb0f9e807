#pragma once
/*
 * Functions that the recorder has chosen are entered and left through us, and so are static probes
 * of the program's allocators (record --usdt-from). Their first instructions
 * are a jump to a place near their file, which calls us and then runs them. There the return
 * address of the call is replaced by that of a thunk (stack/thunk.h), which calls us at the return
 * and leads to where the call would have returned to. A function that ends by jumping to another
 * one leaves a thunk as return address for that: the first one is over then.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct plan_function;
struct plan_rule;

/* A function, or a probe, of the plan, of this image. */
struct ta_function {
	uint64_t name_id;
	const struct plan_rule *rule; /* of an allocator's function; NULL: it is a region */
	_Atomic uint32_t last; /* its thunk of the last call */
	uint32_t entry; /* offset of the code that its jump leads to, in its file's; 0: none */
	const struct plan_function *planned;
	uintptr_t bias; /* of its file */
};

/*
 * Code that a jump leads to has, in front of 6 bytes of a call of this stub, the address of its
 * struct ta_function. Behind the call stand lea 8(%rsp), %rsp; jmp *-24(%rsp), then the function's
 * own instructions. The stub returns to one or the other, with all registers as they were.
 */
extern const char ta_function_enter_stub[] __attribute__((visibility("hidden")));
#define TA_FUNCTION_ENTER                                                                          \
	{                                                                                          \
		0x48, 0x8d, 0x64, 0x24, 0x08, 0xff, 0x64, 0x24, 0xe8                               \
	}

/*
 * The same for a probe, amid its code: 144 bytes below its stack pointer lies where to return to,
 * above that the address of its struct ta_function. Flags stay as they were, too.
 */
extern const char ta_function_probe_stub[] __attribute__((visibility("hidden")));

/* Before the first function is changed. False: there is no memory. */
bool ta_function_begin(void);

/*
 * Call an empty function some times, as if it had been chosen. It has no name: what lies between
 * its calls is the time that we take (own-time.h). In an image that records, no hook runs.
 */
void ta_function_measure(void);

/* The first thread that calls a function begins to measure what we take, on its own stack. */
void ta_function_measure_soon(void);

/* What a thunk is for when its recording has ended. */
extern struct ta_function ta_function_gone __attribute__((visibility("hidden")));

/*
 * When a function that is recorded ends by jumping to us, it is over, and the return address
 * becomes what it was: for those that look at who has called them. slot: where it lies.
 */
void ta_function_end_tail(uintptr_t *slot);

/*
 * Obey the plan that came with the welcome (ta_image.plan, schemas/functions-plan.h), and change
 * what is loaded. Once in an image, before main. What cannot be done is counted: all of it where
 * unwinders do not find their way through thunks.
 */
void ta_functions_begin(bool may_unwind);

/* A library was loaded, and none of its code runs yet: change it too. pc lies in its code. */
void ta_functions_loaded(uintptr_t pc);

/*
 * The same in a program that runs already, in steps. List what is to be written, having made what
 * it leads to (ATTACH_FUNCTIONS); other threads run. When all others stand: before the first jump
 * is written, and when all have been taken back and no thread is in code of ours any more. By then
 * thunks lead on and do nothing, as some may still lie on stacks.
 */
struct attach_functions;
void ta_functions_list(struct attach_functions *ret_functions);
void ta_functions_commit(void);
void ta_functions_end(void);

/* Is any function changed? */
bool ta_functions_are_on(void);
