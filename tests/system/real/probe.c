#include "tests/system/real/probe.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"

#define RING_BYTES (16u << 20)
#define MAX_CPUS   64
#define PAGE_BYTES 4096u

static const char *const names[] = { "malloc",	     "calloc",	      "realloc",
				     "reallocarray", "free",	      "posix_memalign",
				     "memalign",     "aligned_alloc", "valloc" };

/* ---- Where the functions lie in the file ---- */

static uint64_t file_offset(Elf *elf, uint64_t address)
{
	size_t n = 0;

	elf_getphdrnum(elf, &n);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_LOAD &&
		    address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	}
	return 0;
}

static uint64_t symbol_offset(Elf *elf, const char *name)
{
	for (Elf_Scn *section = elf_nextscn(elf, NULL); section;
	     section = elf_nextscn(elf, section)) {
		GElf_Shdr head;
		GElf_Sym symbol;

		if (!gelf_getshdr(section, &head) || head.sh_type != SHT_DYNSYM)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (int i = 0; gelf_getsym(data, i, &symbol); i++) {
			const char *found = elf_strptr(elf, head.sh_link, symbol.st_name);

			if (found && symbol.st_shndx != SHN_UNDEF && strcmp(found, name) == 0)
				return file_offset(elf, symbol.st_value);
		}
	}
	return 0;
}

static void add_function(struct probe_function *functions, size_t *n, const char *name,
			 uint64_t offset)
{
	for (size_t i = 0; i < *n; i++) {
		size_t used = strlen(functions[i].names);

		if (functions[i].offset != offset)
			continue;
		snprintf(functions[i].names + used, sizeof(functions[i].names) - used, "+%s", name);
		return;
	}
	functions[*n].offset = offset;
	snprintf(functions[*n].names, sizeof(functions[*n].names), "%s", name);
	++*n;
}

int probe_find(const char *library, struct probe_function *functions, size_t *ret_n)
{
	size_t n = 0;
	auto_close int fd = open(library, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		return -EBADMSG;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t offset = symbol_offset(elf, names[i]);

		if (offset)
			add_function(functions, &n, names[i], offset);
	}
	elf_end(elf);
	*ret_n = n;
	return n ? 0 : -ENOENT;
}

/* ---- The kernel's side ---- */

struct ring {
	struct perf_event_mmap_page *page;
	char *body;
};

struct probe {
	int fds[MAX_CPUS * PROBE_MAX_FUNCTIONS];
	uint64_t ids[MAX_CPUS * PROBE_MAX_FUNCTIONS];
	size_t n_fds;
	uint64_t tracepoints[PROBE_MAX_FUNCTIONS];
	size_t n_functions;
	struct ring rings[MAX_CPUS];
	size_t n_rings;
	struct probe_event *events;
	size_t n_events;
	size_t max_events;
	uint64_t n_lost;
};

/*
 * The uprobes are tracepoints made through tracefs, not events of the "uprobe" PMU: the kernel
 * cannot inherit those, because it reads the path anew from the memory of the process that forks.
 */
#define TRACEFS "/sys/kernel/tracing"

/* Mount it for this process alone where nobody has. */
static int see_tracefs(void)
{
	if (access(TRACEFS "/uprobe_events", W_OK) == 0)
		return 0;
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tracefs", TRACEFS, "tracefs", 0, NULL) < 0)
		return -errno;
	return access(TRACEFS "/uprobe_events", W_OK) == 0 ? 0 : -errno;
}

