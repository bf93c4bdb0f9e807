#pragma once
/* The agent's file as it will lie in a process. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/agent.h"

#define AGENT_MAX_SEGMENTS 8u

struct agent_segment {
	uint64_t start; /* offset in memory, of whole pages */
	uint64_t end;
	uint64_t offset; /* in the file */
	int prot;
	bool is_mapped; /* from the file, in the process: it need not be written */
};

struct agent_file {
	uint8_t *bytes; /* n_bytes; ours */
	size_t n_bytes; /* of whole pages */
	size_t n_filled; /* of them, from the start; the rest are zeros */
	struct agent_segment segments[AGENT_MAX_SEGMENTS];
	size_t n_segments;
	uint64_t symbols; /* offsets of tables of Elf64_Sym, of which there are so many, ... */
	uint64_t n_symbols;
	uint64_t strings; /* ... and of their names */
	uint64_t agent; /* offset of struct agent */
	uint64_t relocations; /* offset of a table of Elf64_Rela ... */
	uint64_t n_relocations;
};

/* Read it. 0 or a negative errno: -ENOEXEC, it is not what this build has made. */
int agent_file_read(const char *path, struct agent_file *ret_file);

/* Make its addresses those of a place in memory. Once. */
void agent_file_move(struct agent_file *file, uint64_t base);

/* Bytes of it at an address of that place; NULL: they are not all in it. */
void *agent_file_at(const struct agent_file *file, uint64_t offset, size_t n_bytes);

/* The offset of what has this name; 0: nothing has. */
uint64_t agent_file_symbol(const struct agent_file *file, const char *name);

void agent_file_finish(struct agent_file *file); /* accepts a zeroed one */
#define auto_agent_file __attribute__((cleanup(agent_file_finish)))
