/*
 * Programs that a tracer must leave as they are: whole sets of keys, bad pointers, stacks that are
 * not aligned. What they print is the same traced and untraced; expect as many blocks of BLOCK
 * bytes as they say.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>

#include "../../unit/tracealloc/victim.h"

#define BLOCK 4903

static void make(int n)
{
	for (int i = 0; i < n; i++)
		free(malloc(BLOCK));
}

/* ---- Keys of threads ---- */

static void *make_one(void *unused)
{
	make(1);
	return unused;
}

/* All keys that there are, then threads whose ends nobody tells of. */
static int take_keys(void)
{
	pthread_key_t key;
	uint64_t n = 0;

	for (pthread_t thread, i = 0; i < 10; i++) {
		pthread_create(&thread, NULL, make_one, NULL);
		pthread_join(thread, NULL);
	}
	while (pthread_key_create(&key, NULL) == 0)
		n++;
	say("keys", n);
	for (pthread_t thread, i = 0; i < 500; i++) {
		pthread_create(&thread, NULL, make_one, NULL);
		pthread_join(thread, NULL);
	}
	return 0;
}

static int take_c11_keys(void)
{
	uint64_t n = 0;
	tss_t key;

	make(1);
	while (tss_create(&key, NULL) == thrd_success)
		n++;
	say("keys", n);
	make(1);
	return 0;
}

/* ---- Pointers that only the kernel may look at ---- */

static char *word[] = { "true", NULL };
static char *volatile nowhere = (char *)16; /* compilers complain of what they see */

static int wait_for(int r, pid_t pid)
{
	if (r == 0)
		waitpid(pid, NULL, 0);
	return r;
}

static int spawn(const char *path, char *const argv[], char *const environment[], bool is_searched)
{
	pid_t pid = 0;

	return wait_for((is_searched ? posix_spawnp : posix_spawn)(&pid, path, NULL, NULL, argv,
								   environment),
			pid);
}

static int failed(int r)
{
	return r < 0 ? errno : -r;
}

/* The end of a page behind which nothing can be read. */
static char *page_end(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(pages, 'x', 4096);
	mprotect(pages + 4096, 4096, PROT_NONE);
	return pages + 4096;
}

static int start_with_bad_pointers(void)
{
	char *bad_text = page_end() - 100; /* it has no end */
	char **bad_list = (char **)page_end() - 1; /* nor has this */
	char *bad_entry[] = { "A=1", nowhere, NULL };
	char *open_entry[] = { bad_text, NULL };
	const char *path = "/bin/true";

	*bad_list = "A=1";
	say("execve path", (uint64_t)failed(execve(nowhere, word, environ)));
	say("execve open path", (uint64_t)failed(execve(bad_text, word, environ)));
	say("execve argv", (uint64_t)failed(execve(path, (char **)nowhere, environ)));
	say("execve environment", (uint64_t)failed(execve(path, word, (char **)nowhere)));
	say("execve open list", (uint64_t)failed(execve(path, word, bad_list)));
	say("execve entry", (uint64_t)failed(execve(path, word, bad_entry)));
	say("execve open entry", (uint64_t)failed(execve(path, word, open_entry)));
	say("execv path", (uint64_t)failed(execv(nowhere, word)));
	say("execl path", (uint64_t)failed(execl(nowhere, "x", NULL)));
	say("execle", (uint64_t)failed(execle(path, "x", NULL, (char **)nowhere)));
	say("fexecve", (uint64_t)failed(fexecve(STDOUT_FILENO, word, (char **)nowhere)));
	say("execvpe", (uint64_t)failed(execvpe("true", word, (char **)nowhere)));
	say("spawn path", (uint64_t)spawn(nowhere, word, environ, false));
	say("spawn environment", (uint64_t)spawn(path, word, (char **)nowhere, false));
	say("spawn entry", (uint64_t)spawn(path, word, bad_entry, false));
	say("spawnp environment", (uint64_t)spawn("true", word, (char **)nowhere, true));
	say("spawnp none", (uint64_t)spawn("true", word, NULL, true));
	clearenv();
	say("system", (uint64_t)WEXITSTATUS(system(nowhere)));
	make(10);
	return 0;
}

/* ---- A stack that is 8 bytes beside what the ABI wants ---- */

#ifdef __x86_64__
static void *call_misaligned(void *function, uint64_t first, uint64_t second)
{
	void *result;

	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "andq $-16, %%rsp\n\t"
			 "subq $264, %%rsp\n\t"
			 "call *%%rax\n\t"
			 "movq %%rbx, %%rsp"
			 : "=a"(result), "+D"(first), "+S"(second)
			 : "a"(function)
			 : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "xmm0", "xmm1",
			   "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
	return result;
}

