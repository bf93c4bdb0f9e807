#include "runner/sampling/code-capture.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "runner/sampling/code-maps.h"
#include "runner/sampling/mapped-file.h"
#include "runner/sampling/page-set.h"
#include "runner/sampling/process-read.h"

#define SNAPSHOT_PIECE_BYTES (256u << 10)
#define USER_END	     (UINT64_C(1) << 47) /* above: the kernel, or vsyscall */

/* What is stored of one process image. */
struct image {
	struct page_set pages; /* of code that is fixed */
	struct code_maps maps;
	bool is_forbidden; /* the kernel lets us not read its memory, and may log each attempt */
	unsigned n_samples;
	bool has_snapshot;
};

struct run_code {
	struct run_code_options options;
	struct code_changing_sink sink; /* without lines (--private) fixed code is not stored */
	struct image **images; /* by process_id, which counts from 1 */
	size_t n_images;
	size_t n_pages; /* remembered in all images */
	struct run_code_counts counts;
	struct code_changing *changing;
	uint8_t *piece; /* SNAPSHOT_PIECE_BYTES */
};

static const struct run_code_options defaults = {
	.max_pages = 1 << 20,
	.snapshot_after = 20,
	.max_map_bytes = UINT64_C(8) << 20,
	.max_snapshot_bytes = UINT64_C(32) << 20,
	.max_total_bytes = UINT64_C(1) << 30,
	.max_changing_pages = 8192,
	.max_changing_bytes = UINT64_C(128) << 20,
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
	if (!options->max_changing_pages)
		options->max_changing_pages = defaults.max_changing_pages;
	if (!options->max_changing_bytes)
		options->max_changing_bytes = defaults.max_changing_bytes;
}

int run_code_create(const struct run_code_options *options, const struct code_changing_sink *sink,
		    struct run_code **ret_code)
{
	struct run_code *code = calloc(1, sizeof(*code));

	if (!code)
		return -ENOMEM;
	if (options)
		code->options = *options;
	fill_options(&code->options);
	if (sink)
		code->sink = *sink;
	code->piece = malloc(SNAPSHOT_PIECE_BYTES);
	if (!code->piece ||
	    code_changing_create(sink, code->options.max_changing_pages,
				 code->options.max_changing_bytes, &code->changing) < 0)
		return run_code_destroy(code), -ENOMEM;
	*ret_code = code;
	return 0;
}

struct run_code *run_code_destroy(struct run_code *code)
{
	if (!code)
		return NULL;
	for (size_t i = 0; i < code->n_images; i++)
		run_code_forget_image(code, (uint32_t)i);
	code_changing_destroy(code->changing);
	free_all(code->images, code->piece, code);
	return NULL;
}

struct run_code_counts run_code_counts(const struct run_code *code)
{
	const struct code_changing_counts *changing = code_changing_counts(code->changing);
	struct run_code_counts counts = code->counts;

	counts.n_unreadable += changing->n_unreadable;
	counts.n_over_limit += changing->n_over_limit;
	counts.n_changes = changing->n_changes;
	return counts;
}

static struct image *known_image(const struct run_code *code, uint32_t process_id)
{
	return process_id < code->n_images ? code->images[process_id] : NULL;
}

/* The image of that id, made when it is new; NULL when there is no memory. */
static struct image *get_image(struct run_code *code, uint32_t process_id)
{
	if (known_image(code, process_id))
		return code->images[process_id];
	if (grow_array_to(&code->images, process_id, &code->n_images, sizeof(*code->images)) < 0)
		return NULL;
	code->images[process_id] = calloc(1, sizeof(struct image));
	return code->images[process_id];
}

void run_code_forget_image(struct run_code *code, uint32_t process_id)
{
	struct image *image = known_image(code, process_id);

	if (!image)
		return;
	code_changing_forget(code->changing, process_id);
	code->n_pages -= image->pages.n;
	page_set_finish(&image->pages);
	code_maps_finish(&image->maps);
	free(image);
	code->images[process_id] = NULL;
}

void run_code_forget_range(struct run_code *code, uint32_t process_id, uint64_t start,
			   uint64_t size, bool is_file)
{
	struct image *image = known_image(code, process_id);

	if (!image)
		return;
	page_set_forget_range(&image->pages, start, size);
	code_maps_changed(&image->maps, start, size, is_file);
}

/* ---- Reading ---- */

/* Who is asked, and when. */
struct request {
	struct image *image;
	uint32_t process_id;
	pid_t pid;
	uint64_t ticks;
};

static size_t read_process(const struct request *request, uint64_t address, void *bytes,
			   size_t n_bytes, enum process_read_wish wish)
{
	return process_read(request->pid, &request->image->is_forbidden, address, bytes, n_bytes,
			    wish);
}

static bool is_over_total(const struct run_code *code)
{
	return code->counts.n_bytes >= code->options.max_total_bytes;
}

static int emit(struct run_code *code, uint32_t process_id, const struct trace_code *head,
		const void *bytes)
{
	int r = code->sink.lines(code->sink.context, process_id, head, bytes);

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
			enum process_read_wish wish)
{
	size_t n = read_process(request, page, bytes, RUN_CODE_PAGE_BYTES, wish);

	if (request->image->is_forbidden)
		return mapped_file_read(request->pid, page, bytes,
					RUN_CODE_PAGE_BYTES + RUN_CODE_BEYOND_BYTES);
	if (n == RUN_CODE_PAGE_BYTES)
		n += read_process(request, page + n, bytes + n, RUN_CODE_BEYOND_BYTES, READ_WANTED);
	return n;
}

