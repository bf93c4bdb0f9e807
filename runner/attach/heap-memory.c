#include "runner/attach/heap-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/text.h"
#include "runner/processes/image-proc.h"

#define MAX_MAPS_BYTES (256u << 20)
#define PAGE_PRESENT   (UINT64_C(1) << 63)
#define PAGE_SWAPPED   (UINT64_C(1) << 62)

/* Names of files of those that are no glibc, as they begin. */
static const struct {
	const char *file;
	const char *name;
} allocators[] = {
	{ "libjemalloc", "jemalloc" },	 { "libtcmalloc", "tcmalloc" },
	{ "libmimalloc", "mimalloc" },	 { "libsnmalloc", "snmalloc" },
	{ "librpmalloc", "rpmalloc" },	 { "libhoard", "Hoard" },
	{ "libtbbmalloc_proxy", "TBB" }, { "ld-musl", "musl" },
	{ "libc.musl", "musl" },	 { "libasan", "a sanitizer" },
};

static ssize_t read_process(void *context, const struct iovec *from, size_t n_pieces, void *to)
{
	struct iovec local = { .iov_base = to };

	for (size_t i = 0; i < n_pieces; i++)
		local.iov_len += from[i].iov_len;

	ssize_t n = process_vm_readv(*(pid_t *)context, &local, 1, from, n_pieces, 0);
	return n < 0 ? -errno : n;
}

static bool is_libc(const char *file)
{
	return strncmp(file, "libc.so", 7) == 0 || strncmp(file, "libc-2.", 7) == 0;
}

/* Huge pages of a file system are anonymous to their owner; so is memory that has a name. */
static bool is_anonymous(const char *path)
{
	return !path[0] || strncmp(path, "[anon:", 6) == 0 ||
	       strncmp(path, "/anon_hugepage", 14) == 0;
}

int heap_memory_add_map(struct heap_memory *memory, char *line)
{
	struct image_map map;

	if (!image_parse_map(line, &map))
		return 0;

	const char *file = text_base_name(map.path);
	if (is_libc(file))
		memory->has_libc = true;
	for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++)
		if (strncmp(file, allocators[i].file, strlen(allocators[i].file)) == 0)
			memory->allocator = allocators[i].name;
	if (!(map.flags & MAP_PRIVATE) || !(map.prot & PROT_WRITE) || !(map.prot & PROT_READ))
		return 0;

	struct heap_range range = { map.start, map.end, 0 };
	const struct heap_range *last =
		memory->n_ranges ? &memory->ranges[memory->n_ranges - 1] : NULL;
	if (is_libc(file) || (last && last->kind == HEAP_RANGE_LIBC && last->end == map.start &&
			      is_anonymous(map.path)))
		range.kind = HEAP_RANGE_LIBC;
	else if (strcmp(map.path, "[heap]") == 0)
		range.kind = HEAP_RANGE_BRK;
	else if (is_anonymous(map.path))
		range.kind = HEAP_RANGE_ANONYMOUS;
	else
		return 0;
	return array_add(memory->ranges, memory->n_ranges, memory->n_ranges_allocated, range);
}

static int read_maps(struct heap_memory *memory, pid_t pid)
{
	auto_free char *text = NULL;

	int r = io_read_proc(pid, "maps", MAX_MAPS_BYTES, &text, NULL);
	for (char *line = text, *next; r == 0 && line && *line; line = next) {
		char *end = strchrnul(line, '\n');

		next = end + (*end == '\n');
		*end = '\0';
		r = heap_memory_add_map(memory, line);
	}
	return r;
}

int heap_memory_open(pid_t pid, struct heap_memory *ret_memory)
{
	pid_t *context = malloc(sizeof(*context));

	*ret_memory = (struct heap_memory){
		.read = read_process,
		.context = context,
		.pagemap_fd = -1,
		.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
		.lines = calloc(HEAP_MEMORY_LINES, sizeof(struct heap_memory_line)),
	};
	if (!context || !ret_memory->lines)
		return -ENOMEM;
	*context = pid;
	ret_memory->pagemap_fd = image_open_file(pid, "pagemap", O_RDONLY);
	return read_maps(ret_memory, pid);
}

void heap_memory_finish(struct heap_memory *memory)
{
	if (memory->pagemap_fd >= 0)
		close(memory->pagemap_fd);
	free_all(memory->context, memory->ranges, memory->lines);
	*memory = (struct heap_memory){ .pagemap_fd = -1 };
}

int heap_memory_read(const struct heap_memory *memory, uint64_t from, void *to, size_t n_bytes)
{
	struct iovec piece = { (void *)(uintptr_t)from, n_bytes };
	ssize_t n = memory->read(memory->context, &piece, 1, to);

	if (n < 0)
		return (int)n;
	return (size_t)n == n_bytes ? 0 : -EFAULT;
}

int heap_memory_word(struct heap_memory *memory, uint64_t from, uint64_t *ret_word)
{
	uint64_t at = from & ~(uint64_t)(HEAP_MEMORY_LINE_BYTES - 1);
	struct heap_memory_line *line =
		&memory->lines[at / HEAP_MEMORY_LINE_BYTES % HEAP_MEMORY_LINES];

	if (from % sizeof(*ret_word) != 0)
		return -EFAULT;
	if (line->at != at + 1) {
		line->at = 0;
		int r = heap_memory_read(memory, at, line->bytes, sizeof(line->bytes));
		if (r < 0)
			return r;
		line->at = at + 1;
	}
	memcpy(ret_word, &line->bytes[from - at], sizeof(*ret_word));
	return 0;
}

const struct heap_range *heap_memory_range(const struct heap_memory *memory, uint64_t address)
{
	size_t n = array_n_until(memory->ranges, memory->n_ranges, start, address);

	return n > 0 && address < memory->ranges[n - 1].end ? &memory->ranges[n - 1] : NULL;
}

/* Which of n pages are there; all, where the kernel does not tell. */
static void see_present(const struct heap_memory *memory, uint64_t from, size_t n, bool *ret_is)
{
	uint64_t entries[HEAP_MEMORY_MAX_PAGES];
	ssize_t got = memory->pagemap_fd < 0
			      ? -1
			      : pread(memory->pagemap_fd, entries, n * sizeof(*entries),
				      (off_t)(from / memory->page_bytes * sizeof(*entries)));

	for (size_t i = 0; i < n; i++)
		ret_is[i] = got != (ssize_t)(n * sizeof(*entries)) ||
			    entries[i] & (PAGE_PRESENT | PAGE_SWAPPED);
}

int heap_memory_heads(const struct heap_memory *memory, uint64_t from, size_t n,
		      struct attach_head *ret_heads)
{
	struct iovec pieces[HEAP_MEMORY_MAX_PAGES];
	struct attach_head found[HEAP_MEMORY_MAX_PAGES];
	bool is_present[HEAP_MEMORY_MAX_PAGES];
	size_t n_pieces = 0;

	see_present(memory, from, n, is_present);
	for (size_t i = 0; i < n; i++)
		if (is_present[i])
			pieces[n_pieces++] =
				(struct iovec){ (void *)(uintptr_t)(from + i * memory->page_bytes),
						sizeof(*found) };
	if (n_pieces > 0) {
		ssize_t got = memory->read(memory->context, pieces, n_pieces, found);

		if (got < 0 && got != -EFAULT)
			return (int)got;
		n_pieces = got < 0 ? 0 : (size_t)got / sizeof(*found);
	}
	for (size_t i = 0, at = 0; i < n; i++)
		ret_heads[i] =
			is_present[i] && at < n_pieces ? found[at++] : (struct attach_head){ 0 };
	return 0;
}