static int allocate_misaligned(void)
{
	for (int i = 0; i < 5000; i++)
		call_misaligned(free, (uint64_t)call_misaligned(malloc, BLOCK, 0), 0);
	for (int i = 0; i < 100; i++) {
		void *block = call_misaligned(calloc, 1, BLOCK);

		block = call_misaligned(realloc, (uint64_t)block, (uint64_t)(9000 + i));
		call_misaligned(free, (uint64_t)block, 0);
	}
	call_misaligned(free, (uint64_t)call_misaligned(malloc, 3 << 20, 0), 0);
	return 0;
}
#else
static int allocate_misaligned(void)
{
	make(5100);
	return 0;
}
#endif

/* ---- Ways to the C library that go past whoever stands before it ---- */

/* The library of this test, next to the program; is_deep: it finds libc before it finds others. */
static int open_deep(const char *name, int mode)
{
	void *(*exchange)(void *block, int n);
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/%s", getenv("EDGE_FOLDER"), name);
	library = dlopen(path, mode);
	exchange = library ? (void *(*)(void *, int))dlsym(library, "deep_exchange") : NULL;
	if (!exchange)
		return 1;
	free(exchange(malloc(BLOCK), 100));
	return 0;
}

static int open_deep_now(void)
{
	return open_deep("libedge-deep.so", RTLD_NOW | RTLD_DEEPBIND);
}

static int open_deep_lazy(void)
{
	return open_deep("libedge-deep.so", RTLD_LAZY | RTLD_DEEPBIND);
}

static int open_plain(void)
{
	return open_deep("libedge-deep.so", RTLD_LAZY);
}

/* What is asked for is in a library that came along. */
static int open_outer(void)
{
	return open_deep("libedge-outer.so", RTLD_LAZY);
}

static int open_deep_outer(void)
{
	return open_deep("libedge-outer.so", RTLD_LAZY | RTLD_DEEPBIND);
}

static int open_deep_sealed(void)
{
	return open_deep("libedge-deep-sealed.so", RTLD_NOW | RTLD_DEEPBIND);
}

static int open_deep_bare(void)
{
	return open_deep("libedge-deep-bare.so", RTLD_NOW | RTLD_DEEPBIND);
}

/* It allocates in its constructor, and nobody asks it for anything. */
static int open_deep_unasked(void)
{
	char path[4096];

	make(1);
	snprintf(path, sizeof(path), "%s/libedge-deep-bare.so", getenv("EDGE_FOLDER"));
	return dlopen(path, RTLD_NOW | RTLD_DEEPBIND) ? 0 : 1;
}

static int open_namespace(void)
{
	char path[4096];

	make(1);
	snprintf(path, sizeof(path), "%s/libedge-deep.so", getenv("EDGE_FOLDER"));
	return dlmopen(LM_ID_NEWLM, path, RTLD_NOW) ? 0 : 1;
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

/* By their other names, and by addresses that dlsym gives out. */
static int call_libc(void)
{
	void *library = dlopen("libc.so.6", RTLD_NOW);
	void *(*allocate)(size_t size) = (void *(*)(size_t))dlsym(library, "malloc");
	void (*give_back)(void *block) = (void (*)(void *))dlsym(library, "free");

	for (int i = 0; i < 100; i++) {
		__libc_free(__libc_realloc(__libc_malloc(16), BLOCK));
		__libc_free(__libc_calloc(1, BLOCK));
		free(__libc_memalign(64, BLOCK));
		__libc_free(malloc(BLOCK));
		give_back(allocate(BLOCK));
	}
	say("same", allocate == malloc && give_back == free);
	say("error", dlerror() != NULL);
	say("missing", dlsym(library, "no such function") != NULL);
	say("error", dlerror() != NULL);
	return 0;
}

/* ---- What a program forbids itself ---- */

static void leave(int status)
{
	syscall(SYS_exit, status);
}

static int make_strictly(long (*confine)(void))
{
	make(100);
	if (confine())
		return 1;
	make(1000); /* 2,000 events that have no time */
	leave(write(STDOUT_FILENO, "done\n", 5) != 5);
	return 2;
}

static long confine_by_prctl(void)
{
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
}

static long confine_by_syscall(void)
{
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
}

static int go_strict(void)
{
	return make_strictly(confine_by_prctl);
}

static int go_strict_by_syscall(void)
{
	return make_strictly(confine_by_syscall);
}

static void *run_strictly(void *unused)
{
	make_strictly(confine_by_prctl);
	return unused;
}

/* One thread alone: the others go on. */
static int let_a_thread_be_strict(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, run_strictly, NULL);
	pthread_join(thread, NULL);
	make(100);
	return 0;
}

