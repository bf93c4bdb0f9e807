#include "runner/code-capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/mapped-file.h"
#include "runner/page-set.h"

#define SNAPSHOT_PIECE_BYTES (256u << 10)
#define USER_END	     (UINT64_C(1) << 47) /* above: the kernel, or vsyscall */

/* What is stored of one process image. */
struct image {
	struct page_set pages;
	bool is_forbidden; /* the kernel lets us not read its memory, and may log each attempt */
	unsigned n_samples;
	bool has_snapshot;
};

struct run_code {
	struct run_code_options options;
	run_code_emit emit;
	void *context;
	struct image **images; /* by process_id, which counts from 1 */
	size_t n_images;
	size_t n_pages; /* remembered in all images */
	struct run_code_counts counts;
	uint8_t *piece; /* SNAPSHOT_PIECE_BYTES */
};

static const struct run_code_options defaults = {
	.max_pages = 1 << 20,
	.snapshot_after = 20,
	.max_map_bytes = UINT64_C(8) << 20,
	.max_snapshot_bytes = UINT64_C(32) << 20,
	.max_total_bytes = UINT64_C(1) << 30,
};

static void fill_options(struct run_code_options *options)
{
	if (!options->max_pages)
		options->max_pages = defaults.max_pages;
	if (!options->snapshot_after)
		options->snapshot_after = defaults.snapshot_after;
	if (!options->max_map_bytes)
		options->max_map_bytes = defaults.max_map_bytes;
	if (!options->max_snapshot_bytes)
		options->max_snapshot_bytes = defaults.max_snapshot_bytes;
	if (!options->max_total_bytes)
		options->max_total_bytes = defaults.max_total_bytes;
}

int run_code_create(const struct run_code_options *options, run_code_emit emit, void *context,
		    struct run_code **ret_code)
{
	struct run_code *code = calloc(1, sizeof(*code));

	if (!code)
		return -ENOMEM;
	if (options)
		code->options = *options;
	fill_options(&code->options);
	code->emit = emit;
	code->context = context;
	code->piece = malloc(SNAPSHOT_PIECE_BYTES);
	if (!code->piece) {
		run_code_destroy(code);
		return -ENOMEM;
	}
	*ret_code = code;
	return 0;
}

struct run_code *run_code_destroy(struct run_code *code)
{
	if (!code)
		return NULL;
	for (size_t i = 0; i < code->n_images; i++)
		run_code_forget_image(code, (uint32_t)i);
	free(code->images);
	free(code->piece);
	free(code);
	return NULL;
}

const struct run_code_counts *run_code_counts(const struct run_code *code)
{
	return &code->counts;
}

static struct image *known_image(const struct run_code *code, uint32_t process_id)
{
	return process_id < code->n_images ? code->images[process_id] : NULL;
}

static int grow_images(struct run_code *code, uint32_t process_id)
{
	size_t n = (size_t)process_id + 1;
	struct image **longer;

	if (n <= code->n_images)
		return 0;
	n = n < 64 ? 64 : n + n / 2;
	longer = reallocarray(code->images, n, sizeof(*longer));
	if (!longer)
		return -ENOMEM;
	memset(longer + code->n_images, 0, (n - code->n_images) * sizeof(*longer));
	code->images = longer;
	code->n_images = n;
	return 0;
}

/* The image of that id, made when it is new; NULL when there is no memory. */
static struct image *get_image(struct run_code *code, uint32_t process_id)
{
	if (known_image(code, process_id))
		return code->images[process_id];
	if (grow_images(code, process_id) < 0)
		return NULL;
	code->images[process_id] = calloc(1, sizeof(struct image));
	return code->images[process_id];
}

void run_code_forget_image(struct run_code *code, uint32_t process_id)
{
	struct image *image = known_image(code, process_id);

	if (!image)
		return;
	code->n_pages -= image->pages.n;
	page_set_finish(&image->pages);
	free(image);
	code->images[process_id] = NULL;
}

void run_code_forget_range(struct run_code *code, uint32_t process_id, uint64_t start,
			   uint64_t size)
{
	struct image *image = known_image(code, process_id);

	if (image)
		page_set_forget_range(&image->pages, start, size);
}

/* ---- Reading ---- */

