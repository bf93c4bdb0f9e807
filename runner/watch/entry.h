#pragma once
/*
 * --start-after function:NAME: where that function begins in a process that says hello. Only
 * x86-64: tracealloc/hooks/entry.h.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A jump of so many bytes must fit into one aligned word with the function's begin. */
#define ENTRY_JUMP_BYTES 5u
#define ENTRY_WORD_BYTES 8u

struct entry {
	const char *name; /* SYMBOL, or MODULE!SYMBOL; NULL: no function is looked for */
	unsigned n_images; /* that were looked at */
	unsigned n_found; /* images that have it */
	bool has_nearest; /* problem names one */
	char problem[256]; /* of an image that has it not; "": none */
};

/*
 * Find it among the files that a process has mapped: of the program first, then of its libraries;
 * MODULE is a file's name, with or without what is behind ".so". Returns its address; 0: there is
 * none, or it cannot be led to us, and problem says why.
 */
uint64_t entry_find(struct entry *entry, pid_t pid);

/* Has a file a function of that name? */
bool entry_is_in_file(const char *path, const char *symbol);
