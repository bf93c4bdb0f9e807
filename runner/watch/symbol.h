#pragma once
/* Symbols of an ELF file, by name: what --watch means by one. */
#include <stdbool.h>
#include <stdint.h>

enum watch_symbol_kind {
	WATCH_SYMBOL_VARIABLE,
	WATCH_SYMBOL_FUNCTION,
	WATCH_SYMBOL_THREAD_LOCAL, /* at another address in each thread */
};

struct watch_symbol {
	enum watch_symbol_kind kind;
	uint64_t value; /* as in the file: address = value + bias */
	uint64_t n_bytes; /* 0: the file does not say */
	unsigned n_same; /* how many of this kind and name the file has: static ones */
};

/* An open file. */
struct watch_file;

/* Returns 0 or a negative errno: -ENOENT ..., -ENOEXEC: no ELF file. Closed by the caller. */
int watch_file_open(const char *path, struct watch_file **ret_file);
struct watch_file *watch_file_close(struct watch_file *file); /* accepts NULL, returns NULL */

static inline void watch_file_cleanup(struct watch_file **file)
{
	*file = watch_file_close(*file);
}
#define auto_watch_file __attribute__((cleanup(watch_file_cleanup)))

/* A variable or function; a global one before static ones. False: it has none of that name. */
bool watch_file_find(struct watch_file *file, const char *name, struct watch_symbol *ret_symbol);

/* Compare the names of all its functions with a word. The nearest is valid until it is closed. */
struct parse_nearest;
void watch_file_offer(struct watch_file *file, struct parse_nearest *nearest);

/* What is to be added to values when file_offset is mapped at address. False: no segment has it. */
bool watch_file_bias(struct watch_file *file, uint64_t address, uint64_t file_offset,
		     uint64_t *ret_bias);
