#pragma once
/*
 * Which code of a process image stays as it is for as long as it is mapped: private maps of files
 * that may not be written to. All other code may change where it lies: a JIT's anonymous memory,
 * code that may be written, memory that is shared (the program may write to it through another
 * map). The same of data that may only be read: jump tables, literals. From zero; one thread at a
 * time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- Spans of addresses ---- */

/*
 * Where code lies that was decoded: most of what a process maps and unmaps is elsewhere, and then
 * nothing that is kept of code has to be looked through. A program maps new arenas between its own
 * code and that of its libraries, so one range from the first to the last would not do. Bounded
 * memory; where it is not enough, code may be anywhere. One thread at a time.
 */

#define CODE_SPANS 128u

/* All zero is right. */
struct code_spans {
	uint32_t n;
	bool is_full; /* some are missing */
	struct {
		uint64_t start, end;
		uint32_t process_id;
	} items[CODE_SPANS];
};

/* Code, or constants, in [start, end) are kept from here on. */
void code_spans_add(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end);

/*
 * Something else is in [start, end). Returns whether anything in it may be kept. Of a whole image,
 * (process_id, 0, UINT64_MAX), nothing is kept behind it.
 */
bool code_spans_forget(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end);

struct code_range {
	uint64_t start;
	uint64_t end;
};

struct code_maps {
	struct code_range *fixed;
	size_t n_fixed;
	struct code_range *constant; /* data */
	size_t n_constant;
	bool is_known; /* they were read, and no map has come that could be one of them */
};

/*
 * Whether the code at an address of a live process is fixed. Reads /proc/PID/maps when something
 * may have changed. True where that cannot be read: the process is gone.
 */
bool code_maps_is_fixed(struct code_maps *maps, pid_t pid, uint64_t address);

/*
 * How many bytes from an address on are of data that stays as it is; 0 where that is not known.
 */
uint64_t code_maps_constant(struct code_maps *maps, pid_t pid, uint64_t address);

/*
 * Whether the page at an address is of code at this moment. What was read of it before this was
 * asked is code then, of a map that the kernel has told of by now: a loader that maps a file of
 * code first reads it where it will run, and nothing tells of that.
 */
bool code_maps_is_code_now(pid_t pid, uint64_t address);

/* Something was mapped there, or got another protection; is_file: a file. */
void code_maps_changed(struct code_maps *maps, uint64_t start, uint64_t size, bool is_file);

void code_maps_finish(struct code_maps *maps);
