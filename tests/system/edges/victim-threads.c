/*
 * Threads, stacks and signals that are out of the ordinary. Expect as many blocks of BLOCK bytes as
 * they print; all of them are given back.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "../../unit/tracealloc/victim.h"

#define BLOCK	     4801
#define N_COROUTINES 100

static const char *self;
static int count;

static void one(void)
{
	free(malloc(BLOCK));
}

static void *make_one(void *unused)
{
	(void)unused;
	one();
	return NULL;
}

static int start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *))
{
	pthread_attr_t attributes;
	int r;

	pthread_attr_init(&attributes);
	if (stack_bytes)
		pthread_attr_setstacksize(&attributes, stack_bytes);
	r = pthread_create(thread, &attributes, run, NULL);
	pthread_attr_destroy(&attributes);
	return r;
}

/* ---- Stacks ---- */

static void on_overflow(int signal)
{
	(void)signal;
	for (int i = 0; i < 10; i++)
		one();
	say("blocks", 10);
	_exit(3);
}

static __attribute__((noinline)) int endless(volatile int depth)
{
	volatile char area[512];

	area[0] = (char)depth;
	return depth < INT_MAX ? endless(depth + 1) + area[0] : 0;
}

/* The handler runs on a stack of its own, the interrupted one is full. */
static int overflow(void)
{
	struct sigaction action = { .sa_handler = on_overflow, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = 65536 };

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	free(malloc(1));
	if (sigaltstack(&stack, NULL) || sigaction(SIGSEGV, &action, NULL))
		return 90;
	return endless(0);
}

static ucontext_t scheduler, coroutines[N_COROUTINES];

static void be_coroutine(int i)
{
	for (int round = 0; round < 5; round++) {
		void *block = malloc(BLOCK);

		swapcontext(&coroutines[i], &scheduler);
		free(block);
	}
}

/* Coroutines on stacks that malloc gave, in turns; each block outlives a switch. */
static int switch_stacks(void)
{
	for (int i = 0; i < N_COROUTINES; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack.ss_sp = malloc(32768);
		coroutines[i].uc_stack.ss_size = 32768;
		coroutines[i].uc_link = &scheduler;
		makecontext(&coroutines[i], (void (*)(void))be_coroutine, 1, i);
	}
	for (int round = 0; round < 6; round++)
		for (int i = 0; i < N_COROUTINES; i++)
			swapcontext(&scheduler, &coroutines[i]);
	say("blocks", 5 * N_COROUTINES);
	return 0;
}

/* The smallest stacks that there are, and larger ones. */
static int tiny_stacks(void)
{
	pthread_t thread;

	for (int i = 0; i < 64; i++) {
		if (start(&thread, (size_t)PTHREAD_STACK_MIN + (size_t)i % 8 * 1024, make_one))
			return 90;
		pthread_join(thread, NULL);
	}
	say("blocks", 64);
	return 0;
}

/* ---- Ends of threads ---- */

static pthread_key_t keys[4];
static int rounds_seen;

/* Comes back in each of the rounds that libc makes. */
static void again(void *value)
{
	one();
	rounds_seen++;
	pthread_setspecific(keys[(uintptr_t)value - 1], value);
}

static void *use_keys(void *unused)
{
	for (uintptr_t i = 0; i < 4; i++)
		pthread_setspecific(keys[i], (void *)(i + 1));
	one();
	return unused;
}

static int destructors(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_key_create(&keys[i], again);
	if (start(&thread, 0, use_keys))
		return 90;
	pthread_join(thread, NULL);
	say("rounds", (uint64_t)rounds_seen);
	say("blocks", (uint64_t)rounds_seen + 1);
	return 0;
}

static void *allocate_until_cancelled(void *unused)
{
	void *blocks[8];

	(void)unused;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	for (;;) {
		for (int i = 0; i < 8; i++)
			blocks[i] = malloc(100);
		for (int i = 0; i < 8; i++)
			free(blocks[i]);
		pthread_testcancel();
	}
	return NULL;
}

/* Threads that are cancelled while they do nothing but allocate. */
static int cancel(void)
{
	pthread_t thread;
	void *result;
	int n = 0;

	for (int i = 0; i < 20; i++) {
		if (start(&thread, 0, allocate_until_cancelled))
			return 90;
		usleep(300);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		n += result == PTHREAD_CANCELED;
	}
	one();
	say("cancelled", (uint64_t)n);
	say("blocks", 1);
	return 0;
}

