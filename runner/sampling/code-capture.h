#pragma once
/*
 * Takes the bytes of code out of live processes, so that samples can be decoded later and on
 * another machine: once for each page of a file that was sampled, again and again for code that may
 * change (code-changing.h). Knows which pages of which process image are stored; bounded memory;
 * hands the bytes to callbacks that write CODE frames. One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/sampling/code-changing.h"
#include "schemas/trace-format.h"

#define RUN_CODE_PAGE_BYTES   4096u
#define RUN_CODE_BEYOND_BYTES 16u /* an instruction that begins on the page ends in these */

struct run_code_options {
	size_t max_pages; /* remembered; beyond it nothing new is stored. 0: 1,048,576 */
	unsigned snapshot_after; /* samples of an image before read-only data is copied; 0: 20 */
	uint64_t max_map_bytes; /* larger read-only maps are left out; 0: 8 MiB */
	uint64_t max_snapshot_bytes; /* for each image; 0: 32 MiB */
	uint64_t max_total_bytes; /* of the whole recording; 0: 1 GiB */
	size_t max_changing_pages; /* of code that may change; 0: 8,192, some 5 KiB each */
	uint64_t max_changing_bytes; /* of their versions, in the whole recording; 0: 128 MiB */
};

/* What could not be stored is counted here, for the loss ledger. */
struct run_code_counts {
	uint64_t n_pages; /* code pages stored */
	uint64_t n_bytes; /* code and data stored */
	uint64_t n_unreadable; /* samples whose page could not be read */
	uint64_t n_over_limit; /* samples left without bytes by max_pages or max_total_bytes */
	uint64_t n_snapshots;
	uint64_t n_snapshot_left_out; /* read-only maps too large, or unreadable in part */
	uint64_t n_changes; /* readings that found a page of code changed */
};

struct run_code;

/*
 * Returns 0 or -ENOMEM. options may be NULL. The sink's lines stores all kinds of code; where it
 * fails the page will be tried again. Without a sink (NULL) only run_code_live() has a use.
 */
int run_code_create(const struct run_code_options *options, const struct code_changing_sink *sink,
		    struct run_code **ret_code);

/* Accepts NULL, returns NULL. */
struct run_code *run_code_destroy(struct run_code *code);

/*
 * A sample at ip in a live process: stores the page of ip and the next one (look-ahead runs into
 * it) if they are not stored yet, and after some samples the image's read-only data. process_id is
 * the image, pid its number now, ticks the time of reading. Nearly always one look into a table.
 * Returns 0 (also when the page is not readable: counted), the callback's negative result, or
 * -ENOMEM.
 */
int run_code_sample(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t ip,
		    uint64_t ticks);

/*
 * Store the page of an address if it is not yet. Returns 1 when it is stored (now or before), 0
 * when it cannot be (counted), or as run_code_sample().
 */
int run_code_page(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t address,
		  uint64_t ticks);

/*
 * The samples of a round have been told: code that may change is read, behind all of them. Returns
 * 0 or what the sink does.
 */
int run_code_round(struct run_code *code, uint64_t ticks);

/* Whether code was new or changed a short time ago: then rounds ought to come soon. */
bool run_code_is_moving(const struct run_code *code);

/* Whether the code at an address of a live process stays as it is for as long as it is mapped. */
bool run_code_is_fixed(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t address);

/* How many bytes from an address on are of data that stays as it is for as long as it is mapped. */
uint64_t run_code_constant(struct run_code *code, uint32_t process_id, pid_t pid, uint64_t address);

/*
 * For --private, behind run_code_round(): the bytes of code that may change that ran at an address
 * when samples of this round were taken, as far as that can be told. Returns how many.
 */
size_t run_code_live(struct run_code *code, uint32_t process_id, uint64_t address, void *bytes,
		     size_t n_bytes);

/*
 * The range has another content or protection from now on (MMAP2 over it, munmap): its pages are
 * read anew. is_file: of a file.
 */
void run_code_forget_range(struct run_code *code, uint32_t process_id, uint64_t start,
			   uint64_t size, bool is_file);

/* The image is gone (exec gives a new process_id; exit). */
void run_code_forget_image(struct run_code *code, uint32_t process_id);

struct run_code_counts run_code_counts(const struct run_code *code);
