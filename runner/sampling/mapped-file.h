#pragma once
/*
 * Code of a live process out of the file that it mapped, where its memory may not be read: Yama's
 * ptrace_scope of 2 and above, or a security module. Only executable maps: what lies in others may
 * have been relocated.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Read at most n_bytes at an address of the process. The file is taken by the name that the process
 * knows, and only if it still is the file that was mapped (its inode). Returns the bytes read, 0
 * when there are none to be had. Reads /proc/PID/maps each time: some 50 us. Any thread.
 */
size_t mapped_file_read(pid_t pid, uint64_t address, void *bytes, size_t n_bytes);

#define MAPPED_PAGES	  64
#define MAPPED_PAGE_BYTES 4096u

/*
 * The pages that were read last, for a caller that asks for a few bytes at a time. Zero at first.
 */
struct mapped_pages {
	struct {
		pid_t pid; /* 0: empty */
		uint64_t address;
		uint32_t n_bytes;
		uint8_t bytes[MAPPED_PAGE_BYTES];
	} items[MAPPED_PAGES];
};

/* As mapped_file_read(), from memory where it can be. One thread at a time. */
size_t mapped_pages_read(struct mapped_pages *pages, pid_t pid, uint64_t address, void *bytes,
			 size_t n_bytes);

/* Somebody has mapped something else. */
void mapped_pages_forget(struct mapped_pages *pages);
