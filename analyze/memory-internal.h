#pragma once
/* Shared by memory.c, memory-blocks.c and memory-mappings.c. */
#include "analyze/memory.h"
#include "analyze/block-rows.h"
#include "analyze/freed-pages.h"
#include "analyze/rows.h"
#include "analyze/texts.h"

/* One process image. */
struct memory_image {
	uint32_t number;
	uint32_t parent;
	int64_t row; /* process.id */
	struct heap heap;
	struct mappings mappings;
	struct freed_pages freed;
	struct heap names; /* see memory-names.c */
	uint64_t first_name; /* names up to this id were inherited over fork */
	bool was_withheld; /* blocks may have been born without an event */
	uint64_t first_id; /* blocks up to this id were inherited over fork */
};

/* The old half of a realloc or mremap, until the new half comes. */
struct memory_move {
	uint64_t link;
	uint64_t previous_id;
	struct mapping mapping; /* mremap: what it was */
};

#define MEMORY_MOVES 4 /* under way at once in a thread: a signal handler may nest */

struct memory_thread {
	int64_t row; /* thread.id */
	struct memory_image *image;
	uint64_t born_id; /* of the block that its last event made; 0: it made none */
	struct owner_block freed; /* by its last event; id 0: it freed none */
	struct memory_move moves[MEMORY_MOVES];
	unsigned next_move;
};

struct memory {
	int64_t run_id;
	const struct tasks *tasks;
	struct tally *tally;
	struct heap_pool *pool;
	struct memory_image **images; /* by number */
	size_t n_images;
	struct memory_thread **threads; /* by number */
	size_t n_threads;
	uint64_t n_births; /* ids given to blocks */
	uint64_t next_mapping; /* id of the next mapping */
	int64_t first_allocation; /* allocation.id = this + block id */
	int64_t first_mapping;
	bool keeps_freed;
	bool is_over; /* the trace has ended: what is left stays live */
	void *paths; /* tsearch() tree of the texts in mappings */
	struct block_rows *allocations;
	struct rows *mappings;
	struct rows *names;
	const struct texts *texts;
	uint64_t n_names; /* ids given to names */
	int64_t first_name; /* object_name.id = this + the name's id */
	uint64_t min_bytes; /* smaller blocks have no events */
};

/* The image or thread of a number, made at its first use; NULL: not defined, or no memory. */
struct memory_image *memory_image(struct memory *memory, uint32_t number);
struct memory_thread *memory_thread(struct memory *memory, uint32_t number);

/* Keep the old half under its link, and find it again; NULL: there was none. */
struct memory_move *memory_keep_move(struct memory_thread *thread, uint64_t link);
struct memory_move *memory_find_move(struct memory_thread *thread, uint64_t link);

/* What is left in an image was not freed. 0 or a negative errno. */
int memory_end_blocks(struct memory *memory, struct memory_image *image, int64_t time_ns,
		      bool by_exec);
/* Names of memory in a range, or all that are left, do not hold any more. 0 or a negative errno. */
int memory_end_names(struct memory *memory, struct memory_image *image, uint64_t address,
		     uint64_t size, int64_t time_ns);
int memory_end_all_names(struct memory *memory, struct memory_image *image);
int memory_open_names(struct memory *memory, struct db *db);
int memory_end_mappings(struct memory *memory, struct memory_image *image);
