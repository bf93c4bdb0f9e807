#pragma once
/* The files that a program has when it starts: its own, and the libraries that it needs. */
#include <stddef.h>

struct loaded_files {
	char **paths; /* the program's own first */
	size_t n;
	char missing[128]; /* a library that is not found; "": none */
};

#define LOADED_MESSAGE_BYTES 256

/* One more, unless it is among them. Copied. Returns 0 or -ENOMEM. */
int loaded_files_add(struct loaded_files *files, const char *path);

/*
 * Ask the loader that the program names, by its --list; nothing of the program runs. One that names
 * no loader is static, and all there is. Returns 0 or a negative errno, with a line in ret_message.
 */
int loaded_files_list(const char *program, struct loaded_files *ret_files,
		      char ret_message[static LOADED_MESSAGE_BYTES]);
void loaded_files_finish(struct loaded_files *files); /* accepts a zeroed one */
#define auto_loaded_files __attribute__((cleanup(loaded_files_finish)))
