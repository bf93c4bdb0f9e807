#pragma once
/* What /proc and the executable tell about a process image. Reads only; any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/processes/image.h"

/*
 * Fill exe, command, ns_pid of a live image and, for one that is not traced, what its file says
 * about why. What cannot be read (it is gone, or another user's) is left as it is.
 */
void image_inspect(struct image *image);

/* Only the number that it has in its own namespace. Returns whether it is there. */
bool image_inspect_number(struct image *image);

/* The file of the program that a process runs now, O_PATH; or a negative errno. */
int image_open_exe(pid_t pid);

/* What is known of a program already. */
struct image_told {
	int exe_fd; /* its file, perhaps O_PATH; -1: /proc/PID/exe */
	const char *command; /* arguments with a NUL behind each; NULL: /proc/PID/cmdline */
	size_t n_bytes; /* of command */
};

/* Only which program it is. */
void image_inspect_program(struct image *image, const struct image_told *told);

/*
 * Why our library is not loaded into this file, by ld.so or by us: enum trace_why_not, or 0 when it
 * would be.
 */
int image_file_why_not(const char *path);

/*
 * Does the executable define malloc for itself and its libraries? Ours comes behind it: blocks are
 * seen as far as its malloc takes them from the next one.
 */
bool image_file_has_malloc(const char *path);

/*
 * The same for the program of an image: the file that it runs or, when it is gone, the one of that
 * name.
 */
bool image_has_malloc(const struct image *image, int exe_fd);

/* Why not, for a command: a script is what its interpreter is. */
int image_command_why_not(const char *path);

/* Does musl's loader start a command (see there)? */
bool image_command_is_musl(const char *path);

/*
 * How a dead process ended, as from wait(), where the kernel tells somebody who is not its parent;
 * else IMAGE_STATUS_UNKNOWN.
 */
#define IMAGE_STATUS_UNKNOWN (-1)
int image_end_status(const struct image *image);

/*
 * Which rank of a parallel job a live process is, by its environment; < 0: none, or not ours to
 * read.
 */
int64_t image_process_rank(pid_t pid);

/* Whether a process is dead and waits to be waited for. */
bool image_is_zombie(pid_t pid);

/* Whether a process has been stopped by a signal. */
bool image_is_stopped(pid_t pid);

/* A number of /proc/PID/stat, by its place in proc_pid_stat(5) from 4 on, or `unknown'. */
int64_t image_stat_number(pid_t pid, int number, int64_t unknown);

/* Whether a process will be gone, whatever it does: it is on its way out with its last thread. */
bool image_is_ending(pid_t pid);

/* What a link of /proc/PID leads to, cut off at n_bytes. False, with errno: it cannot be read. */
bool image_read_link(pid_t pid, const char *name, char *ret_target, size_t n_bytes);

/*
 * Open a file of /proc/PID. Returns the descriptor, -ESRCH where the process has ended or is about
 * to (its files are root's then), or another negative errno.
 */
int image_open_file(pid_t pid, const char *name, int flags);

/*
 * Whether the memory that a process had when its pagemap was opened as table has gone: it has
 * ended, or become another program. Linux then reads no entry.
 */
bool image_memory_has_gone(int table);

/* Whether it is the number of a process that is there, and not that of a further thread of one. */
bool image_is_process(pid_t pid);

/* What seccomp(2) does to a process or thread. */
struct image_confinement {
	int mode; /* 0: nothing, 1: strict, 2: filters */
	int n_filters; /* 0 where the kernel does not count them (before 5.9) */
};
struct image_confinement image_confinement(pid_t tid);

/*
 * Call for each thread that /proc has now; ends when that returns < 0, and returns that. -ESRCH:
 * the process is gone.
 */
int image_each_thread(pid_t pid, int (*call)(void *user, pid_t tid), void *user);

/* How many threads of a process run at this moment, or wait for a CPU only. */
unsigned image_count_running(pid_t pid);

/* How many threads a process has, one that was its first and has ended among them; 0: gone. */
long image_count_threads(pid_t pid);

/* Is a signal blocked in all threads that a process has? False: or it is gone. */
bool image_blocks_signal(pid_t pid, int number);

/* The parent of a process, 0 when it is gone. */
pid_t image_parent_pid(pid_t pid);

/* Whether a process is another one, or was started by it, be it by others. */
bool image_descends_from(pid_t pid, pid_t ancestor);

/* Find the process that another pid namespace knows as ns_pid, below ancestor. 0: not found. */
pid_t image_find_ns_pid(pid_t ancestor, pid_t ns_pid);

/* Call back for each child of a process (all its threads' children). */
void image_each_child(pid_t pid, void (*call)(void *user, pid_t child), void *user);

/*
 * Call back for each process whose environment names this recording's socket, as far as we may
 * read it. Looks at every process of the machine.
 */
void image_each_recorded(const char *socket_path, void (*call)(void *user, pid_t pid), void *user);

/* One line of /proc/PID/maps. path lies in the line, NUL-terminated. */
struct image_map {
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	uint32_t prot; /* PROT_* */
	uint32_t flags; /* MAP_SHARED or MAP_PRIVATE */
	const char *path;
	uint64_t inode; /* 0: no file */
};

/* Parse a line (its newline is cut off). Returns false when it is none. */
bool image_parse_map(char *line, struct image_map *ret_map);

/* Call back for each map of a live process. Returns 0 or a negative errno. */
int image_each_map(pid_t pid, void (*call)(void *user, const struct image_map *map), void *user);

/* The same for maps that were read already, which are written over. */
void image_each_map_of(char *text, void (*call)(void *user, const struct image_map *map),
		       void *user);

/* Yama's kernel.yama.ptrace_scope; 0 where there is none. 1: a process says who may trace it. */
int image_ptrace_scope(void);
