#include "tracealloc/agent/agent.h"

#include <string.h>
#include <sys/auxv.h>

#include "schemas/agent.h"
#include "schemas/allocator-entries.h"
#include "schemas/trace-format.h"
#include "tracealloc/environment.h"
#include "tracealloc/functions/functions.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/image.h"
#include "tracealloc/leave.h"
#include "tracealloc/limit.h"
#include "tracealloc/plugin/plugin.h"
#include "tracealloc/rebind.h"
#include "tracealloc/stack/thunk.h"

#define MAX_HEADERS 32u

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

void ta_agent_start(void) __attribute__((visibility("hidden")));
void ta_agent_begin(const uintptr_t *stack) __attribute__((visibility("hidden")));

const ElfW(auxv_t) * ta_agent_auxv;
char **environ;
void *__libc_stack_end;
struct ta_real ta_real __attribute__((section(".data.real"))); /* written before we run */
uint8_t ta_arena[TA_ARENA_BYTES] TA_LARGE;

/* Of libgcc (unwind-dw2-fde.h); where it has found the rules of a function. */
struct bases {
	uintptr_t text;
	uintptr_t data;
	uintptr_t function;
};
static const void *(*find_fde)(uintptr_t pc, struct bases *ret_bases)
	__attribute__((section(".data.real")));
extern const uint8_t ta_agent_fde[] __attribute__((visibility("hidden")));

/* The rule of stack/thunk.c once more: the program's unwinder reads no tables but its own. */
__asm__(".section .rodata\n"
	".balign 8\n"
	"1:	.long 3f - 2f\n"
	"2:	.long 0\n"
	"	.byte 1\n"
	"	.asciz \"zRS\"\n"
	"	.byte 1, 0x78, 16, 1, 0x1b\n"
	"	.byte 0x0c, 7, 0\n" /* def_cfa rsp, 0 */
	"	.byte 0x16, 16, 12, 0x80, 0, 0x09, 0xf0, 0x1a, 0x23, 0x80, 0x80, 0x40, 0x06, 0x31\n"
	"	.byte 0x1c\n"
	"	.balign 4\n"
	"3:\n"
	".hidden ta_agent_fde\n"
	".globl ta_agent_fde\n"
	"ta_agent_fde:\n"
	"	.long 5f - 4f\n"
	"4:	.long 4b - 1b\n"
	"	.long ta_thunks - .\n"
	"	.long 0x100000\n"
	"	.byte 0\n"
	"	.balign 4\n"
	"5:	.long 0\n"
	".text\n");

static const void *find_rules(uintptr_t pc, struct bases *ret_bases)
{
	if (ta_likely(!ta_thunk_is(pc)))
		return find_fde(pc, ret_bases);
	*ret_bases = (struct bases){ .function = (uintptr_t)ta_thunks };
	return ta_agent_fde;
}

#define HOOK(name, call)                                                                           \
	{                                                                                          \
		call, 0, (uintptr_t)name, (uintptr_t)&ta_real.name                                 \
	}

