#include "analyze/input/heimdallr/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

#define MAX_SEGMENTS 16u

/* A part of a file and the ELF addresses that it is loaded at. */
struct segment {
	uint64_t offset;
	uint64_t size;
	uint64_t address;
};

struct library {
	const char *path;
	bool is_read;
	unsigned n;
	struct segment segments[MAX_SEGMENTS];
};

struct heimdallr_segments {
	struct library *libraries; /* as in the folder */
	size_t n;
	struct key_map by_number; /* (number, 0) -> index + 1 */
};

struct heimdallr_segments *heimdallr_segments_close(struct heimdallr_segments *segments)
{
	if (!segments)
		return NULL;
	key_map_finish(&segments->by_number);
	free_all(segments->libraries, segments);
	return NULL;
}

int heimdallr_segments_open(const struct heimdallr_folder *folder, const char *program,
			    struct heimdallr_segments **ret_segments)
{
	struct heimdallr_segments *segments = calloc(1, sizeof(*segments));
	int r = segments ? 0 : -ENOMEM;

	if (r == 0)
		segments->libraries = calloc(folder->n_libraries + 1, sizeof(*segments->libraries));
	if (r == 0 && !segments->libraries)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < folder->n_libraries; i++) {
		const struct heimdallr_library *library = &folder->libraries[i];
		segments->libraries[i].path = *library->path ? library->path : program;
		r = key_map_put(&segments->by_number, library->number, 0, i + 1);
	}
	if (r < 0)
		return heimdallr_segments_close(segments), r;
	segments->n = folder->n_libraries;
	*ret_segments = segments;
	return 0;
}

const char *heimdallr_segments_path(const struct heimdallr_segments *segments, size_t i)
{
	return segments->libraries[i].path;
}

/* The parts of the file that are loaded; none when it is not there any more, or no ELF file. */
static void read_segments(struct library *library)
{
	auto_close int fd = open(library->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	GElf_Phdr head;
	size_t n = 0;

	library->is_read = true;
	if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE)
		return;
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (elf && elf_getphdrnum(elf, &n) == 0) {
		for (size_t i = 0; i < n && library->n < MAX_SEGMENTS; i++) {
			if (!gelf_getphdr(elf, (int)i, &head) || head.p_type != PT_LOAD)
				continue;
			library->segments[library->n++] =
				(struct segment){ head.p_offset, head.p_memsz, head.p_vaddr };
		}
	}
	elf_end(elf);
}

/* The ELF address of an offset; without the file the offset itself, which is mostly the same. */
static uint64_t address_of(struct library *library, uint64_t offset)
{
	if (!library->is_read)
		read_segments(library);
	for (unsigned i = 0; i < library->n; i++) {
		const struct segment *segment = &library->segments[i];
		if (offset >= segment->offset && offset - segment->offset < segment->size)
			return offset - segment->offset + segment->address;
	}
	return offset;
}

static uint64_t pc_of(struct heimdallr_segments *segments, const struct heimdallr_frame *frame)
{
	uint64_t i = key_map_get(&segments->by_number, frame->library, 0);
	uint64_t address = frame->offset;

	if (frame->library == 0)
		return address < TRACE_STOP_MAX ? TRACE_STOP_MAX : address;
	if (i > 0)
		address = address_of(&segments->libraries[i - 1], address);
	return heimdallr_library_base(frame->library) + (address & (HEIMDALLR_LIBRARY_BYTES - 1));
}

void heimdallr_stacks_finish(struct heimdallr_stacks *stacks)
{
	key_map_finish(&stacks->ids);
	free_all(stacks->nodes, stacks->last_text, stacks->pcs);
	*stacks = (struct heimdallr_stacks){ 0 };
}

/* The node of a pc below a parent, told when it is new. Returns 0 or -ENOMEM. */
static int find_node(struct heimdallr_stacks *stacks, uint32_t parent, uint64_t pc,
		     uint32_t *ret_node)
{
	uint32_t id = (uint32_t)key_map_get(&stacks->ids, parent, pc);

	if (id == 0) {
		int r = grow_one(&stacks->nodes, stacks->n_nodes, &stacks->n_nodes_allocated);
		id = stacks->last_id + 1;
		r = r ?: key_map_put(&stacks->ids, parent, pc, id);
		if (r < 0)
			return r;
		stacks->last_id = id;
		stacks->nodes[stacks->n_nodes++] = (struct trace_node){ id, parent, pc };
	}
	*ret_node = id;
	return 0;
}

int heimdallr_stacks_node(struct heimdallr_stacks *stacks, struct heimdallr_segments *segments,
			  const struct heimdallr_line *line, uint32_t *ret_node)
{
	const char *text = line->frames;
	size_t n_bytes = line->n_frame_bytes, n = 0;
	struct heimdallr_frame frame;
	uint32_t node = 0;
	int r = 0;

	*ret_node = 0;
	if (n_bytes == 0)
		return 0;
	if (n_bytes == stacks->n_last_bytes && memcmp(text, stacks->last_text, n_bytes) == 0) {
		*ret_node = stacks->last_node;
		return 0;
	}
	while (r == 0 && heimdallr_line_frame(&text, &n_bytes, &frame)) {
		r = array_add(stacks->pcs, n, stacks->n_pcs_allocated, pc_of(segments, &frame));
	}
	while (r == 0 && n > 0)
		r = find_node(stacks, node, stacks->pcs[--n], &node);
	if (r < 0)
		return r;
	*ret_node = node;
	if (grow_array_by(&stacks->last_text, 0, line->n_frame_bytes, &stacks->last_capacity, 1) <
	    0)
		return -ENOMEM;
	memcpy(stacks->last_text, line->frames, line->n_frame_bytes);
	stacks->n_last_bytes = line->n_frame_bytes;
	stacks->last_node = node;
	return 0;
}