/* Who is asked, and when. */
struct request {
	struct image *image;
	uint32_t process_id;
	pid_t pid;
	uint64_t ticks;
};

/* Bytes read from the start of the range, or a negative errno when not even the first page can be. */
static ssize_t read_by_syscall(pid_t pid, uint64_t address, void *bytes, size_t n_bytes)
{
	struct iovec local = { bytes, n_bytes };
	struct iovec remote = { (void *)(uintptr_t)address, n_bytes };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

static ssize_t read_by_file(pid_t pid, uint64_t address, void *bytes, size_t n_bytes)
{
	char path[64];
	auto_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = pread(fd, bytes, n_bytes, (off_t)address);
	return n < 0 ? -errno : n;
}

/*
 * A page that a sample hit surely was there. The page behind it is only wanted: behind the last
 * page of a text there is none, or a guard page.
 */
enum wish { WISH_NEEDED, WISH_WANTED };

static bool is_refusal(ssize_t n)
{
	return n == -EPERM || n == -EACCES;
}

/*
 * The file serves where process_vm_readv is forbidden (seccomp), and for code that may be executed
 * but not read. Since it also reads what is protected from the program itself, and a guard page
 * would get a page frame by that, a page that is only wanted is left alone.
 */
static size_t read_process(const struct request *request, uint64_t address, void *bytes,
			   size_t n_bytes, enum wish wish)
{
	ssize_t n = 0;

	if (!request->image->is_forbidden)
		n = read_by_syscall(request->pid, address, bytes, n_bytes);
	if (n < 0 && (n != -EFAULT || wish == WISH_NEEDED)) {
		bool is_refused = is_refusal(n);

		n = read_by_file(request->pid, address, bytes, n_bytes);
		request->image->is_forbidden = is_refused && is_refusal(n);
	}
	return n > 0 ? (size_t)n : 0;
}

static bool is_over_total(const struct run_code *code)
{
	return code->counts.n_bytes >= code->options.max_total_bytes;
}

static int emit(struct run_code *code, uint32_t process_id, const struct trace_code *head,
		const void *bytes)
{
	int r = code->emit(code->context, process_id, head, bytes);

	if (r >= 0)
		code->counts.n_bytes += head->n_bytes;
	return r < 0 ? r : 0;
}

/* ---- Code, page by page ---- */

static int remember(struct run_code *code, struct image *image, uint64_t page,
		    enum page_state state)
{
	size_t before = image->pages.n;
	int r = page_set_put(&image->pages, page, state);

	code->n_pages += image->pages.n - before;
	return r;
}

/* A page and, where they can be had, the bytes behind it. */
static size_t read_code(const struct request *request, uint64_t page, uint8_t *bytes,
			enum wish wish)
{
	size_t n = read_process(request, page, bytes, RUN_CODE_PAGE_BYTES, wish);

	if (request->image->is_forbidden)
		return mapped_file_read(request->pid, page, bytes,
					RUN_CODE_PAGE_BYTES + RUN_CODE_BEYOND_BYTES);
	if (n == RUN_CODE_PAGE_BYTES)
		n += read_process(request, page + n, bytes + n, RUN_CODE_BEYOND_BYTES, WISH_WANTED);
	return n;
}

/* Returns 1 when it was stored, 0 when it cannot be, or the callback's negative result. */
static int store_page(struct run_code *code, const struct request *request, uint64_t page,
		      enum wish wish)
{
	uint8_t bytes[RUN_CODE_PAGE_BYTES + RUN_CODE_BEYOND_BYTES];
	struct trace_code head = { .address = page, .ticks = request->ticks };
	size_t n = read_code(request, page, bytes, wish);
	int r;

	if (n < RUN_CODE_PAGE_BYTES)
		return remember(code, request->image, page, PAGE_UNREADABLE);
	head.n_bytes = (uint32_t)n;
	r = emit(code, request->process_id, &head, bytes);
	if (r < 0)
		return r;
	code->counts.n_pages++;
	r = remember(code, request->image, page, PAGE_STORED);
	return r < 0 ? r : 1;
}

/* Returns 1 when the page is stored, 0 when it cannot be, or a negative errno. */
static int ensure_page(struct run_code *code, const struct request *request, uint64_t page,
		       enum wish wish)
{
	enum page_state state = page_set_get(&request->image->pages, page);
	bool is_new = state == PAGE_UNKNOWN;
	int r = 0;

	if (state == PAGE_STORED)
		return 1;
	if (state == PAGE_UNREADABLE && wish == WISH_WANTED)
		return 0;
	if (is_over_total(code) || (is_new && code->n_pages >= code->options.max_pages)) {
		code->counts.n_over_limit += wish == WISH_NEEDED;
		return 0;
	}
	if (page < USER_END)
		r = store_page(code, request, page, wish);
	code->counts.n_unreadable += r == 0 && wish == WISH_NEEDED;
	return r;
}

static uint64_t page_of(uint64_t address)
{
	return address & ~(uint64_t)(RUN_CODE_PAGE_BYTES - 1);
}

int run_code_page(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t address,
		  uint64_t ticks)
{
	struct request request = { get_image(code, process_id), process_id, pid, ticks };

	if (!request.image)
		return -ENOMEM;
	return ensure_page(code, &request, page_of(address), WISH_NEEDED);
}

/* ---- Read-only data, once for each image ---- */

struct map_line {
	uint64_t start;
	uint64_t size;
};

/* "start-end r--p offset dev inode /path": private read-only map of a file. */
static bool parse_map_line(const char *line, struct map_line *ret_map)
{
	unsigned long long start, end, inode;
	char mode[5], first = '\0';

	if (sscanf(line, "%llx-%llx %4s %*x %*s %llu %c", &start, &end, mode, &inode, &first) != 5)
		return false;
	if (strcmp(mode, "r--p") != 0 || inode == 0 || first != '/' || end <= start)
		return false;
	*ret_map = (struct map_line){ start, end - start };
	return true;
}

/* Returns the bytes stored (all of the map, or up to what cannot be read), or negative. */
static int64_t store_map(struct run_code *code, const struct request *request,
			 const struct map_line *map)
{
	uint64_t done = 0;

	while (done < map->size) {
		uint64_t left = map->size - done;
		size_t wanted = left < SNAPSHOT_PIECE_BYTES ? (size_t)left : SNAPSHOT_PIECE_BYTES;
		struct trace_code head = { .address = map->start + done,
					   .ticks = request->ticks,
					   .is_data = 1 };
		size_t n = read_process(request, head.address, code->piece, wanted, WISH_WANTED);
		int r;

		head.n_bytes = (uint32_t)n;
		r = n ? emit(code, request->process_id, &head, code->piece) : 0;
		if (r < 0)
			return r;
		done += n;
		if (n < wanted)
			break;
	}
	return (int64_t)done;
}

static int store_maps(struct run_code *code, const struct request *request, FILE *maps)
{
	uint64_t budget = code->options.max_snapshot_bytes;
	auto_free char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, maps) > 0) {
		struct map_line map;
		int64_t done = 0;

		if (!parse_map_line(line, &map))
			continue;
		if (map.size <= code->options.max_map_bytes && map.size <= budget &&
		    !is_over_total(code))
			done = store_map(code, request, &map);
		if (done < 0)
			return (int)done;
		budget -= (uint64_t)done;
		code->counts.n_snapshot_left_out += (uint64_t)done < map.size;
	}
	return 0;
}

static int take_snapshot(struct run_code *code, const struct request *request)
{
	auto_fclose FILE *maps = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)request->pid);
	maps = fopen(path, "re");
	if (!maps) /* it ended meanwhile */
		return 0;
	code->counts.n_snapshots++;
	return store_maps(code, request, maps);
}

/* ---- Samples ---- */

int run_code_sample(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t ip,
		    uint64_t ticks)
{
	struct request request = { get_image(code, process_id), process_id, pid, ticks };
	uint64_t page = page_of(ip);
	int r;

	if (!request.image)
		return -ENOMEM;
	r = ensure_page(code, &request, page, WISH_NEEDED);
	if (r > 0)
		r = ensure_page(code, &request, page + RUN_CODE_PAGE_BYTES, WISH_WANTED);
	if (r < 0)
		return r;
	if (request.image->has_snapshot ||
	    ++request.image->n_samples < code->options.snapshot_after)
		return 0;
	request.image->has_snapshot = true;
	return take_snapshot(code, &request);
}