static const struct agent_hook hooks[] = {
	HOOK(malloc, TRACE_CALL_MALLOC),
	HOOK(calloc, TRACE_CALL_CALLOC),
	HOOK(realloc, TRACE_CALL_REALLOC),
	HOOK(free, TRACE_CALL_FREE),
	HOOK(posix_memalign, TRACE_CALL_POSIX_MEMALIGN),
	HOOK(memalign, TRACE_CALL_MEMALIGN),
	HOOK(aligned_alloc, TRACE_CALL_ALIGNED_ALLOC),
	HOOK(valloc, TRACE_CALL_VALLOC),
	HOOK(pvalloc, TRACE_CALL_PVALLOC),
	/* Of two functions with one name the one calls the other, as those of musl do. */
	HOOK(__libc_malloc, TRACE_CALL_MALLOC),
	HOOK(__libc_calloc, TRACE_CALL_CALLOC),
	HOOK(__libc_realloc, TRACE_CALL_REALLOC),
	HOOK(__libc_free, TRACE_CALL_FREE),
	HOOK(__libc_memalign, TRACE_CALL_MEMALIGN),
	HOOK(execve, ENTRY_FIRST_OTHER + ENTRY_EXECVE),
	HOOK(prctl, ENTRY_FIRST_OTHER + ENTRY_PRCTL),
	HOOK(syscall, ENTRY_FIRST_OTHER + ENTRY_SYSCALL),
	{ ENTRY_FIRST_OTHER + ENTRY_FIND_FDE, 0, (uintptr_t)find_rules, (uintptr_t)&find_fde },
	HOOK(sigaction, ENTRY_FIRST_OTHER + ENTRY_SIGACTION),
	HOOK(sigprocmask, ENTRY_FIRST_OTHER + ENTRY_SIGPROCMASK),
	HOOK(pthread_sigmask, ENTRY_FIRST_OTHER + ENTRY_PTHREAD_SIGMASK),
	HOOK(sigaltstack, ENTRY_FIRST_OTHER + ENTRY_SIGALTSTACK),
	HOOK(pthread_create, ENTRY_FIRST_OTHER + ENTRY_PTHREAD_CREATE),
	HOOK(mmap, TRACE_CALL_MMAP),
	HOOK(munmap, TRACE_CALL_MUNMAP),
	HOOK(mremap, TRACE_CALL_MREMAP),
	HOOK(brk, TRACE_CALL_BRK),
	HOOK(sbrk, TRACE_CALL_SBRK),
};

__attribute__((visibility("default"), section(".data.agent"))) struct agent memsight_agent = {
	.magic = AGENT_MAGIC,
	.version = RING_VERSION,
	.n_hooks = sizeof(hooks) / sizeof(*hooks),
	.hooks = (uintptr_t)hooks,
	.start = (uintptr_t)ta_agent_start,
};

/*
 * The program's first instruction finds what the kernel has left it: its stack, and zeros in all
 * registers (psABI 3.4.1; arch/x86/include/asm/elf.h, ELF_PLAT_INIT).
 */
__asm__(".text\n"
	".hidden ta_agent_start\n"
	".globl ta_agent_start\n"
	".type ta_agent_start, @function\n"
	"ta_agent_start:\n"
	".cfi_startproc\n"
	".cfi_undefined rip\n"
	"	movq %rsp, %rdi\n"
	"	xorl %ebp, %ebp\n"
	"	pushq %rdx\n"
	"	pushq memsight_agent_entry(%rip)\n"
	"	call ta_agent_begin\n"
	"	xorl %eax, %eax\n"
	"	xorl %ecx, %ecx\n"
	"	xorl %esi, %esi\n"
	"	xorl %edi, %edi\n"
	"	xorl %r8d, %r8d\n"
	"	xorl %r9d, %r9d\n"
	"	xorl %r10d, %r10d\n"
	"	popq %r11\n"
	"	popq %rdx\n"
	"	jmp *%r11\n"
	".cfi_endproc\n"
	".size ta_agent_start, . - ta_agent_start\n"
	".hidden memsight_agent_entry\n"
	".set memsight_agent_entry, memsight_agent + 32\n");
_Static_assert(__builtin_offsetof(struct agent, entry) == 32, "as above");

/* ---- What a static program has ---- */

/* The headers of the file, with that of the table that was made for it. */
static ElfW(Half) list_headers(ElfW(Phdr) to[MAX_HEADERS], uintptr_t *ret_bias)
{
	const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
	size_t n = getauxval(AT_PHNUM);
	uintptr_t bias = 0;

	n = n < MAX_HEADERS - 1 ? n : MAX_HEADERS - 1;
	memcpy(to, headers, n * sizeof(*to));
	for (size_t i = 0; i < n; i++)
		if (to[i].p_type == PT_PHDR)
			bias = (uintptr_t)headers - to[i].p_vaddr;
	/* Without that header the file is where its own addresses say, or its first bytes tell. */
	for (size_t i = 0; !bias && i < n; i++)
		if (to[i].p_type == PT_LOAD && to[i].p_offset == 0 &&
		    (uintptr_t)headers - to[i].p_vaddr > to[i].p_memsz)
			bias = ((uintptr_t)headers & -(uintptr_t)TA_PAGE_BYTES) - to[i].p_vaddr;
	if (memsight_agent.table)
		to[n++] = (ElfW(Phdr)){ .p_type = PT_GNU_EH_FRAME,
					.p_vaddr = memsight_agent.table - bias,
					.p_memsz = memsight_agent.table_bytes };
	*ret_bias = bias;
	return (ElfW(Half))n;
}

