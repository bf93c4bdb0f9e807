/*
 * Programs whose call stacks are known: they write the return addresses themselves. Built twice,
 * with frame pointers and without.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "victim.h"

#define distinct __attribute__((noinline))

/* Keeps a call from being the last thing that a function does, which would make it a jump. */
#define keep_frame() __asm__ volatile("" : : : "memory")

/*
 * malloc(size), and the address that it returns to. The caller must make other calls too, so that
 * its stack is aligned here.
 */
#if defined(__x86_64__)
#define malloc_at(size, pc)                                                                        \
	({                                                                                         \
		void *block_;                                                                      \
		__asm__ volatile("leaq 1f(%%rip), %%rbx\n\tcall malloc@PLT\n1:"                    \
				 : "=a"(block_), "=&b"(pc)                                         \
				 : "D"((size_t)(size))                                             \
				 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc"); \
		block_;                                                                            \
	})
#elif defined(__aarch64__)
#define malloc_at(size, pc)                                                                        \
	({                                                                                         \
		void *block_;                                                                      \
		__asm__ volatile("mov x0, %2\n\tadr %1, 1f\n\tbl malloc\n1:\tmov %0, x0"           \
				 : "=r"(block_), "=&r"(pc)                                         \
				 : "r"((size_t)(size))                                             \
				 : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9",     \
				   "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",  \
				   "x30", "memory", "cc");                                         \
		block_;                                                                            \
	})
#elif defined(__powerpc64__)
/* The linker makes an instruction of the nop that restores r2. */
#define malloc_at(size, pc)                                                                        \
	({                                                                                         \
		void *block_;                                                                      \
		__asm__ volatile("mr 3, %2\n\tbl malloc\n1:\tnop\n\tmr %0, 3\n\t"                  \
				 "bcl 20, 31, 2f\n2:\tmflr %1\n\taddi %1, %1, 1b - 2b"             \
				 : "=&r"(block_), "=&r"(pc)                                        \
				 : "r"((size_t)(size))                                             \
				 : "r0", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11",   \
				   "r12", "lr", "ctr", "memory", "cr0", "cr1", "cr5", "cr6",       \
				   "cr7");                                                         \
		block_;                                                                            \
	})
#endif

static void say_return(const char *name, const void *address)
{
	say(name, (uintptr_t)address);
}

static distinct void third(size_t size)
{
	uint64_t pc;

	malloc_at(size, pc);
	say("frame1", pc);
	say_return("frame2", __builtin_return_address(0));
	keep_frame();
}

static distinct void second(size_t size)
{
	third(size);
	say_return("frame3", __builtin_return_address(0));
	keep_frame();
}

static distinct void first(size_t size)
{
	second(size);
	say_return("frame4", __builtin_return_address(0));
	keep_frame();
}

/* main -> first -> second -> third -> malloc(1111). */
static int four(void)
{
	first(1111);
	return 0;
}

static void *four_in_thread(void *unused)
{
	(void)unused;
	first(1111);
	say_return("outermost", __builtin_return_address(0));
	return NULL;
}

static int in_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, four_in_thread, NULL);
	pthread_join(thread, NULL);
	return 0;
}

static distinct void shared(void)
{
	free(malloc(1212));
	keep_frame();
}

static distinct void caller_one(void)
{
	shared();
	keep_frame();
}

static distinct void caller_two(void)
{
	shared();
	keep_frame();
}

/* The same call from two callers, in turn. */
static int two_callers(void)
{
	for (int i = 0; i < 10; i++) {
		caller_one();
		caller_two();
	}
	return 0;
}

static distinct void recurse(unsigned depth)
{
	if (depth > 1)
		recurse(depth - 1);
	else
		free(malloc(1313));
	keep_frame();
}

static int deep(void)
{
	recurse(400);
	return 0;
}

static int compare(const void *left, const void *right)
{
	static int done;
	uint64_t pc;

	if (!done++) {
		malloc_at(1414, pc);
		say("frame1", pc);
		say_return("frame2", __builtin_return_address(0));
	}
	return *(const int *)left - *(const int *)right;
}

/* malloc in a function that the C library calls: it has no frame pointers. */
static int through_libc(void)
{
	int numbers[] = { 3, 1, 2 };

	qsort(numbers, 3, sizeof(*numbers), compare);
	return 0;
}

static ucontext_t main_context;
static ucontext_t other_context;

static void coroutine(void)
{
	uint64_t pc;

	malloc_at(1515, pc);
	say("frame1", pc);
}

/* malloc on a stack that is not the thread's. */
static int other_stack(void)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = 65536;
	other_context.uc_link = &main_context;
	makecontext(&other_context, coroutine, 0);
	swapcontext(&main_context, &other_context);
	return 0;
}

#if defined(__x86_64__)
static distinct void with_rbp(uintptr_t rbp, size_t size)
{
	uint64_t pc;
	uintptr_t value = rbp;

	/* rbp is data here, though the function says that it is a frame pointer. */
	__asm__ volatile("pushq %%rbp\n\tpushq %%rbp\n\tmovq %%rax, %%rbp\n\t"
			 "leaq 1f(%%rip), %%rbx\n\tcall malloc@PLT\n1:\n\t"
			 "popq %%rbp\n\tpopq %%rbp"
			 : "+a"(value), "=&b"(pc)
			 : "D"(size)
			 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	say("pc", pc);
	keep_frame();
}

/* malloc(1600 + i) while rbp holds data of many kinds. */
static int data_in_rbp(void)
{
	uint64_t fake[8] __attribute__((aligned(16))) = { 0 };
	uintptr_t here = (uintptr_t)fake;
	const uintptr_t values[] = {
		0,
		1,
		8,
		16,
		~UINT64_C(0),
		~UINT64_C(15),
		1u << 31,
		here,
		here + 1,
		here + 8,
		here - 65536,
		0x7fffffffeff0,
		(uintptr_t)data_in_rbp,
		(uintptr_t)&main_context,
		0x4141414141414140,
	};

	fake[0] = here + 16;
	fake[1] = (uintptr_t)with_rbp + 1; /* the function before may end in a call */
	fake[2] = here;
	fake[3] = 0x1234;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		with_rbp(values[i], 1600 + i);
	say("n", sizeof(values) / sizeof(*values));
	return 0;
}
#endif

static distinct void left_turn(unsigned level, unsigned path);

static distinct void right_turn(unsigned level, unsigned path)
{
	if (level == 0)
		free(malloc(1717));
	else if (path & 1)
		left_turn(level - 1, path >> 1);
	else
		right_turn(level - 1, path >> 1);
	keep_frame();
}

static distinct void left_turn(unsigned level, unsigned path)
{
	if (level == 0)
		free(malloc(1717));
	else if (path & 1)
		left_turn(level - 1, path >> 1);
	else
		right_turn(level - 1, path >> 1);
	keep_frame();
}

/* 2^17 different stacks: more nodes than a thread's table takes. */
static int many_stacks(void)
{
	for (unsigned path = 0; path < 1u << 17; path++)
		left_turn(17, path);
	return 0;
}

/* All of them once more, when the table has given most of them away. */
static int many_stacks_twice(void)
{
	for (unsigned path = 0; path < 1u << 18; path++)
		left_turn(17, path % (1u << 17));
	return 0;
}

static const struct program programs[] = {
	{ "four", four },
	{ "in-thread", in_thread },
	{ "two-callers", two_callers },
	{ "deep", deep },
	{ "through-libc", through_libc },
	{ "other-stack", other_stack },
#if defined(__x86_64__)
	{ "data-in-rbp", data_in_rbp },
#endif
	{ "many-stacks", many_stacks },
	{ "many-stacks-twice", many_stacks_twice },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	int status = run_program(programs, argc, argv);

	say_return("outermost-main", __builtin_return_address(0));
	return status;
}
