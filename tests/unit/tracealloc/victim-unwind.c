/* Programs whose stacks are hard to walk. They write what they know of them. */
#include <alloca.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>
#include <sys/mman.h>

#include "victim.h"

#define distinct     __attribute__((noinline))
#define keep_frame() __asm__ volatile("" : : : "memory")

/* malloc(size), and the address that it returns to. */
#define malloc_at(size, pc)                                                                        \
	__asm__ volatile("leaq 1f(%%rip), %%rbx\n\tcall malloc@PLT\n1:"                            \
			 : "=&b"(pc)                                                               \
			 : "D"((size_t)(size))                                                     \
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc")

static void say_return(const char *name, const void *address)
{
	say(name, (uintptr_t)address);
}

static distinct void leaf(size_t size)
{
	uint64_t pc;

	malloc_at(size, pc);
	say("frame1", pc);
	say_return("frame2", __builtin_return_address(0));
	keep_frame();
}

static distinct void in_handler(int signal, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	(void)signal;
	(void)info;
	leaf(2100);
	say("interrupted", (uint64_t)interrupted->uc_mcontext.gregs[REG_RIP] + 1);
	interrupted->uc_mcontext.gregs[REG_RIP] += 2; /* over the ud2 */
}

static distinct void trap(void)
{
	__asm__ volatile("ud2");
	say_return("trapped", __builtin_return_address(0));
	keep_frame();
}

static int signal_with(int flags)
{
	struct sigaction action = { .sa_sigaction = in_handler, .sa_flags = SA_SIGINFO | flags };

	sigaction(SIGILL, &action, NULL);
	trap();
	keep_frame();
	return 0;
}

static int own_stack(void)
{
	return signal_with(0);
}

static int alternate_stack(void)
{
	const stack_t stack = {
		.ss_sp = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0),
		.ss_size = 65536,
	};

	sigaltstack(&stack, NULL);
	return signal_with(SA_ONSTACK);
}

static distinct void with_size(size_t n)
{
	volatile char *bytes = alloca(n);

	bytes[0] = 1;
	leaf(2200);
	bytes[n - 1] = 1;
}

/* Frames of 16 sizes, then back. */
static int sized(void)
{
	for (size_t i = 0; i < 32; i++)
		with_size(40 + i * 7 % 16 * 112);
	return 0;
}

/* With arguments on the stack and a size of its own, gcc finds the caller through a saved rsp. */
static distinct int aligned(int a, int b, int c, int d, int e, int f, size_t size, int g)
{
	volatile char bytes[64] __attribute__((aligned(64)));
	volatile char *more = alloca(size);

	more[0] = 1;
	bytes[0] = (uintptr_t)bytes % 64 == 0;
	leaf(size);
	return bytes[0] + a + b + c + d + e + f + g;
}

/* A frame that aligns itself, from callers that lie differently. */
static int realigned(void)
{
	for (size_t i = 1; i < 9; i++) {
		volatile char *bytes = alloca(i * 16);

		bytes[0] = 1;
		bytes[1] = (char)aligned(1, 2, 3, 4, 5, 6, 2300, 7);
	}
	return 0;
}

/* Jumps to malloc: its caller is what malloc returns to. */
__asm__(".text\n.type tail_malloc, @function\ntail_malloc:\n.cfi_startproc\n"
	"\tjmp malloc@PLT\n.cfi_endproc\n.size tail_malloc, .-tail_malloc");
void *tail_malloc(size_t size);

