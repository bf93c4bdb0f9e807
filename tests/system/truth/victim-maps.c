/*
 * A program that changes its memory in every way, by functions of libc and by syscall(), as far as
 * possible within a place of its own, and says at its end what the kernel has there. Arguments:
 * seed, number of steps.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE	4096ul
#define N_PAGES 256ul

static char *place;
static int file;
static int segment;
static unsigned seed;

static unsigned long below(unsigned long n)
{
	return (unsigned long)rand_r(&seed) % n;
}

static void *at(unsigned long page)
{
	return place + page * PAGE;
}

static void map_at(unsigned long page, unsigned long n, int prot, int flags, int fd, long offset)
{
	if (below(2))
		mmap(at(page), n * PAGE, prot, flags, fd, offset);
	else
		syscall(SYS_mmap, at(page), n * PAGE, prot, flags, fd, offset);
}

static void unmap(unsigned long page, unsigned long n)
{
	if (below(2))
		munmap(at(page), n * PAGE);
	else
		syscall(SYS_munmap, at(page), n * PAGE);
}

static void move(unsigned long page, unsigned long n, unsigned long new_n, int flags, void *to)
{
	if (below(2))
		mremap(at(page), n * PAGE, new_n * PAGE, flags, to);
	else
		syscall(SYS_mremap, at(page), n * PAGE, new_n * PAGE, flags, to);
}

/* Pages of any kind at a random place: over what is there, or only where nothing is. */
static void map(unsigned long page, unsigned long n)
{
	int flags = below(2) ? MAP_FIXED : MAP_FIXED_NOREPLACE;

	switch (below(4)) {
	case 0:
		map_at(page, n, PROT_READ | PROT_WRITE, flags | MAP_PRIVATE, file, 0);
		break;
	case 1:
		map_at(page, n, PROT_READ, flags | MAP_SHARED, file, (long)PAGE);
		break;
	case 2:
		shmat(segment, at(page), below(2) ? SHM_REMAP : 0);
		break;
	default:
		map_at(page, n, PROT_READ | PROT_WRITE, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
}

static void change(unsigned long page, unsigned long n)
{
	unsigned long to = below(N_PAGES);

	switch (below(8)) {
	case 0:
	case 1:
		unmap(page, n);
		break;
	case 2: /* one map, old or new: of several the kernel moves some, and then fails */
		if (to + n + 8 > N_PAGES || (to + n + 8 > page && page + n > to))
			break;
		if (below(2))
			n = 1;
		else
			map_at(page, n, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		unmap(to, n + 8); /* else the kernel may do so and fail */
		move(page, n, n + below(8), MREMAP_MAYMOVE | MREMAP_FIXED, at(to));
		break;
	case 3:
		move(page, n, n > 1 ? n - 1 : 1, 0, NULL);
		break;
	case 4:
		mprotect(at(page), n * PAGE, below(2) ? PROT_NONE : PROT_READ);
		break;
	case 5:
		shmdt(at(page));
		break;
	default:
		map(page, n);
	}
}

static void print_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	uintptr_t start, end;

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2 &&
		    start < (uintptr_t)at(N_PAGES) && end > (uintptr_t)place)
			printf("map %" PRIuPTR " %" PRIuPTR "\n", start, end - start);
	fclose(maps);
}

int main(int argc, char **argv)
{
	int n_steps = argc > 2 ? atoi(argv[2]) : 0;

	seed = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	file = memfd_create("victim", 0);
	segment = shmget(IPC_PRIVATE, 5 * PAGE, 0600 | IPC_CREAT);
	if (ftruncate(file, (off_t)(64 * PAGE)) < 0)
		return 1;
	place = mmap(NULL, N_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	printf("place %" PRIuPTR " %lu\n", (uintptr_t)place, N_PAGES * PAGE);
	for (int i = 0; i < n_steps; i++) {
		unsigned long page = below(N_PAGES - 16);

		change(page, 1 + below(16));
	}
	shmctl(segment, IPC_RMID, NULL);
	print_maps();
	return 0;
}
