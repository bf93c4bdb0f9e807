/*
 * Memory by other ways than small blocks, each of a known size. Says where, as NAME=ADDRESS, and at
 * the end where the kernel has its heap.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define PAGE 4096ul
#define KEPT 400 /* blocks that libc's heap grows for */

static char text[4096]; /* stdio would allocate */

static void say(const char *name, uintptr_t value)
{
	size_t n = strlen(text);

	snprintf(text + n, sizeof(text) - n, "%s=%" PRIuPTR "\n", name, value);
}

static char *shared_pages(int fd, unsigned long n)
{
	if (ftruncate(fd, (off_t)(n * PAGE)) < 0)
		return MAP_FAILED;
	return mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* A block that has a map to itself, twice: the second one is the first, moved. */
static void large(void)
{
	char *block = malloc(300001);

	memset(block, 1, 300001);
	say("large", (uintptr_t)block);
	block = realloc(block, 3000001);
	say("moved", (uintptr_t)block);
	free(block);
}

/* The kernel's own word, without stdio, which has blocks too. */
static void say_heap(void)
{
	static char maps[1 << 16];
	char *line;
	size_t n = 0;
	ssize_t got;
	uintptr_t start = 0, end = 0;
	FILE *file = fopen("/proc/self/maps", "r");

	setvbuf(file, NULL, _IONBF, 0);
	while ((got = read(fileno(file), maps + n, sizeof(maps) - 1 - n)) > 0)
		n += (size_t)got;
	line = strstr(maps, "[heap]");
	while (line > maps && line[-1] != '\n')
		line--;
	if (line)
		sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end);
	say("heap_start", start);
	say("heap_end", end);
	fclose(file);
}

int main(void)
{
	char *memory = shared_pages(memfd_create("victim", 0), 7);
	int id = shmget(IPC_PRIVATE, 5 * PAGE, 0600 | IPC_CREAT);
	char *segment = shmat(id, NULL, 0);
	char *again = shmat(id, NULL, SHM_RDONLY);
	char *huge = mmap(NULL, 2u << 20, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	mmap(NULL, 9 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	shmctl(id, IPC_RMID, NULL);
	say("memfd", (uintptr_t)memory);
	say("segment", (uintptr_t)segment);
	say("huge", huge == MAP_FAILED ? 0 : (uintptr_t)huge);
	if (again != (char *)-1)
		shmdt(again);
	large();
	for (int i = 0; i < KEPT; i++)
		memset(malloc(20000), 1, 20000);
	say("break", (uintptr_t)sbrk(3 * PAGE));
	for (int i = 0; i < KEPT; i++)
		memset(malloc(20000), 1, 20000);
	madvise(memory + PAGE, 2 * PAGE, MADV_DONTNEED);
	madvise(memory + PAGE, PAGE, MADV_WILLNEED);
	mprotect(memory, PAGE, PROT_NONE);
	mprotect(memory, PAGE, PROT_READ | PROT_WRITE);
	say("locked", (uintptr_t)mlock(memory + 4 * PAGE, PAGE));
	munlock(memory + 4 * PAGE, PAGE);
	munmap(memory + 6 * PAGE, PAGE);
	say_heap();
	return write(STDOUT_FILENO, text, strlen(text)) < 0;
}
