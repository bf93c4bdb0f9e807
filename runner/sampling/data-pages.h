#pragma once
/*
 * Pages of live processes as the last reading saw them, and what of them has changed since the one
 * before. A page is read once in a round, and only where it has a page frame: at once when it is
 * new; else what was read before serves until the round's end, and all such pages are read together
 * then. Of small data those around are read with the first one, so that a reading before a sample
 * soon is there of all pages. Bounded memory. One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/sampling/code-maps.h"
#include "runner/sampling/process-read.h"

#define DATA_PAGE_BYTES 4096u
#define DATA_WORD_BYTES 8u
#define DATA_STORED_NS	UINT64_C(30000000000) /* below TRACE_HELD_SAME_NS */

/* A page, and what had changed since a reading in an earlier round; settled pages only. */
struct data_page {
	uint64_t address;
	uint32_t process_id;
	uint32_t round;
	bool is_wanted; /* in this round: nothing else may take its place */
	bool is_due; /* it is as it was before_ns: this round has not read it yet */
	uint64_t before_ns; /* end of the reading before; 0: there was none */
	uint64_t end_ns; /* of the last one */
	uint64_t changed[DATA_PAGE_BYTES / DATA_WORD_BYTES / 64];
	uint64_t stored[DATA_PAGE_BYTES / DATA_WORD_BYTES / 64]; /* words that are in the trace */
	uint64_t stored_from_ns; /* since then */
	uint8_t bytes[DATA_PAGE_BYTES];
};

/* Whose page is wanted. */
struct data_owner {
	uint32_t process_id; /* of the image */
	pid_t pid;
	bool *is_forbidden; /* the kernel does not let us, and may log each attempt */
};

struct data_pages;

/* NULL: no memory. */
struct data_pages *data_pages_create(void);
struct data_pages *data_pages_destroy(struct data_pages *pages); /* accepts NULL */

/*
 * The page around an address as it is in this round, or was in an earlier one (is_due). It is valid
 * until the next one; NULL: it is not to be had.
 */
const struct data_page *data_pages_find(struct data_pages *pages, const struct data_owner *owner,
					uint64_t address);

/* Whether the word at an address, which is in the page, has changed. */
static inline bool data_page_has_changed(const struct data_page *page, uint64_t address)
{
	uint64_t word = address % DATA_PAGE_BYTES / DATA_WORD_BYTES;

	return page->changed[word / 64] >> word % 64 & 1;
}

/* Read what is due. Returns when that began. */
uint64_t data_pages_settle(struct data_pages *pages);

/* The page around an address if this round has read it, or NULL. */
struct data_page *data_pages_settled(const struct data_pages *pages, uint32_t process_id,
				     uint64_t address);

/*
 * Words of the page, from an address on, are stored at now_ns. Returns whether all of them were
 * before, as they are, but at most DATA_STORED_NS ago.
 */
bool data_page_store(struct data_page *page, uint64_t address, uint32_t n_words, uint64_t now_ns);

/* The trace has lost words that it had: all are stored anew. */
void data_pages_store_anew(struct data_pages *pages);

/* When the first reading of this round began; 0: there was none. */
uint64_t data_pages_begin_ns(const struct data_pages *pages);

/* What is asked for from here on is to be read anew. */
void data_pages_next_round(struct data_pages *pages);

/* Other data is in [start, end) of an image. */
void data_pages_forget(struct data_pages *pages, uint32_t process_id, uint64_t start, uint64_t end);

/* ---- Pages that do not change ---- */

/*
 * Pages of live processes that stay as they are for as long as they are mapped: code and constant
 * data, which the decoder asks for a few bytes at a time. One thread at a time.
 */

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
