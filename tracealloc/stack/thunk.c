#include "tracealloc/stack/thunk.h"

#include <sys/mman.h>

#include "schemas/attach.h"
#include "schemas/functions-plan.h"
#include "tracealloc/arch/arch.h"

struct ta_places ta_places;

#if defined(__x86_64__)
#if defined(TA_AGENT)
#define VISIBILITY ".hidden " /* nobody attaches to who has the agent */
#else
#define VISIBILITY ".globl "
#endif
/*
 * A caller finds a thunk T as a return address, asks for the rule at T - 1 (hence the room before
 * the first one), and gets: the frame is empty; the return address, less one, as that of an
 * interrupted instruction is looked up as it is, stands at ((rip + 4) & -16) + 16 * TA_MAX_THUNKS.
 * DWARF 5 sections 2.5 and 6.4.2.3 (DW_CFA_val_expression); augmentation "S". At the ret, 11 bytes
 * behind T, 8 bytes more are on the stack.
 *
 * Processors foresee a return by the call that it belongs to. So a function is entered by a call
 * that ends at its thunk (functions/calls.c says what it finds below the stack pointer), and the
 * thunk returns to where the program's own call would have. What stands beside them is put over
 * the pages behind when it is needed: nobody else pays for it.
 */
__asm__(".section .text.zz_thunks,\"ax\",@progbits\n"
	".p2align 12\n"
	".hidden ta_thunks\n"
	".globl ta_thunks\n"
	".hidden ta_thunk_data\n"
	".globl ta_thunk_data\n" VISIBILITY ATTACH_THUNKS "\n"
	".type " ATTACH_THUNKS ", @function\n"
	".cfi_startproc\n"
	".cfi_signal_frame\n"
	/* breg7 0, breg16 0, lit15, and, lit11, eq, lit3, shl, plus */
	".cfi_escape 0x0f, 11, 0x77, 0, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x29, 0x33, 0x24, 0x22\n"
	/* breg16 4, const1s -16, and, plus_uconst 0x100000, deref, lit1, minus */
	".cfi_escape 0x16, 16, 12, 0x80, 4, 0x09, 0xf0, 0x1a, 0x23, 0x80, 0x80, 0x40, 0x06, 0x31, "
	"0x1c\n"
	"	.skip 4096, 0xcc\n"
	"ta_thunks:\n" ATTACH_THUNKS ":\n"
	".rept 65536\n"
	"	call ta_thunk_leave_stub\n"
	"	push 0xffff5(%rip)\n"
	"	ret\n"
	"	call *-32(%rsp)\n" /* to the function of the next one */
	".endr\n"
	".cfi_endproc\n"
	".size " ATTACH_THUNKS ", . - " ATTACH_THUNKS "\n"
	"ta_thunk_data:\n"
	"	.skip 0x100000\n"
	".previous\n");

/* clang-format off */
__asm__(".text\n"
	".type ta_thunk_leave_stub, @function\n"
	"ta_thunk_leave_stub:\n"
	".cfi_startproc\n" TA_KEEP "	lea 80(%rbp), %rdi\n"
	"	call *ta_thunk_leave(%rip)\n" TA_GIVE_BACK "	ret\n"
	".cfi_endproc\n"
	".size ta_thunk_leave_stub, . - ta_thunk_leave_stub\n");
/* clang-format on */
_Static_assert(TA_THUNK_BYTES *TA_MAX_THUNKS == 0x100000, "as above");
_Static_assert(sizeof(struct ta_thunk_data) == TA_THUNK_BYTES, "one beside each");

__attribute__((used, visibility("hidden"))) void (*ta_thunk_leave)(uintptr_t *slot);
static _Atomic uint32_t n_thunks = 1; /* that are taken; none has the number 0 */

bool ta_thunk_begin(void (*leave)(uintptr_t *slot))
{
	size_t n_bytes = TA_THUNK_BYTES * TA_MAX_THUNKS;

	if (ta_thunk_leave)
		return true; /* some may lie on stacks */
	long memory =
		ta_syscall(SYS_mmap, (long)ta_thunk_data, (long)n_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	ta_thunk_leave = leave;
	return memory == (long)ta_thunk_data;
}

uint32_t ta_thunk_take(struct ta_function *function, uintptr_t to)
{
	uint32_t number = atomic_load(&n_thunks);

	do {
		if (number >= TA_MAX_THUNKS)
			return 0;
	} while (!atomic_compare_exchange_weak(&n_thunks, &number, number + 1));
	ta_thunk_data[number] = (struct ta_thunk_data){ to, function };
	return number;
}

void ta_thunk_forget(struct ta_function *gone)
{
	for (uint32_t i = 1; i < atomic_load(&n_thunks); i++)
		ta_thunk_data[i].function = gone;
}
#endif

static bool is_moved_call(const struct ta_place *place, uintptr_t pc)
{
	uint32_t low = 0, high = place->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (place->bias + place->planned[middle].address < pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	const struct plan_function *function = &place->planned[low - 1];

	return function->ends_in_call && place->bias + function->address + function->n_moved == pc;
}

/* A probe's stack begins behind its nop. */
static bool is_probe(const struct ta_place *place, uintptr_t pc)
{
	for (uint32_t i = 0; place->has_probes && i < place->n; i++)
		if (place->planned[i].kind != PLAN_FUNCTION &&
		    place->bias + place->planned[i].behind == pc)
			return true;
	return false;
}

bool ta_thunk_follows_call(uintptr_t pc)
{
	for (uint32_t i = 0; i < ta_places.n; i++) {
		const struct ta_place *place = &ta_places.items[i];

		if (atomic_load(&place->is_there) && pc > place->start && pc <= place->end)
			return is_moved_call(place, pc) || is_probe(place, pc);
	}
	return false;
}
