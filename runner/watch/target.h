#pragma once
/*
 * What --watch names:  TARGET[,BYTES][:w]
 *	0x7ffe1234		an address, of the command itself
 *	name, lib.so:name a global variable, of any loaded file or of that one; name+N: N bytes in
 *	it name an object that the program names (memsight_name_range()) name, name+N a function:
 *	the first, or the Nth, block that it allocates
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCH_MAX_TARGETS 4u

struct watch_target {
	const char *text; /* the caller's */
	char name[256];
	char library[128]; /* base name, or its part up to ".so"; "": any file */
	uint64_t address; /* has_address only */
	uint64_t plus; /* +N */
	uint64_t n_bytes; /* 0: not said */
	uint64_t name_id; /* as trace_text.id */
	bool has_address;
	bool is_write_only;
};

/* Returns 0, or -EINVAL and one line that says what is wrong. text must outlive the target. */
int watch_target_parse(const char *text, struct watch_target *ret_target, char *ret_message,
		       size_t n_bytes);

/* Does a file of this path count for the target? */
bool watch_target_takes(const struct watch_target *target, const char *path);