/* Returns 1 when it was stored, 0 when it cannot be, or the callback's negative result. */
static int store_page(struct run_code *code, const struct request *request, uint64_t page,
		      enum process_read_wish wish)
{
	uint8_t bytes[RUN_CODE_PAGE_BYTES + RUN_CODE_BEYOND_BYTES];
	struct trace_code head = { .address = page,
				   .ticks = request->ticks,
				   .begin_raw_ns = clock_raw_ns() };
	size_t n = read_code(request, page, bytes, wish);

	if (n >= RUN_CODE_PAGE_BYTES && !code_maps_is_code_now(request->pid, page))
		n = 0;
	head.end_raw_ns = clock_raw_ns();
	if (n < RUN_CODE_PAGE_BYTES)
		return remember(code, request->image, page, PAGE_UNREADABLE);
	head.n_bytes = (uint32_t)n;
	int r = emit(code, request->process_id, &head, bytes);
	if (r < 0)
		return r;
	code->counts.n_pages++;
	r = remember(code, request->image, page, PAGE_STORED);
	return r < 0 ? r : 1;
}

/* Returns 1 when the page is stored, 0 when it cannot be, or a negative errno. */
static int ensure_page(struct run_code *code, const struct request *request, uint64_t page,
		       enum process_read_wish wish)
{
	enum page_state state = page_set_get(&request->image->pages, page);
	bool is_new = state == PAGE_UNKNOWN;
	int r = 0;

	if (state == PAGE_STORED)
		return 1;
	if (state == PAGE_UNREADABLE && wish == READ_WANTED)
		return 0;
	if (is_over_total(code) || (is_new && code->n_pages >= code->options.max_pages)) {
		code->counts.n_over_limit += wish == READ_NEEDED;
		return 0;
	}
	if (page < USER_END)
		r = store_page(code, request, page, wish);
	code->counts.n_unreadable += r == 0 && wish == READ_NEEDED;
	return r;
}

static uint64_t page_of(uint64_t address)
{
	return address & ~(uint64_t)(RUN_CODE_PAGE_BYTES - 1);
}

/*
 * Whether a page that is not stored is of code that may change. What the kernel's addresses hold is
 * not.
 */
static bool is_changing(const struct request *request, uint64_t page)
{
	return page < USER_END && page_set_get(&request->image->pages, page) != PAGE_STORED &&
	       !code_maps_is_fixed(&request->image->maps, request->pid, page);
}

int run_code_page(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t address,
		  uint64_t ticks)
{
	struct request request = { get_image(code, process_id), process_id, pid, ticks };
	uint64_t page = page_of(address);

	if (!request.image)
		return -ENOMEM;
	if (is_changing(&request, page))
		return code_changing_want(code->changing, process_id, pid, page, true);
	return ensure_page(code, &request, page, READ_NEEDED);
}

int run_code_round(struct run_code *code, uint64_t ticks)
{
	return code_changing_round(code->changing, ticks);
}

bool run_code_is_moving(const struct run_code *code)
{
	return code_changing_is_moving(code->changing);
}

bool run_code_is_fixed(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t address)
{
	struct image *image = get_image(code, process_id);

	return image && code_maps_is_fixed(&image->maps, pid, address);
}

uint64_t run_code_constant(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t address)
{
	struct image *image = get_image(code, process_id);

	return image ? code_maps_constant(&image->maps, pid, address) : 0;
}

size_t run_code_live(struct run_code *code, uint32_t process_id, uint64_t address, void *bytes,
		     size_t n_bytes)
{
	return code_changing_certain(code->changing, process_id, address, bytes, n_bytes);
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
					   .begin_raw_ns = clock_raw_ns(),
					   .kind = TRACE_CODE_DATA };
		size_t n = read_process(request, head.address, code->piece, wanted, READ_WANTED);

		head.end_raw_ns = clock_raw_ns();
		head.n_bytes = (uint32_t)n;
		int r = n ? emit(code, request->process_id, &head, code->piece) : 0;
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

/* The page and what is before or behind it: a loop may lie on both. */
static int want_changing(struct run_code *code, const struct request *request, uint64_t ip)
{
	uint64_t page = page_of(ip);
	uint64_t other = ip - page < RUN_CODE_PAGE_BYTES / 2 ? page - RUN_CODE_PAGE_BYTES
							     : page + RUN_CODE_PAGE_BYTES;
	int r = code_changing_want(code->changing, request->process_id, request->pid, page, true);

	if (r == 0 && is_changing(request, other))
		r = code_changing_want(code->changing, request->process_id, request->pid, other,
				       false);
	return r;
}

static int want_fixed(struct run_code *code, const struct request *request, uint64_t page)
{
	if (!code->sink.lines)
		return 0;
	int r = ensure_page(code, request, page, READ_NEEDED);
	page += RUN_CODE_PAGE_BYTES;
	if (r <= 0 || page_set_get(&request->image->pages, page) != PAGE_UNKNOWN)
		return r;
	return is_changing(request, page) ? 0 : ensure_page(code, request, page, READ_WANTED);
}

int run_code_sample(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t ip,
		    uint64_t ticks)
{
	struct request request = { get_image(code, process_id), process_id, pid, ticks };
	int r;

	if (!request.image)
		return -ENOMEM;
	if (is_changing(&request, page_of(ip)))
		r = want_changing(code, &request, ip);
	else
		r = want_fixed(code, &request, page_of(ip));
	if (r < 0 || !code->sink.lines)
		return r;
	if (request.image->has_snapshot ||
	    ++request.image->n_samples < code->options.snapshot_after)
		return 0;
	request.image->has_snapshot = true;
	return take_snapshot(code, &request);
}
