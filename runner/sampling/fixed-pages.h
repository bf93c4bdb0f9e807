#pragma once
/*
 * Pages of live processes that stay as they are for as long as they are mapped: code and constant
 * data, which the decoder asks for a few bytes at a time. One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/sampling/code-spans.h"
#include "runner/sampling/data-pages.h"
#include "runner/sampling/process-read.h"

#define FIXED_PAGES 128

/* The pages that were read last. Zero at first. */
struct fixed_pages {
	struct {
		uint64_t address;
		uint32_t process_id;
		uint32_t n_bytes; /* 0: empty */
		uint8_t bytes[DATA_PAGE_BYTES];
	} items[FIXED_PAGES];
	struct process_pages present;
	struct code_spans spans; /* of all that was asked for */
};

/*
 * Copy bytes of one page at most. Returns how many, 0 when there are none to be had: a page that
 * the program has not touched is left to it.
 */
size_t fixed_pages_read(struct fixed_pages *pages, const struct data_owner *owner, uint64_t address,
			void *bytes, size_t n_bytes);

/*
 * Something else is in [start, end) of an image. Returns whether anything in it may have been asked
 * for.
 */
bool fixed_pages_forget(struct fixed_pages *pages, uint32_t process_id, uint64_t start,
			uint64_t end);

void fixed_pages_finish(struct fixed_pages *pages);