static int tell_tracefs(const char *line)
{
	auto_close int fd = open(TRACEFS "/uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return io_write_all(fd, line, strlen(line));
}

/* Make the tracepoint number i of this process. Returns its id or a negative errno. */
static int make_tracepoint(const char *library, uint64_t offset, size_t i)
{
	char line[512];
	int id = 0;

	snprintf(line, sizeof(line), "p:memsight_%d/f%zu %s:%#lx", getpid(), i, library, offset);
	int r = tell_tracefs(line);
	if (r < 0)
		return r;
	snprintf(line, sizeof(line), TRACEFS "/events/memsight_%d/f%zu/id", getpid(), i);
	auto_fclose FILE *file = fopen(line, "re");
	return file && fscanf(file, "%d", &id) == 1 ? id : -ENOENT;
}

static void remove_tracepoints(size_t n)
{
	char line[128];

	for (size_t i = 0; i < n; i++) {
		snprintf(line, sizeof(line), "-:memsight_%d/f%zu", getpid(), i);
		tell_tracefs(line);
	}
}

/*
 * PERF_SAMPLE_READ is there for its side effect: the kernel then does not swap the events of parent
 * and child when it switches between them. Swapped ones die with the wrong process, and take the
 * breakpoints of the other with them: hits were missing in pipelines. Since Linux 6.12.
 */
static int open_event(uint64_t tracepoint, pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = tracepoint,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_READ | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = 1u << PERF_REG_X86_DI,
		.sample_stack_user = 16,
		.disabled = 1,
		.inherit = 1,
		.enable_on_exec = 1,
		.mmap = 1,
		.mmap2 = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int map_ring(struct probe *probe, int fd)
{
	char *base = mmap(NULL, PAGE_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	probe->rings[probe->n_rings++] =
		(struct ring){ .page = (void *)base, .body = base + PAGE_BYTES };
	return 0;
}

/* All functions of one CPU share the ring of the first. */
static int open_cpu(struct probe *probe, pid_t pid)
{
	int cpu = (int)probe->n_rings;
	size_t first = probe->n_fds;

	for (size_t i = 0; i < probe->n_functions; i++) {
		int fd = open_event(probe->tracepoints[i], pid, cpu);

		if (fd < 0)
			return fd;
		probe->fds[probe->n_fds] = fd;
		if (ioctl(fd, PERF_EVENT_IOC_ID, &probe->ids[probe->n_fds++]) < 0)
			return -errno;
		if (i > 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, probe->fds[first]) < 0)
			return -errno;
		int r = i == 0 ? map_ring(probe, fd) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_tracepoints(struct probe *probe, const char *library,
			    const struct probe_function *functions, size_t n)
{
	int r = see_tracefs();

	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = make_tracepoint(library, functions[i].offset, i);
		if (r >= 0)
			probe->tracepoints[probe->n_functions++] = (uint64_t)r;
	}
	return r < 0 ? r : 0;
}

int probe_open(const char *library, const struct probe_function *functions, size_t n_functions,
	       pid_t pid, struct probe **ret_probe)
{
	long n_cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct probe *probe = calloc(1, sizeof(*probe));

	if (!probe)
		return -ENOMEM;
	int r = n_cpus <= MAX_CPUS ? make_tracepoints(probe, library, functions, n_functions)
				   : -E2BIG;
	for (long i = 0; r == 0 && i < n_cpus; i++)
		r = open_cpu(probe, pid);
	if (r < 0) {
		probe_close(probe);
		return r;
	}
	*ret_probe = probe;
	return 0;
}

struct probe *probe_close(struct probe *probe)
{
	if (!probe)
		return NULL;
	for (size_t i = 0; i < probe->n_rings; i++)
		munmap(probe->rings[i].page, PAGE_BYTES + RING_BYTES);
	for (size_t i = 0; i < probe->n_fds; i++)
		close(probe->fds[i]);
	remove_tracepoints(probe->n_functions);
	free(probe->events);
	free(probe);
	return NULL;
}

/* ---- Reading ---- */

static int append(struct probe *probe, const struct probe_event *event)
{
	if (probe->n_events == probe->max_events) {
		size_t max = probe->max_events ? 2 * probe->max_events : 65536;
		struct probe_event *more = reallocarray(probe->events, max, sizeof(*more));

		if (!more)
			return -ENOMEM;
		probe->events = more;
		probe->max_events = max;
	}
	probe->events[probe->n_events++] = *event;
	return 0;
}

/* The layouts that the attributes above ask for; see perf_event_open(2). */
struct sample {
	struct perf_event_header head;
	uint64_t id;
	uint32_t pid, tid;
	uint64_t time;
	uint64_t count;
	uint64_t abi;
	uint64_t di;
	uint64_t stack_bytes;
	uint64_t stack[2];
	uint64_t dynamic_bytes;
};

struct sample_id { /* at the end of every other record */
	uint32_t pid, tid;
	uint64_t time;
	uint64_t id;
};

struct map {
	struct perf_event_header head;
	uint32_t pid, tid;
	uint64_t start, bytes, offset;
	uint32_t ids[6];
	uint32_t prot, flags;
	char name[];
};

struct fork {
	struct perf_event_header head;
	uint32_t pid, parent;
	uint32_t tid, parent_tid;
	uint64_t time;
};

static uint64_t time_of(const struct perf_event_header *head)
{
	const char *end = (const char *)head + head->size;

	return ((const struct sample_id *)(end - sizeof(struct sample_id)))->time;
}

static int take_sample(struct probe *probe, const struct perf_event_header *head)
{
	const struct sample *sample = (const void *)head;
	struct probe_event event = { .what = PROBE_CALL,
				     .time_ns = sample->time,
				     .pid = sample->pid,
				     .argument = sample->di,
				     .caller = sample->stack[0] };

	for (size_t i = 0; i < probe->n_fds; i++) {
		if (probe->ids[i] == sample->id)
			event.function = (uint32_t)(i % probe->n_functions);
	}
	return append(probe, &event);
}

static int take_map(struct probe *probe, const struct perf_event_header *head)
{
	const struct map *map = (const void *)head;

	return append(probe, &(struct probe_event){ .what = PROBE_MAP,
						    .time_ns = time_of(head),
						    .pid = map->pid,
						    .caller = map->start,
						    .argument = map->start + map->bytes,
						    .module = strstr(map->name, "libtracealloc") !=
							      NULL });
}

static int take_fork(struct probe *probe, const struct perf_event_header *head)
{
	const struct fork *fork = (const void *)head;

	if (fork->pid == fork->parent)
		return 0; /* a thread */
	return append(probe, &(struct probe_event){ .what = PROBE_FORK,
						    .time_ns = fork->time,
						    .pid = fork->pid,
						    .parent = fork->parent });
}

static int take(struct probe *probe, const struct perf_event_header *head)
{
	switch (head->type) {
	case PERF_RECORD_SAMPLE:
		return take_sample(probe, head);
	case PERF_RECORD_MMAP2:
		return take_map(probe, head);
	case PERF_RECORD_FORK:
		return take_fork(probe, head);
	case PERF_RECORD_LOST:
		probe->n_lost += ((const uint64_t *)(head + 1))[1];
		return 0;
	default:
		return 0;
	}
}

/* A record may go on at the beginning of the ring: copy it together. */
static void copy_out(const struct ring *ring, uint64_t at, char *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = ring->body[(at + i) % RING_BYTES];
}

static int drain_ring(struct probe *probe, struct ring *ring)
{
	_Alignas(8) char record[UINT16_MAX + 1];
	/* Pairs with the kernel's store: records below head are complete. */
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t at = ring->page->data_tail;
	int r = 0;

	while (r == 0 && at < head) {
		const struct perf_event_header *first =
			(const void *)(ring->body + at % RING_BYTES);
		size_t n = first->size; /* records are aligned: their header does not wrap */

		copy_out(ring, at, record, n);
		r = take(probe, (const void *)record);
		at += n;
	}
	__atomic_store_n(&ring->page->data_tail, at, __ATOMIC_RELEASE);
	return r;
}

int probe_drain(struct probe *probe)
{
	for (size_t i = 0; i < probe->n_rings; i++) {
		int r = drain_ring(probe, &probe->rings[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int compare_times(const void *a, const void *b)
{
	const struct probe_event *one = a;
	const struct probe_event *other = b;

	return (one->time_ns > other->time_ns) - (one->time_ns < other->time_ns);
}

const struct probe_event *probe_events(struct probe *probe, size_t *ret_n)
{
	if (probe->n_events)
		qsort(probe->events, probe->n_events, sizeof(*probe->events), compare_times);
	*ret_n = probe->n_events;
	return probe->events;
}

uint64_t probe_n_lost(const struct probe *probe)
{
	return probe->n_lost;
}