/* ---- Numbers of threads ---- */

static int sequence(void)
{
	pthread_t thread;

	for (int i = 0; i < count; i++) {
		if (start(&thread, 65536, make_one))
			return 90;
		pthread_join(thread, NULL);
	}
	say("blocks", (uint64_t)count);
	return 0;
}

static pthread_barrier_t all_there;

static void *make_one_together(void *unused)
{
	void *block = malloc(BLOCK);

	pthread_barrier_wait(&all_there);
	free(block);
	return unused;
}

static int parallel(void)
{
	static pthread_t threads[8192];

	pthread_barrier_init(&all_there, NULL, (unsigned)count);
	for (int i = 0; i < count; i++)
		if (start(&threads[i], 65536, make_one_together))
			return 90;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	say("blocks", (uint64_t)count);
	return 0;
}

/* Threads that all get the same number; in a namespace of ours, where we may say which. */
static int same_number(void)
{
	pthread_t thread;

	for (int i = 0; i < count; i++) {
		int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);

		if (fd < 0 || write(fd, "300", 3) != 3)
			return 77;
		close(fd);
		if (start(&thread, 0, make_one))
			return 90;
		pthread_join(thread, NULL);
	}
	say("blocks", (uint64_t)count);
	return 0;
}

/* No thread and no process can be made. */
static int no_more(void)
{
	struct rlimit limit = { 1, 1 };
	pthread_t thread;

	if (setrlimit(RLIMIT_NPROC, &limit))
		return 90;
	one();
	say("thread", (uint64_t)start(&thread, 0, make_one));
	say("process", fork() < 0 ? (uint64_t)errno : 0);
	one();
	say("blocks", 2);
	return 0;
}

static volatile int stop;

static void *churn(void *unused)
{
	(void)unused;
	while (!stop)
		free(malloc(100));
	return NULL;
}

static int end_busy(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		if (start(&thread, 0, churn))
			return 90;
	one();
	exit(count % 100);
}

/* Starts programs that end while their threads allocate. */
static int busy_ends(void)
{
	char number[16];
	char *arguments[] = { (char *)self, "end-busy", number, NULL };
	int n_right = 0, status;

	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		snprintf(number, sizeof(number), "%d", i);
		if (pid == 0) {
			execv(self, arguments);
			_exit(99);
		}
		waitpid(pid, &status, 0);
		n_right += WIFEXITED(status) && WEXITSTATUS(status) == i % 100;
	}
	say("right", (uint64_t)n_right);
	say("blocks", (uint64_t)count);
	return 0;
}

/* ---- What a program can see of its signals ---- */

static void say_signals(const char *where)
{
	sigset_t mask;

	printf("%s\n", where);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (int i = 1; i < NSIG; i++) {
		struct sigaction action = { 0 };

		if (sigaction(i, NULL, &action) == 0 &&
		    (action.sa_handler || sigismember(&mask, i)))
			printf("%d: handler %d flags %x blocked %d\n", i,
			       action.sa_handler == SIG_IGN, (unsigned)action.sa_flags,
			       sigismember(&mask, i));
	}
	fflush(stdout);
}

static void *say_signals_of_thread(void *unused)
{
	one();
	say_signals("thread");
	return unused;
}

static int signals(void)
{
	pthread_t thread;

	one();
	say_signals("main");
	if (start(&thread, 0, say_signals_of_thread))
		return 90;
	pthread_join(thread, NULL);
	say("blocks", 2);
	return 0;
}

static void *name_itself(void *unused)
{
	one();
	pthread_setname_np(pthread_self(), "first name");
	one();
	pthread_setname_np(pthread_self(), "second name");
	one();
	return unused;
}

static int names(void)
{
	pthread_t thread;

	if (start(&thread, 0, name_itself))
		return 90;
	pthread_join(thread, NULL);
	say("blocks", 3);
	return 0;
}

static const struct program programs[] = {
	{ "overflow", overflow },
	{ "switch-stacks", switch_stacks },
	{ "tiny-stacks", tiny_stacks },
	{ "destructors", destructors },
	{ "cancel", cancel },
	{ "sequence", sequence },
	{ "parallel", parallel },
	{ "same-number", same_number },
	{ "no-more", no_more },
	{ "end-busy", end_busy },
	{ "busy-ends", busy_ends },
	{ "signals", signals },
	{ "names", names },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	self = argv[0];
	count = argc > 2 ? atoi(argv[2]) : 1;
	return run_program(programs, argc, argv);
}
