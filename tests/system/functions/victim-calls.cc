// Functions that are left in every way there is. Each counts its own calls, in memory that forked
// children share; the counts are printed at the end, and results of passing arguments on the way.
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                               \
	X(leaf)                                                                                    \
	X(recurse)                                                                                 \
	X(throws) X(passes) X(catches) X(jumps) X(sets) X(tail) X(even) X(odd) X(vectors)          \
		X(floats) X(long_double) X(pair) X(large) X(variadic) X(many) X(traced) X(thread)  \
			X(ends_thread) X(handler) X(raises) X(coroutine) X(yields) X(forks)        \
				X(child) X(again) X(after) X(cleanup) X(near) X(nearer)

#define NUMBER(name) n_##name,
enum { FUNCTIONS(NUMBER) N };
#define NAME(name) "f_" #name,
static const char *const names[] = { FUNCTIONS(NAME) };

static long *counts;
static volatile long sink;
#define CALLED(name) __atomic_fetch_add(&counts[n_##name], 1, __ATOMIC_RELAXED)
#if defined(__clang__)
#define F extern "C" __attribute__((noinline, optnone))
#else
#define F extern "C" __attribute__((noinline, noclone, noipa))
#endif

struct two {
	long a;
	double b;
};

struct many {
	long words[12];
};

F long f_leaf(long n)
{
	CALLED(leaf);
	return n + 1;
}

/* What a call leaves open would lie around this one. */
F void f_after(void)
{
	CALLED(after);
	sink++;
}

F long f_recurse(long n)
{
	CALLED(recurse);
	long inner = n > 0 ? f_recurse(n - 1) : 0;
	sink += inner;
	return inner + n;
}

struct guard {
	~guard();
};

F void f_cleanup(void)
{
	CALLED(cleanup);
	sink++;
}

guard::~guard()
{
	f_cleanup();
}

F void f_throws(long n)
{
	CALLED(throws);
	if (n % 3 != 0)
		throw std::runtime_error("thrown");
	sink++;
}

F void f_passes(long n)
{
	CALLED(passes);
	guard here;
	f_throws(n);
	sink++;
}

F long f_catches(long n)
{
	CALLED(catches);
	try {
		f_passes(n);
	} catch (const std::exception &) {
		f_leaf(n);
		return 1;
	}
	return 0;
}

static jmp_buf there;

F void f_jumps(long n)
{
	CALLED(jumps);
	sink += n;
	longjmp(there, 1);
}

F long f_sets(long n)
{
	CALLED(sets);
	if (setjmp(there) == 0)
		f_jumps(n);
	return n;
}

F long f_tail(long n)
{
	CALLED(tail);
	return f_leaf(n + 1);
}

F long f_odd(long n);
F long f_even(long n)
{
	CALLED(even);
	return n == 0 ? 1 : f_odd(n - 1);
}

F long f_odd(long n)
{
	CALLED(odd);
	return n == 0 ? 0 : f_even(n - 1);
}

typedef double vector __attribute__((vector_size(16)));

F vector f_vectors(vector a, vector b, vector c, vector d, vector e, vector f, vector g, vector h)
{
	CALLED(vectors);
	return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8;
}

F float f_floats(float a, double b, int c, float d)
{
	CALLED(floats);
	return a + (float)b * (float)c - d;
}

F long double f_long_double(long double a, long double b)
{
	CALLED(long_double);
	return a * 3 - b;
}

F two f_pair(long a, double b)
{
	CALLED(pair);
	return two{ a + 1, b * 2 };
}

F many f_large(const many *in, long a)
{
	CALLED(large);
	many out = *in;
	for (long i = 0; i < 12; i++)
		out.words[i] += a * i;
	return out;
}

F double f_variadic(int n, ...)
{
	CALLED(variadic);
	va_list list;
	double sum = 0;
	va_start(list, n);
	for (int i = 0; i < n; i++)
		sum += i % 2 ? va_arg(list, double) : (double)va_arg(list, long);
	va_end(list);
	return sum;
}

