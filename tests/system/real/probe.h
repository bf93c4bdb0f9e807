#pragma once
/*
 * Counts entries of the C library's allocation functions with uprobes of the kernel: a second,
 * independent witness beside the library that memsight preloads. x86-64, root only.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Functions that share their code (aligned_alloc and memalign in some versions) are one probe. */
struct probe_function {
	char names[64]; /* separated by + */
	uint64_t offset; /* in the file */
};

#define PROBE_MAX_FUNCTIONS 9

/* The allocation functions of the file. Returns 0 or a negative errno. */
int probe_find(const char *library, struct probe_function *functions, size_t *ret_n);

/* One entry of a function, or a file mapped with PROT_EXEC, or a fork. */
enum probe_what { PROBE_CALL, PROBE_MAP, PROBE_FORK };

struct probe_event {
	uint64_t time_ns;
	enum probe_what what;
	uint32_t pid;
	uint32_t function; /* CALL: index */
	uint32_t parent; /* FORK: pid */
	uint64_t caller; /* CALL: return address; MAP: start */
	uint64_t argument; /* CALL: first argument; MAP: end */
	uint64_t module; /* MAP: 1 tracealloc, 0 anything else */
};

struct probe;

/*
 * Open disabled probes on a process that has not called exec yet; they count from its exec on, in
 * all its descendants. -EPERM, -EACCES, -ENOENT: uprobes are not to be had here; -EINVAL: the
 * kernel is older than 6.12.
 */
int probe_open(const char *library, const struct probe_function *functions, size_t n_functions,
	       pid_t pid, struct probe **ret_probe);
struct probe *probe_close(struct probe *probe);

/* Take what the kernel's rings hold; call it at least every few milliseconds. */
int probe_drain(struct probe *probe);

/* All events so far in order of time; valid until the next drain. */
const struct probe_event *probe_events(struct probe *probe, size_t *ret_n);

/* Events that the rings could not hold. */
uint64_t probe_n_lost(const struct probe *probe);
