#include "runner/attach/contents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "runner/attach/modules.h"
#include "runner/attach/remote.h"
#include "runner/processes/image-proc.h"
#include "schemas/trace-contents.h"

#define N_AT_ONCE  256u
#define SMALL	   UINT64_C(65536)
#define WORD_BYTES sizeof(uint64_t)

/* Memory of files, and what follows it without a gap: their variables. */
struct files {
	struct module_range *items; /* by address */
	size_t n;
	int err;
};

static void note_file(void *user, const struct image_map *map)
{
	struct files *files = user;
	struct module_range *last = files->n ? &files->items[files->n - 1] : NULL;
	bool is_next = last && last->end == map->start;

	if (files->err < 0 || (map->path[0] != '/' && (map->path[0] || !is_next)))
		return;
	if (is_next) {
		last->end = map->end;
		return;
	}
	files->err = grow_array_of(&files->items, files->n, 1, sizeof(*files->items));
	if (files->err == 0)
		files->items[files->n++] = (struct module_range){ map->start, map->end };
}

static bool is_in_file(const struct files *files, uint64_t word)
{
	size_t n = array_n_until(files->items, files->n, start, word);

	return n > 0 && word < files->items[n - 1].end;
}

static const struct heap_block *find_block(const struct heap_walk *walk, uint64_t word)
{
	size_t n = array_n_until(walk->blocks, walk->n_blocks, address, word);
	const struct heap_block *block = n ? &walk->blocks[n - 1] : NULL;

	return block && word - block->address < block->size ? block : NULL;
}

static bool is_text(uint64_t word)
{
	const unsigned char *bytes = (const unsigned char *)&word;
	size_t n = 0;

	while (n < WORD_BYTES && bytes[n] >= ' ' && bytes[n] < 0x7f)
		n++;
	return n == WORD_BYTES || (n > 1 && bytes[n] == '\0');
}

static uint64_t word_of(const struct heap_walk *walk, const struct files *files,
			const struct heap_block *own, uint64_t word)
{
	const struct heap_block *other;

	if (word == 0)
		return TRACE_WORD_ZERO;
	if (word < SMALL)
		return TRACE_WORD_SMALL;
	if (word - own->address < own->size)
		return TRACE_WORD_SELF;
	if ((other = find_block(walk, word)))
		return other->address | TRACE_WORD_BLOCK;
	if (is_in_file(files, word))
		return word;
	return is_text(word) ? TRACE_WORD_TEXT : TRACE_WORD_OTHER;
}

static size_t n_words(const struct heap_block *block)
{
	size_t n = block->size / WORD_BYTES;

	return n < TRACE_CONTENT_WORDS ? n : TRACE_CONTENT_WORDS;
}

struct batch {
	struct trace_content items[N_AT_ONCE];
	struct iovec ours[N_AT_ONCE], theirs[N_AT_ONCE];
	const struct heap_block *blocks[N_AT_ONCE];
	size_t n;
};

/* One of them may be gone: then each by itself. */
static void read_batch(pid_t pid, struct batch *batch)
{
	size_t n_bytes = 0;

	for (size_t i = 0; i < batch->n; i++) {
		struct trace_content *item = &batch->items[i];
		size_t n = n_words(batch->blocks[i]) * WORD_BYTES;

		*item = (struct trace_content){ .address = batch->blocks[i]->address,
						.usable_bytes = batch->blocks[i]->size };
		batch->ours[i] = (struct iovec){ item->words, n };
		batch->theirs[i] = (struct iovec){ (void *)(uintptr_t)item->address, n };
		n_bytes += n;
	}
	if (process_vm_readv(pid, batch->ours, batch->n, batch->theirs, batch->n, 0) ==
	    (ssize_t)n_bytes)
		return;
	for (size_t i = 0; i < batch->n; i++)
		if (remote_read(pid, batch->items[i].address, batch->items[i].words,
				batch->ours[i].iov_len) < 0)
			batch->blocks[i] = NULL;
}

static int write_batch(pid_t pid, const struct heap_walk *walk, const struct files *files,
		       struct batch *batch, int fd)
{
	read_batch(pid, batch);
	for (size_t i = 0; i < batch->n; i++) {
		const struct heap_block *block = batch->blocks[i];

		for (size_t k = 0; block && k < n_words(block); k++)
			batch->items[i].words[k] =
				word_of(walk, files, block, batch->items[i].words[k]);
	}
	int r = io_write_all(fd, batch->items, batch->n * sizeof(*batch->items));

	batch->n = 0;
	return r;
}

DEFINE_ORDER(compare, struct heap_block, BY(address));

void contents_read(pid_t pid, struct heap_walk *walk, struct attach_outcome *outcome)
{
	size_t n_th = (walk->n_blocks + CONTENTS_MOST - 1) / CONTENTS_MOST, n = 0;
	auto_free struct batch *batch = calloc(1, sizeof(*batch));
	auto_close int fd = memfd_create("memsight-contents", MFD_CLOEXEC);
	struct files files = { .n = 0 };
	int r = image_each_map(pid, note_file, &files);

	if (!batch || fd < 0)
		r = -ENOMEM;
	qsort(walk->blocks, walk->n_blocks, sizeof(*walk->blocks), compare);
	for (size_t i = 0; r == 0 && i < walk->n_blocks; i += n_th, n++) {
		batch->blocks[batch->n++] = &walk->blocks[i];
		if (batch->n == N_AT_ONCE)
			r = write_batch(pid, walk, &files, batch, fd);
	}
	if (r == 0 && batch->n > 0)
		r = write_batch(pid, walk, &files, batch, fd);
	free(files.items);
	if (r < 0)
		return;
	outcome->blocks_fd = steal_fd(&fd);
	outcome->n_blocks = n;
	outcome->n_th = (uint32_t)n_th;
}