F long f_many(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	CALLED(many);
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

/* All return addresses are of this file and the C library. */
F long f_traced(void)
{
	CALLED(traced);
	void *frames[64];
	int n = backtrace(frames, 64);
	char **texts = backtrace_symbols(frames, n);
	long is_odd = n < 3;
	for (int i = 0; i < n; i++)
		is_odd |= strstr(texts[i], "tracealloc") != NULL;
	free(texts);
	return is_odd;
}

F void f_ends_thread(void)
{
	CALLED(ends_thread);
	pthread_exit((void *)7);
}

F void *f_thread(void *ends)
{
	CALLED(thread);
	guard here;
	for (long i = 0; i < 5000; i++)
		sink += f_leaf(i);
	if (ends)
		f_ends_thread();
	return (void *)5;
}

static sigjmp_buf outside;

F void f_handler(int number)
{
	CALLED(handler);
	f_leaf(number);
	if (number == SIGUSR2)
		siglongjmp(outside, 1);
}

F void f_raises(int number)
{
	CALLED(raises);
	raise(number);
	sink++;
}

static ucontext_t main_context, contexts[2];

F void f_yields(long i)
{
	CALLED(yields);
	swapcontext(&contexts[i], &main_context);
}

F void f_coroutine(int i)
{
	CALLED(coroutine);
	for (long k = 0; k < 10; k++) {
		f_leaf(k);
		f_yields(i);
	}
}

F void f_child(void)
{
	CALLED(child);
	f_leaf(1);
}

F int f_forks(void)
{
	CALLED(forks);
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		f_child();
		_exit(3);
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

/* The program once more. */
F void f_again(void)
{
	CALLED(again);
	f_leaf(1);
}

/* Something leads to their third byte, and none of them has room before it. */
extern "C" long f_near(long n);
extern "C" long f_nearer(long n);
#define FUNCTION(name, code)                                                                       \
	".globl " name "\n.type " name ", @function\n" name ": " code                              \
	"\nret\n.size " name ", . - " name "\n"
#define UP "xor %eax, %eax\n1: inc %rax\ncmp %rdi, %rax\njl 1b"
__asm__(".text\n" FUNCTION("alone", "mov $1, %eax"));
__asm__(FUNCTION("f_near", UP) FUNCTION("f_nearer", UP));
__asm__(".skip 16, 0x90\n" FUNCTION("last", "mov $1, %eax"));

static void count_up(long n)
{
	long sum = 0;
	for (long i = 1; i <= n; i++) {
		CALLED(near);
		CALLED(nearer);
		sum += f_near(i) + f_nearer(n - i);
	}
	printf("up %ld\n", sum);
}

static void leave_by_exceptions(long n)
{
	long caught = 0;
	for (long i = 0; i < n; i++) {
		caught += f_catches(i);
		try {
			f_passes(i);
		} catch (const std::exception &) {
			caught++;
		}
		f_after();
	}
	printf("caught %ld\n", caught);
}

static void leave_by_jumps(long n)
{
	long sum = 0;
	for (long i = 0; i < n; i++) {
		sum += f_sets(i);
		f_after();
		sum += f_tail(i) + f_even(i % 20) + f_recurse(i % 30);
		f_after();
	}
	printf("sum %ld\n", sum);
}

static void pass_arguments(long n)
{
	const many start = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 } };
	long double sum = 0;
	for (long i = 0; i < n; i++) {
		double x = (double)i;
		vector v = { x, -x };
		vector r = f_vectors(v, v, v, v, v, v, v, v);
		two p = f_pair(i, x);
		many m = f_large(&start, i);
		sum += r[0] + 2 * r[1] + p.a + p.b + f_floats((float)x, x, 3, 1);
		sum += f_long_double(x, x / 3) + m.words[11] + m.words[1];
		sum += f_variadic(6, i, x, i + 1, x + 1, i + 2, x + 2);
		sum += f_many(i, 1, 2, 3, 4, 5, 6, 7, i);
	}
	printf("arguments %.6Lf\n", sum);
}

static void run_threads(void)
{
	pthread_t threads[6];
	long sum = 0;
	for (long i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, f_thread, (void *)(i & 1));
	for (long i = 0; i < 6; i++) {
		void *result;
		pthread_join(threads[i], &result);
		sum += (long)result;
	}
	printf("threads %ld\n", sum);
}

static void take_signals(long n)
{
	struct sigaction action = {};
	action.sa_handler = f_handler;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	for (long i = 0; i < n; i++) {
		f_raises(SIGUSR1);
		if (sigsetjmp(outside, 1) == 0)
			f_raises(SIGUSR2);
		f_after();
	}
}

static void run_coroutines(void)
{
	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(65536);
		contexts[i].uc_stack.ss_size = 65536;
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], (void (*)())f_coroutine, 1, i);
	}
	for (int k = 0; k < 11; k++)
		for (int i = 0; i < 2; i++) {
			swapcontext(&main_context, &contexts[i]);
			f_leaf(i);
		}
	f_after();
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? atoi(argv[1]) : memfd_create("counts", 0);
	if (argc == 1 && ftruncate(fd, 4096) < 0)
		return 1;
	counts = (long *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (argc > 1) {
		f_again();
		return 0;
	}
	leave_by_exceptions(300);
	leave_by_jumps(1000);
	pass_arguments(3000);
	count_up(100);
	printf("traced %ld\n", f_traced());
	run_threads();
	take_signals(50);
	run_coroutines();
	printf("forked %d\n", f_forks());
	f_after();
	fflush(stdout);
	if (fork() == 0) {
		char number[16];
		snprintf(number, sizeof(number), "%d", fd);
		execl("/proc/self/exe", argv[0], number, (char *)NULL);
		_exit(1);
	}
	wait(NULL);
	for (int i = 0; i < N; i++)
		printf("count %s %ld\n", names[i], counts[i]);
	return 0;
}