static int make_hundred(void)
{
	make(100);
	return 0;
}

static void *make_hundred_in_thread(void *unused)
{
	make(100);
	return unused;
}

static void start_self(const char *how)
{
	char *arguments[] = { (char *)"/proc/self/exe", (char *)how, NULL };
	pid_t pid = fork();

	if (pid == 0) {
		make(100);
		execv(arguments[0], arguments);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

/* No time stamp counter: here, in a new thread, in a child. (glibc's loader itself reads it.) */
static int go_without_counter(void)
{
	pthread_t thread;
	pid_t pid;

	make(100);
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) && errno != EINVAL)
		return 1;
	make(100);
	pthread_create(&thread, NULL, make_hundred_in_thread, NULL);
	pthread_join(thread, NULL);
	pid = fork();
	if (pid == 0) {
		make(100);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	syscall(SYS_prctl, PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
	make(100);
	return 0;
}

#define IS(name, action)                                                                           \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_##action)

static const struct sock_filter few_calls[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	IS(write, ALLOW),
	IS(exit_group, ALLOW),
	IS(brk, ALLOW),
	IS(mmap, ALLOW),
	IS(munmap, ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static const struct sock_filter no_questions[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	IS(gettid, KILL_PROCESS),
	IS(getpid, KILL_PROCESS),
	IS(prctl, KILL_PROCESS),
	IS(sched_yield, KILL_PROCESS),
	IS(getrlimit, KILL_PROCESS),
	IS(mremap, KILL_PROCESS),
	IS(tgkill, KILL_PROCESS),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static const struct sock_filter no_sockets[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1 /* AF_UNIX */, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

#define FILTER(code) filter(code, sizeof(code) / sizeof(*code))
static void filter(const struct sock_filter *code, size_t n)
{
	struct sock_fprog program = { (unsigned short)n, (struct sock_filter *)code };

	free(malloc(1)); /* libc asks for a random number */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		abort();
}

/* As many events as fill any pool, where to wait is death. */
static int fill_a_pool(void)
{
	FILTER(few_calls);
	make(1000000);
	return write(STDOUT_FILENO, "done\n", 5) != 5;
}

static int begin_a_thread_unasked(void)
{
	pthread_t thread;

	FILTER(no_questions);
	pthread_create(&thread, NULL, make_hundred_in_thread, NULL);
	pthread_join(thread, NULL);
	make(100);
	return 0;
}

static int run_without_sockets(void)
{
	FILTER(no_sockets);
	start_self("make");
	make(100);
	return 0;
}

/* What the kernel refuses changes nothing. */
static int fail_to_confine(void)
{
	struct sock_filter endless = BPF_STMT(BPF_LD | BPF_IMM, 0);
	struct sock_fprog program = { 1, &endless };

	say("strict", (uint64_t)failed((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0)));
	make(100);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	say("endless", (uint64_t)failed(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)));
	say("bad", (uint64_t)failed(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nowhere)));
	say("none", (uint64_t)failed(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL)));
	say("unknown", (uint64_t)failed((int)syscall(100000)));
	make(100);
	return 0;
}

/* ---- Limits that a program sets itself ---- */

/* How many MiB fit is its own business; what it reads is what it has set. */
static int limit_itself(void)
{
	struct rlimit limit = { 200 << 20, 300 << 20 }, was = { 0, 0 };
	uint64_t n = 0;

	make(100);
	setrlimit(RLIMIT_AS, &limit);
	while (malloc(8 << 20))
		n++;
	say("eights", n);
	getrlimit(RLIMIT_AS, &was);
	say("soft", was.rlim_cur);
	say("hard", was.rlim_max);
	limit.rlim_cur = 300 << 20;
	say("raised", (uint64_t)prlimit(0, RLIMIT_AS, &limit, &was));
	say("soft", was.rlim_cur);
	for (n = 0; malloc(8 << 20);)
		n++;
	say("eights", n);
	limit.rlim_cur = (rlim_t)301 << 20;
	say("too much", (uint64_t)failed(setrlimit(RLIMIT_AS, &limit)));
	say("nowhere", (uint64_t)failed(setrlimit(RLIMIT_AS, (void *)nowhere)));
	say("nowhere", (uint64_t)failed(getrlimit(RLIMIT_AS, (void *)nowhere)));
	return 0;
}

/* A MiB of private memory, most of it in pieces that the program maps: without us there are 12. */
static int limit_its_data(void)
{
	struct rlimit limit = { 1 << 20, 1 << 20 }, was = { 0, 0 };
	uint64_t n = 0;

	make(100);
	setrlimit(RLIMIT_DATA, &limit);
	while (mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED)
		n++;
	say("pieces", n >= 10);
	getrlimit(RLIMIT_DATA, &was);
	say("soft", was.rlim_cur);
	say("hard", was.rlim_max);
	make(100);
	return 0;
}

/* By the raw system calls; a program that is started reads what was set, too. */
static int limit_raw(void)
{
	struct rlimit limit = { 200 << 20, 1000 << 20 }, was = { 0, 0 };
	char *argv[] = { "sh", "-c", "ulimit -Sv; ulimit -Sd", NULL };
	int status = -1;
	uint64_t n = 0;
	pid_t pid;

	make(100);
	say("set", (uint64_t)syscall(SYS_prlimit64, 0, RLIMIT_AS, &limit, NULL));
	say("get", (uint64_t)syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &was));
	say("soft", was.rlim_cur);
	while (malloc(8 << 20))
		n++;
	say("eights", n);
	limit.rlim_cur = 800 << 20;
	say("set", (uint64_t)syscall(SYS_setrlimit, RLIMIT_AS, &limit));
	say("get", (uint64_t)syscall(SYS_getrlimit, RLIMIT_AS, &was));
	say("soft", was.rlim_cur);
	say("nowhere", (uint64_t)syscall(SYS_getrlimit, RLIMIT_AS, nowhere));
	say("errno", (uint64_t)errno);
	syscall(SYS_setrlimit, RLIMIT_DATA, &limit);
	pid = fork();
	if (pid == 0)
		execv("/bin/sh", argv);
	waitpid(pid, &status, 0);
	say("status", (uint64_t)status);
	return 0;
}

/* The same of private memory, of which it got little before its start. */
static int limit_given(void)
{
	struct rlimit was = { 0, 0 };
	uint64_t n = 0;

	make(100);
	getrlimit(RLIMIT_DATA, &was);
	say("soft", was.rlim_cur);
	while (mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED)
		n++;
	say("pieces", n >= was.rlim_cur / (64 << 10) - 10);
	make(100);
	return 0;
}

/* What a child has that it starts: the limits, and as much room. */
static int read_limits(void)
{
	struct rlimit limit = { 0, 0 };
	uint64_t n = 0;

	make(100);
	getrlimit(RLIMIT_AS, &limit);
	say("soft", limit.rlim_cur);
	say("hard", limit.rlim_max);
	getrlimit(RLIMIT_DATA, &limit);
	say("soft data", limit.rlim_cur);
	say("hard data", limit.rlim_max);
	while (malloc(8 << 20))
		n++;
	say("eights", n);
	return 0;
}

static void await(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	say("status", (uint64_t)status);
}

/* It has a limit of its own from the child of vfork, which is no limit of the parent's. */
static void start_by_vfork(char **argv, rlim_t bytes)
{
	struct rlimit limit = { bytes, 400 << 20 };
	pid_t pid = vfork();

	if (pid == 0) {
		if (bytes)
			syscall(SYS_prlimit64, 0, RLIMIT_AS, &limit, NULL);
		execv(argv[0], argv);
		_exit(127);
	}
	await(pid);
}

/* Programs that are started in each way have the limits that were set, with nothing of ours. */
static int start_limited(void)
{
	struct rlimit limit = { 200 << 20, 400 << 20 }, data = { 100 << 20, 300 << 20 };
	char *program = getenv("EDGE_PROGRAM"), *how = getenv("EDGE_HOW"), command[4096];
	char *argv[] = { program, how, NULL }, *nothing[] = { "/no/such/program", NULL };
	pid_t pid = 0;

	make(100);
	setrlimit(RLIMIT_AS, &limit);
	setrlimit(RLIMIT_DATA, &data);
	if (posix_spawn(&pid, program, NULL, NULL, argv, environ) == 0)
		await(pid);
	if (posix_spawnp(NULL, program, NULL, NULL, argv, environ) == 0)
		await(-1);
	pid = fork();
	if (pid == 0)
		_exit(execv(program, argv));
	await(pid);
	start_by_vfork(argv, 0);
	start_by_vfork(argv, 300 << 20);
	snprintf(command, sizeof(command), "ulimit -Sv; %s %s", program, how);
	say("status", (uint64_t)system(command));
	say("failed", (uint64_t)execv(nothing[0], nothing));
	getrlimit(RLIMIT_AS, &limit);
	say("soft", limit.rlim_cur);
	say("hard", limit.rlim_max);
	return 0;
}

/* ---- Memory that is locked, of a few MiB that may be ---- */

static uint64_t locked_bytes(void)
{
	char text[4096] = { 0 };
	int fd = open("/proc/self/status", O_RDONLY);
	const char *line;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	line = strstr(text, "VmLck:");
	return line ? strtoull(line + 6, NULL, 10) * 1024 : 0;
}

/* Which maps a loader makes is its own business; those of the program are all there. */
static void say_locked(const char *name, int r)
{
	uint64_t bytes = locked_bytes();

	say(name, (uint64_t)failed(r));
	say("some", bytes >= 1 << 20);
	say("more", bytes > 8 << 20);
}

/* What is added to the locked memory. Stacks that are not the same differ each time. */
static void say_block(size_t size)
{
	uint64_t before = locked_bytes();
	void *block = malloc(size);

	say("block", block != NULL);
	say("added", locked_bytes() - before);
	free(block);
}

static void *make_locked(void *before)
{
	make(100);
	*(uint64_t *)before = locked_bytes() - *(uint64_t *)before;
	return NULL;
}

static void start_locked(void)
{
	uint64_t bytes = locked_bytes();
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	say("thread", (uint64_t)pthread_create(&thread, &attributes, make_locked, &bytes));
	pthread_join(thread, NULL);
	say("its stack", bytes);
}

static int lock_itself(void)
{
	struct rlimit limit = { 8 << 20, 8 << 20 };

	make(100);
	setrlimit(RLIMIT_MEMLOCK, &limit);
	say_locked("current", mlockall(MCL_CURRENT));
	say_block(1 << 20);
	say_locked("future", mlockall(MCL_CURRENT | MCL_FUTURE));
	say_block(1 << 20);
	start_locked();
	say("past the limit",
	    mmap(NULL, 9 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	say_locked("again", mlockall(MCL_CURRENT));
	say_block(1 << 20);
	say_locked("none", munlockall());
	say_locked("on fault", mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
	say_locked("none", munlockall());
	say_locked("nothing", mlockall(0));
	say_locked("unknown", mlockall(MCL_CURRENT | 1024));
	mmap(NULL, 9 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say_locked("too much", mlockall(MCL_CURRENT));
	limit.rlim_cur = 0;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	say_locked("never", mlockall(MCL_CURRENT));
	make(100);
	return 0;
}

/* ---- Alternate stacks that hold one small handler ---- */

static volatile double burnt;

static void burn(void)
{
	for (long i = 0; i < 60000000; i++)
		burnt += (double)i;
}

static void burn_in_handler(int number)
{
	(void)number;
	burn();
}

static int handle_on_small_stacks(void)
{
	struct sigaction action = { .sa_handler = burn_in_handler, .sa_flags = SA_ONSTACK };

	sigaction(SIGUSR1, &action, NULL);
	for (size_t size = 2048; size <= 6144; size += 2048) {
		char *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		stack_t stack = { .ss_sp = memory + 4096, .ss_size = size };

		mprotect(memory, 4096, PROT_NONE);
		if (sigaltstack(&stack, NULL) < 0)
			return 1;
		burn();
		if (size > 2048)
			raise(SIGUSR1);
	}
	return 0;
}

static const struct program programs[] = {
	{ "keys", take_keys },
	{ "c11-keys", take_c11_keys },
	{ "bad-pointers", start_with_bad_pointers },
	{ "misaligned", allocate_misaligned },
	{ "deep", open_deep_now },
	{ "deep-lazy", open_deep_lazy },
	{ "deep-sealed", open_deep_sealed },
	{ "outer", open_outer },
	{ "deep-outer", open_deep_outer },
	{ "plain-lazy", open_plain },
	{ "deep-bare", open_deep_bare },
	{ "deep-unasked", open_deep_unasked },
	{ "namespace", open_namespace },
	{ "libc", call_libc },
	{ "strict", go_strict },
	{ "strict-by-syscall", go_strict_by_syscall },
	{ "strict-thread", let_a_thread_be_strict },
	{ "make", make_hundred },
	{ "no-counter", go_without_counter },
	{ "fill", fill_a_pool },
	{ "unasked", begin_a_thread_unasked },
	{ "no-sockets", run_without_sockets },
	{ "refused", fail_to_confine },
	{ "limit", limit_itself },
	{ "limit-data", limit_its_data },
	{ "limit-raw", limit_raw },
	{ "limit-given", limit_given },
	{ "limit-read", read_limits },
	{ "limit-started", start_limited },
	{ "lock", lock_itself },
	{ "small-stacks", handle_on_small_stacks },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_program(programs, argc, argv);
}
