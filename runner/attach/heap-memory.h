#pragma once
/*
 * Memory of a process as the walk over its heap reads it: what is mapped where, and words by way of
 * a few pages that are kept. Whoever tests brings a memory of another kind.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "runner/attach/heap-walk.h"
#include "schemas/attach.h"

#define HEAP_MEMORY_LINES      256u
#define HEAP_MEMORY_LINE_BYTES 4096u

enum heap_range_kind {
	HEAP_RANGE_ANONYMOUS = 1, /* private, may be written */
	HEAP_RANGE_BRK, /* likewise, of brk() */
	HEAP_RANGE_LIBC, /* data of libc, and anonymous memory behind it, anybody's */
};

struct heap_range {
	uint64_t start;
	uint64_t end;
	enum heap_range_kind kind;
};

struct heap_memory_line {
	uint64_t at; /* plus one; 0: empty */
	uint8_t bytes[HEAP_MEMORY_LINE_BYTES];
};

struct heap_memory {
	/* As process_vm_readv() into one buffer: bytes read or a negative errno. */
	ssize_t (*read)(void *context, const struct iovec *from, size_t n_pieces, void *to);
	void *context;
	const struct heap_reader *reader; /* a quicker way to heads of chunks; NULL: none */
	int pagemap_fd; /* /proc/PID/pagemap, or -1: any page may be there */
	uint64_t page_bytes;
	struct heap_range *ranges; /* by address */
	size_t n_ranges;
	size_t n_ranges_allocated;
	const char *allocator; /* another one that was found; NULL: none */
	bool has_libc;
	struct heap_memory_line *lines; /* HEAP_MEMORY_LINES */
};

/* Of a process. 0 or a negative errno; to be finished in any case. */
int heap_memory_open(pid_t pid, struct heap_memory *ret_memory);

/* Note what a line of /proc/PID/maps says; the line is changed. 0 or -ENOMEM. */
int heap_memory_add_map(struct heap_memory *memory, char *line);

void heap_memory_finish(struct heap_memory *memory);

/* All of these bytes. 0 or a negative errno. */
int heap_memory_read(const struct heap_memory *memory, uint64_t from, void *to, size_t n_bytes);

/* A word, by way of the pages that are kept; `from` is a multiple of 8. */
int heap_memory_word(struct heap_memory *memory, uint64_t from, uint64_t *ret_word);

/* The range that holds an address; NULL: none. */
const struct heap_range *heap_memory_range(const struct heap_memory *memory, uint64_t address);

/*
 * The first two words of each of n pages from an address on; zero where nothing is. At most 512.
 */
#define HEAP_MEMORY_MAX_PAGES 512u
int heap_memory_heads(const struct heap_memory *memory, uint64_t from, size_t n,
		      struct attach_head *ret_heads);
