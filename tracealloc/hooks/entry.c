#include "tracealloc/hooks/entry.h"

#include <errno.h>
#include <string.h>

#include "tracealloc/pause.h"
#include "tracealloc/ring/clock.h"

#if defined(__x86_64__)
#define WORD_BYTES	 8u
#define STEP_BYTES	 UINT64_C(0x10000) /* mmap_min_addr is a multiple of it, too */
#define REACH_BYTES	 (UINT64_C(1) << 30) /* of jmp rel32 are 2 GiB */
#define JUMP_BYTES	 5u
#define JUMP		 0xe9u
#define FAR_JUMP	 0x25ffu /* jmp *0(%rip): the address stands behind it */
#define FIXED_NO_REPLACE 0x100000 /* MAP_FIXED_NOREPLACE, Linux 4.17; before: a mere wish */

/* The word of the program's code that begins with the function. */
static _Atomic uint64_t *word;
static uint64_t original;
static _Atomic uint32_t n_within; /* calls of ta_entry_hit() that may write to it */
static _Atomic bool is_back; /* as it was: nobody needs to write to it any more */

/* For the code below. */
__attribute__((used, visibility("hidden"))) uintptr_t ta_entry_address;
__attribute__((used, visibility("hidden"))) void ta_entry_hit(void);
extern const char ta_entry_stub[] __attribute__((visibility("hidden")));

/* What a function may find in registers is kept: arguments, rax for their number, r10. */
__asm__(".text\n"
	".hidden ta_entry_stub\n"
	".globl ta_entry_stub\n"
	".type ta_entry_stub, @function\n"
	"ta_entry_stub:\n"
	"	endbr64\n"
	"	push %rax\n"
	"	push %rcx\n"
	"	push %rdx\n"
	"	push %rsi\n"
	"	push %rdi\n"
	"	push %r8\n"
	"	push %r9\n"
	"	push %r10\n"
	"	push %r11\n"
	"	call ta_entry_hit\n"
	"	pop %r11\n"
	"	pop %r10\n"
	"	pop %r9\n"
	"	pop %r8\n"
	"	pop %rdi\n"
	"	pop %rsi\n"
	"	pop %rdx\n"
	"	pop %rcx\n"
	"	pop %rax\n"
	"	jmp *ta_entry_address(%rip)\n"
	".size ta_entry_stub, . - ta_entry_stub\n");

static long protect(uint64_t address, long protection)
{
	return ta_syscall(SYS_mprotect, (long)(address & ~(uint64_t)(TA_PAGE_BYTES - 1)),
			  TA_PAGE_BYTES, protection, 0, 0, 0);
}

/*
 * Each thread that comes here before the instructions are back does the same. The page is closed by
 * the last of those who may still write to it: who counts itself in later finds is_back set.
 */
void ta_entry_hit(void)
{
	uint64_t id = atomic_load(&ta_image.control->start_after);

	if (id)
		ta_pause_passed(id, ta_ticks_begin());
	atomic_fetch_add(&n_within, 1);
	/* Eight bytes at once, of one line of the cache: others see the jump or what was there. */
	if (!atomic_load(&is_back))
		atomic_store(word, original);
	atomic_store(&is_back, true);
	/* A filter may end whoever asks for that. The page stays as it is then. */
	if (atomic_fetch_sub(&n_within, 1) == 1 &&
	    !atomic_load_explicit(&ta_sandbox_is_on, memory_order_relaxed))
		protect(ta_entry_address, PROT_READ | PROT_EXEC);
}

/* A page within reach, below the function; a negative errno: there is none. */
static long map_near(uint64_t address)
{
	uint64_t page = address & ~(STEP_BYTES - 1);

	for (uint64_t at = STEP_BYTES; at < REACH_BYTES && at < page; at += STEP_BYTES) {
		long found = ta_syscall(SYS_mmap, (long)(page - at), TA_PAGE_BYTES,
					PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | FIXED_NO_REPLACE, -1, 0);

		if (found == (long)(page - at))
			return found;
		if (found > 0)
			ta_syscall(SYS_munmap, found, TA_PAGE_BYTES, 0, 0, 0, 0);
	}
	return -ENOMEM;
}

/* The function's first instructions become a jump to the page, and that one jumps to us. */
static bool arm(uint64_t address)
{
	const char *stub = ta_entry_stub;
	const uint16_t far_jump = FAR_JUMP;
	const uint32_t no_offset = 0;
	uint8_t code[WORD_BYTES];
	long page = map_near(address);

	if (page < 0)
		return false;
	memcpy((void *)page, &far_jump, sizeof(far_jump));
	memcpy((void *)(page + 2), &no_offset, sizeof(no_offset));
	memcpy((void *)(page + 6), &stub, sizeof(stub));
	if (protect((uint64_t)page, PROT_READ | PROT_EXEC) < 0 ||
	    protect(address, PROT_READ | PROT_WRITE | PROT_EXEC) < 0) {
		ta_syscall(SYS_munmap, page, TA_PAGE_BYTES, 0, 0, 0, 0);
		return false;
	}
	ta_entry_address = address;
	word = (_Atomic uint64_t *)(address & ~(uint64_t)(WORD_BYTES - 1));
	original = atomic_load(word);
	int32_t offset = (int32_t)(page - (long)(address + JUMP_BYTES));
	memcpy(code, &original, sizeof(code));
	code[address % WORD_BYTES] = JUMP;
	memcpy(&code[address % WORD_BYTES + 1], &offset, sizeof(offset));
	uint64_t patched;
	memcpy(&patched, code, sizeof(patched));
	atomic_store(word, patched);
	return true;
}
#else
/* No recorder asks for it here. */
static bool arm(uint64_t address)
{
	(void)address;
	return false;
}
#endif

void ta_entry_arm(void)
{
	uint64_t address = ta_image.process->entry_address;

	if (address && !arm(address))
		atomic_fetch_add(&ta_image.control->n_entries_refused, 1);
}