static int tail_call(void)
{
	uint64_t pc;

	__asm__ volatile("leaq 1f(%%rip), %%rbx\n\tcall tail_malloc\n1:"
			 : "=&b"(pc)
			 : "D"((size_t)2400)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	say("frame1", pc);
	say_return("frame2", __builtin_return_address(0));
	return 0;
}

/*
 * Frames as assembly makes them (libcrypto, gnutls): rsp is saved in the aligned frame, and the CFA
 * is *(rsp + 24) + 8. And one whose CFA is rbx + 16 while it calls, which a walk cannot know.
 */
__asm__(".text\n.type saved_rsp, @function\nsaved_rsp:\n.cfi_startproc\n"
	"\tmovq %rsp, %rax\n.cfi_def_cfa_register 0\n"
	"\tsubq $72, %rsp\n\tandq $-64, %rsp\n\tmovq %rax, 24(%rsp)\n"
	".cfi_escape 0x0f, 5, 0x77, 24, 0x06, 0x23, 8\n"
	"\tcall leaf_for_assembly\n"
	"\tmovq 24(%rsp), %rsp\n.cfi_def_cfa 7, 8\n\tret\n.cfi_endproc\n"
	".size saved_rsp, .-saved_rsp\n"
	".type based_on_rbx, @function\nbased_on_rbx:\n.cfi_startproc\n"
	"\tpushq %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset 3, -16\n"
	"\tmovq %rsp, %rbx\n.cfi_def_cfa_register 3\n\tandq $-64, %rsp\n"
	"\tcall leaf_for_assembly\n"
	"\tmovq %rbx, %rsp\n.cfi_def_cfa_register 7\n\tpopq %rbx\n.cfi_def_cfa_offset 8\n"
	"\tret\n.cfi_endproc\n.size based_on_rbx, .-based_on_rbx\n"
	/* gcc's way to align a frame, interrupted before rbp is set up: the CFA is r10. */
	".type trap_in_prologue, @function\ntrap_in_prologue:\n.cfi_startproc\n"
	"\tleaq 8(%rsp), %r10\n.cfi_def_cfa 10, 0\n\tandq $-64, %rsp\n"
	"\tud2\n"
	"\tleaq -8(%r10), %rsp\n.cfi_def_cfa 7, 8\n\tret\n.cfi_endproc\n"
	".size trap_in_prologue, .-trap_in_prologue");
void saved_rsp(size_t size);
void based_on_rbx(size_t size);
void trap_in_prologue(void);
void leaf_for_assembly(size_t size);

void leaf_for_assembly(size_t size)
{
	leaf(size);
	say_return("frame3", __builtin_return_address(0));
	keep_frame();
}

static int assembly(void)
{
	saved_rsp(2800);
	return 0;
}

static int assembly_on_rbx(void)
{
	based_on_rbx(2900);
	return 0;
}

static int in_prologue(void)
{
	struct sigaction action = { .sa_sigaction = in_handler, .sa_flags = SA_SIGINFO };

	sigaction(SIGILL, &action, NULL);
	trap_in_prologue();
	keep_frame();
	return 0;
}

static ucontext_t main_context;
static ucontext_t contexts[2];

static distinct void allocate_in_turn(size_t size)
{
	for (int i = 0; i < 10; i++) {
		free(malloc(size));
		swapcontext(&contexts[size == 3001], &contexts[size == 3000]);
	}
	keep_frame();
}

static void first_coroutine(void)
{
	allocate_in_turn(3000);
}

static void second_coroutine(void)
{
	allocate_in_turn(3001);
}

/* Two coroutines that allocate in turn, on stacks of their own inside of main's. */
static int in_turn(void)
{
	static void (*const start[])(void) = { first_coroutine, second_coroutine };
	char stacks[2][32768];

	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], start[i], 0);
	}
	swapcontext(&main_context, &contexts[0]);
	return 0;
}

static jmp_buf back;
static volatile bool may_jump = true; /* gcc warns of recursion without a way out */

static distinct void jump_out(unsigned depth)
{
	if (depth) {
		jump_out(depth - 1);
	} else {
		free(malloc(2501));
		if (may_jump)
			longjmp(back, 1);
	}
	keep_frame();
}

/* After a jump the same places of the stack hold other frames. */
static int jumped(void)
{
	for (volatile unsigned i = 0; i < 10; i++) {
		if (!setjmp(back))
			jump_out(i);
		leaf(2500);
	}
	return 0;
}

static void call_generated(const uint8_t *code, size_t n_bytes, size_t call_ends)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(page, code, n_bytes);
	say("generated", (uintptr_t)page + call_ends);
	((void (*)(void (*)(size_t), size_t))(uintptr_t)page)(leaf, 2600);
}

/* push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret */
static int generated_with_frame_pointer(void)
{
	static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
					0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3 };

	call_generated(code, sizeof(code), 12);
	say_return("outer", __builtin_return_address(0));
	return 0;
}

/* sub rsp, 8; mov rax, rdi; mov rdi, rsi; call rax; add rsp, 8; ret */
static int generated_without(void)
{
	static const uint8_t code[] = { 0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xf8, 0x48, 0x89,
					0xf7, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3 };

	call_generated(code, sizeof(code), 12);
	return 0;
}

static void from_plugin(void)
{
	leaf(2700);
}

static distinct uintptr_t run_plugin(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);
	void (*run)(void (*)(void)) =
		handle ? (void (*)(void (*)(void)))dlsym(handle, "plugin_run") : NULL;

	if (!run)
		abort();
	run(from_plugin);
	dlclose(handle);
	return (uintptr_t)run;
}

/* Two modules in turn at one address, whose frames differ in size. */
static int replaced(void)
{
	bool same = true;
	uintptr_t first = run_plugin(PLUGIN_SMALL);

	for (int i = 0; i < 10; i++)
		same &= run_plugin(i % 2 ? PLUGIN_SMALL : PLUGIN_BIG) == first;
	say("same", same);
	return 0;
}

static const struct program programs[] = {
	{ "own-stack", own_stack },
	{ "alternate-stack", alternate_stack },
	{ "sized", sized },
	{ "realigned", realigned },
	{ "tail-call", tail_call },
	{ "jumped", jumped },
	{ "generated-with-frame-pointer", generated_with_frame_pointer },
	{ "generated-without", generated_without },
	{ "replaced", replaced },
	{ "assembly", assembly },
	{ "assembly-on-rbx", assembly_on_rbx },
	{ "in-prologue", in_prologue },
	{ "in-turn", in_turn },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	int status = run_program(programs, argc, argv);

	say_return("outermost-main", __builtin_return_address(0));
	return status;
}