/* The program, and what the kernel has mapped beside it. */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
	static ElfW(Phdr) headers[MAX_HEADERS];
	const ElfW(Ehdr) *kernel = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct dl_phdr_info info = { .dlpi_name = "", .dlpi_phdr = headers };

	info.dlpi_phnum = list_headers(headers, &info.dlpi_addr);
	int r = visit(&info, sizeof(info), data);
	if (r != 0 || !kernel)
		return r;
	info.dlpi_phdr = (const void *)((uintptr_t)kernel + kernel->e_phoff);
	info.dlpi_phnum = kernel->e_phnum;
	info.dlpi_addr = (uintptr_t)kernel;
	for (unsigned i = 0; i < info.dlpi_phnum; i++)
		if (info.dlpi_phdr[i].p_type == PT_LOAD)
			info.dlpi_addr = (uintptr_t)kernel - info.dlpi_phdr[i].p_vaddr;
	return visit(&info, sizeof(info), data);
}

bool ta_agent_may_sample(void)
{
	return memsight_agent.may_sample;
}

/* ---- The start ---- */

__attribute__((used)) void ta_agent_begin(const uintptr_t *stack)
{
	uint32_t state = TA_ASK;
	const uintptr_t *at = stack + 1 + stack[0] + 1;

	environ = (char **)(uintptr_t)at;
	while (*at)
		at++;
	ta_agent_auxv = (const void *)(at + 1);
	__libc_stack_end = (void *)(uintptr_t)stack;
	/* It is no part of the program: a core dump is that of the program alone. */
	ta_syscall(SYS_madvise, (long)memsight_agent.base, (long)memsight_agent.n_bytes,
		   MADV_DONTDUMP, 0, 0, 0);
	memcpy(ta_told.socket, memsight_agent.socket, sizeof(ta_told.socket));
	ta_told.socket[sizeof(ta_told.socket) - 1] = '\0';
	if (atomic_compare_exchange_strong(&ta_state.word, &state, TA_BUSY))
		ta_image_attach();
	if (ta_image.control)
		ta_functions_begin(memsight_agent.may_unwind);
}

/* ---- What the agent has not ---- */

void ta_environment_start(void)
{
}

void ta_real_resolve(void)
{
}

bool ta_real_is_resolving(void)
{
	return false;
}

size_t ta_arena_size(const void *block)
{
	(void)block;
	return 0;
}

bool ta_rebind_is_allocator(uintptr_t pc)
{
	(void)pc;
	return false;
}

void ta_rebind_begin(void)
{
}

/* What is lent to the recorder is not asked back: who opens a userfaultfd of its own gets none. */
void ta_leave_memory(void)
{
}

bool ta_plugins_are_on;
_Atomic bool ta_plugins_must_look;

void ta_plugins_ask_all(enum trace_asked when)
{
	(void)when;
}

/* Limits of the program are its own: what there is no room for is not recorded. */
long ta_limit_call(long number, const long arguments[4])
{
	return ((long (*)(long, long, long, long, long))ta_real.syscall)(
		number, arguments[0], arguments[1], arguments[2], arguments[3]);
}

void ta_limit_make_private_room(void)
{
}

void ta_limit_inherit(const struct ring_control *control)
{
	(void)control;
}

void ta_limit_publish(void)
{
}

bool ta_limit_make_room(uint64_t pool_bytes)
{
	(void)pool_bytes;
	return false;
}
