#pragma once
/* Bytes of a live process, by whichever way the kernel allows. Any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A page that a sample hit surely was there. The page behind it is only wanted: behind the last
 * page of a text there is none, or a guard page.
 */
enum process_read_wish { READ_NEEDED, READ_WANTED };

/* Which pages of a process have a page frame: reading another one would be its first fault. */
struct process_pages {
	int fd; /* of pid; else 0 */
	pid_t pid; /* 0: none */
};

/* Whether the page around an address is there. False too where the kernel does not say. */
bool process_has_page(struct process_pages *pages, pid_t pid, uint64_t address);

/* Of so many pages from the one around address on, up to 64: one bit each. */
uint64_t process_has_pages(struct process_pages *pages, pid_t pid, uint64_t address,
			   unsigned n_pages);

/* All zero is right. */
void process_pages_finish(struct process_pages *pages);

/*
 * Returns the bytes read from address on, 0 when none can be. *is_forbidden is the process's:
 * whether the kernel lets us not read its memory at all, and may log each attempt; it is set when
 * that is found out.
 */
size_t process_read(pid_t pid, bool *is_forbidden, uint64_t address, void *bytes, size_t n_bytes,
		    enum process_read_wish wish);

/*
 * Pages at several addresses, up to PROCESS_READ_PAGES, one behind the other into bytes: in one
 * call where the kernel allows that. Returns one bit for each that could be read.
 */
#define PROCESS_READ_PAGES 32u
uint64_t process_read_pages(pid_t pid, bool *is_forbidden, const uint64_t *addresses,
			    unsigned n_pages, void *bytes);
