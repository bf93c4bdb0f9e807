/*
 * Calls that are neither malloc nor mmap, each so often that a test can count. Built with
 * -fno-builtin.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>

#include "victim.h"

#define PAGE 4096u

/*
 * C23's, which glibc has had since 2.43: before, they are those of the library that is preloaded.
 */
static int sized(void)
{
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	void *volatile nothing = NULL;

	*(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
	*(void **)&free_aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
	if (!free_sized || !free_aligned_sized || dlerror())
		return 1;
	free_sized(malloc(6001), 6001);
	free_aligned_sized(aligned_alloc(64, 6016), 64, 6016);
	free_sized(nothing, 0);
	return 0;
}

/* Three pages up, one down; then to where it was. Asking and failing are no events. */
static int breaks(void)
{
	char *first = sbrk(0);
	char *old = sbrk(3 * PAGE);

	say("first", (uintptr_t)first);
	say("old", (uintptr_t)old);
	memset(old, 1, 3 * PAGE);
	sbrk(-(intptr_t)PAGE);
	if (sbrk(INTPTR_MAX) != (void *)-1)
		return 1;
	return brk(first);
}

/* Each call twice: once on memory that is there, once where there is none. */
static int advice(void)
{
	char *memory =
		mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *none = (char *)16;
	int failed = 0;

	say("memory", (uintptr_t)memory);
	madvise(memory + PAGE, 2 * PAGE, MADV_DONTNEED);
	mprotect(memory + 3 * PAGE, PAGE, PROT_NONE);
	mprotect(memory + 3 * PAGE, PAGE - 1, PROT_READ);
	if (mlock(memory + 4 * PAGE, PAGE) || mlock2(memory + 5 * PAGE, PAGE, MLOCK_ONFAULT) ||
	    munlock(memory + 4 * PAGE, PAGE) || munlockall())
		return 1;
	failed += madvise(none, PAGE, MADV_DONTNEED) < 0;
	failed += mprotect(none, PAGE, PROT_READ) < 0;
	failed += mlock(none, SIZE_MAX / 2) < 0;
	say("failed", (uint64_t)failed);
	return 0;
}

/* A segment of 5 pages and a bit, once to write and once to read. */
static int segments(void)
{
	int id = shmget(IPC_PRIVATE, 5 * PAGE + 1, 0600 | IPC_CREAT);
	char *writable = shmat(id, NULL, 0);
	char *readable = shmat(id, NULL, SHM_RDONLY);

	shmctl(id, IPC_RMID, NULL);
	if (writable == (char *)-1 || readable == (char *)-1)
		return 77;
	say("id", (uint64_t)id);
	say("writable", (uintptr_t)writable);
	say("readable", (uintptr_t)readable);
	writable[0] = 1;
	shmdt(writable);
	return shmdt(writable) == 0 || readable[0] != 1;
}

static pthread_barrier_t barrier;

static void *named(void *unused)
{
	free(malloc(10));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	prctl(PR_SET_NAME, "by itself and long", 0, 0, 0);
	return unused;
}

/* A thread is named by another one, then by itself; the first thread names itself. */
static int names(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, named, NULL);
	pthread_barrier_wait(&barrier);
	if (pthread_setname_np(thread, "by another"))
		return 1;
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	pthread_setname_np(pthread_self(), "first");
	return prctl(PR_GET_DUMPABLE) < 0;
}

static const struct program programs[] = {
	{ "sized", sized },	  { "breaks", breaks }, { "advice", advice },
	{ "segments", segments }, { "names", names },	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_program(programs, argc, argv);
}
