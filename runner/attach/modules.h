#pragma once
/*
 * The files that a process has loaded, as they lie in its memory: where their functions are is read
 * from there, since another mount namespace may have other files of the same name. The process
 * should stand, or what is read may change; whatever it says is checked against its mappings.
 */
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct module_range {
	uintptr_t start;
	uintptr_t end;
};

struct remote_module {
	char path[256]; /* the end of a longer one */
	uintptr_t base; /* where its first page lies */
	uintptr_t bias;
	uintptr_t end;
	struct module_range code; /* its executable pages */
	uintptr_t symbols; /* tables in its memory; 0: none */
	uintptr_t strings;
	uintptr_t hashes; /* DT_GNU_HASH */
	uint64_t strings_bytes;
	bool is_loader;
};

struct remote_modules {
	pid_t pid;
	struct remote_module *items;
	size_t n;
};

/* List them. 0 or a negative errno. */
int remote_modules_read(pid_t pid, struct remote_modules *ret_modules);
void remote_modules_finish(struct remote_modules *modules);

/* The first one whose file name begins so ("libc.so"); NULL: none. */
const struct remote_module *remote_modules_find(const struct remote_modules *modules,
						const char *name);

/* The one that holds an address of code; NULL: none. */
const struct remote_module *remote_modules_at(const struct remote_modules *modules, uintptr_t pc);

/* Where it defines a function; start 0: it does not. */
struct module_range remote_module_function(const struct remote_modules *modules,
					   const struct remote_module *module, const char *name);

/*
 * From the end of the exported function before `name` in its code to the end of `name`: what stands
 * between are functions of its own of the same source file. start 0: not found.
 */
struct module_range remote_module_around(const struct remote_modules *modules,
					 const struct remote_module *module, const char *name);

/* Where in its code these bytes stand; 0: nowhere. */
uintptr_t remote_module_bytes(const struct remote_modules *modules,
			      const struct remote_module *module, const void *bytes,
			      size_t n_bytes);
