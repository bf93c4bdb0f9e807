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
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	int status = run_program(programs, argc, argv);

	say_return("outermost-main", __builtin_return_address(0));
	return status;
}
