#include "runner/processes/image-proc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elf-check.h"
#include "common/io.h"
#include "common/parse.h"
#include "runner/output.h"
#include "runner/run-command.h"
#include "schemas/recording.h"

#define MAX_TEXT_BYTES	  (4u << 20)
#define MAX_COMMAND_BYTES (64u << 10)
#define EXE_PATH_BYTES	  64u /* of a link to a program */
#define MAX_INTERPRETERS  4 /* a script of a script ...; the kernel stops there, too */

/* Read a file of /proc/PID. NULL: it is gone or not ours to read. The caller frees. */
static char *read_proc(pid_t pid, const char *name, size_t *ret_bytes)
{
	char *text = NULL;

	return io_read_proc(pid, name, MAX_TEXT_BYTES, &text, ret_bytes) < 0 ? NULL : text;
}

static bool follow_link(const char *path, char *ret_target, size_t n_bytes)
{
	ssize_t n = readlink(path, ret_target, n_bytes - 1);

	if (n < 0)
		return false;
	ret_target[n] = '\0';
	return true;
}

bool image_read_link(pid_t pid, const char *name, char *ret_target, size_t n_bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return follow_link(path, ret_target, n_bytes);
}

/* The last number of a line "NAME:\t1 2 3" of /proc/PID/status; 0: not there. */
static pid_t status_number(const char *status, const char *name)
{
	const char *line = strstr(status, name);
	const char *end;

	if (!line)
		return 0;
	line++; /* behind the end of the line before */
	end = line + strcspn(line, "\n");
	while (end > line && isdigit((unsigned char)end[-1]))
		end--;
	return end[-1] == '-' ? 0 : (pid_t)atoi(end); /* -1 of a pidfd: it is gone */
}

/* What is forbidden of one that has ended, whose files are root's, is nothing to look at. */
static bool has_ended(pid_t pid)
{
	return image_is_ending(pid) || (kill(pid, 0) < 0 && errno == ESRCH);
}

int image_open_file(pid_t pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int fd = open(path, flags | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	int err = errno;
	return err == ENOENT || has_ended(pid) ? -ESRCH : -err;
}

bool image_memory_has_gone(int table)
{
	uint64_t entry;

	return pread(table, &entry, sizeof(entry), 0) == 0;
}

/* The same of a process or thread; 0, too: it is gone. */
static pid_t number_of(pid_t pid, const char *name)
{
	auto_free char *status = read_proc(pid, "status", NULL);

	return status ? status_number(status, name) : 0;
}

bool image_is_process(pid_t pid)
{
	return pid > 0 && number_of(pid, "\nTgid:") == pid;
}

pid_t image_parent_pid(pid_t pid)
{
	return number_of(pid, "\nPPid:");
}

struct image_confinement image_confinement(pid_t tid)
{
	auto_free char *status = read_proc(tid, "status", NULL);

	if (!status)
		return (struct image_confinement){ 0, 0 };
	return (struct image_confinement){ status_number(status, "\nSeccomp:"),
					   status_number(status, "\nSeccomp_filters:") };
}

static DIR *open_threads(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return opendir(path);
}

int image_each_thread(pid_t pid, int (*call)(void *user, pid_t tid), void *user)
{
	auto_folder DIR *folder = open_threads(pid);
	int r = 0;

	if (!folder)
		return errno == ENOENT ? -ESRCH : -errno;
	for (pid_t tid; r >= 0 && (tid = io_next_number(folder));)
		r = call(user, tid);
	return r < 0 ? r : 0;
}

long image_count_threads(pid_t pid)
{
	return number_of(pid, "\nThreads:");
}

struct open_thread {
	int number; /* of the signal */
	bool is_found; /* a thread that does not block it */
};

static int look_for_open(void *user, pid_t tid)
{
	static const char name[] = "\nSigBlk:";
	struct open_thread *open_thread = user;
	auto_free char *status = read_proc(tid, "status", NULL);
	const char *line = status ? strstr(status, name) : NULL;
	uint64_t set = line ? strtoull(line + strlen(name), NULL, 16) : 0;

	open_thread->is_found = line && !(set >> (open_thread->number - 1) & 1);
	return open_thread->is_found ? -EEXIST : 0;
}

bool image_blocks_signal(pid_t pid, int number)
{
	struct open_thread open_thread = { .number = number };

	return image_each_thread(pid, look_for_open, &open_thread) == 0 && !open_thread.is_found;
}

/* AT_SECURE: ld.so drops LD_PRELOAD entries with a slash (ld.so(8)). */
static bool raises_privileges(int fd, const struct stat *status)
{
	char capabilities[64];

	if (fgetxattr(fd, "security.capability", capabilities, sizeof(capabilities)) > 0)
		return geteuid() != 0;
	if ((status->st_mode & S_ISUID) && status->st_uid != geteuid())
		return true;
	return (status->st_mode & S_ISGID) && (status->st_mode & S_IXGRP) &&
	       status->st_gid != getegid();
}

int image_file_why_not(const char *path)
{
	struct stat status;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		/* Executable, but not readable: only its mode can be looked at. */
		if (stat(path, &status) < 0)
			return 0;
		return (status.st_mode & S_ISUID) && status.st_uid != geteuid() ? TRACE_NOT_SETUID
										: 0;
	}
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return 0;
	int why_not = program_file_why_not(io_read_at, fd);
	if ((why_not == 0 || why_not == TRACE_NOT_STATIC) && raises_privileges(fd, &status))
		why_not = TRACE_NOT_SETUID;
	return why_not;
}

bool image_file_has_malloc(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd >= 0 && program_file_defines(io_read_at, fd, "malloc");
}

static void exe_path(pid_t pid, int exe_fd, char path[EXE_PATH_BYTES])
{
	if (exe_fd >= 0)
		snprintf(path, EXE_PATH_BYTES, "/proc/self/fd/%d", exe_fd);
	else
		snprintf(path, EXE_PATH_BYTES, "/proc/%d/exe", (int)pid);
}

int image_open_exe(pid_t pid)
{
	char path[EXE_PATH_BYTES];

	exe_path(pid, -1, path);
	int fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool image_has_malloc(const struct image *image, int exe_fd)
{
	char path[EXE_PATH_BYTES];

	exe_path(image->pid, exe_fd, path);
	return image_file_has_malloc(access(path, F_OK) == 0 ? path : image->exe);
}

/*
 * The file that the kernel starts for a command: of a script its interpreter; -1: cannot be opened.
 */
static int open_command(const char **path, char interpreter[PATH_MAX])
{
	int fd = open(*path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	for (int i = 0; i < MAX_INTERPRETERS && fd >= 0 &&
			program_file_interpreter(io_read_at, fd, interpreter, PATH_MAX);
	     i++) {
		close(fd);
		*path = interpreter;
		fd = open(*path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	return fd;
}

int image_command_why_not(const char *path)
{
	char interpreter[PATH_MAX];
	auto_close int fd = open_command(&path, interpreter);

	(void)fd; /* the path is what is needed */
	return image_file_why_not(path);
}

bool image_command_is_musl(const char *path)
{
	char interpreter[PATH_MAX];
	auto_close int fd = open_command(&path, interpreter);

	return fd >= 0 && program_file_is_musl(io_read_at, fd);
}

static bool is_in_another_root(pid_t pid)
{
	char ours[PATH_MAX], theirs[PATH_MAX];

	return image_read_link(getpid(), "root", ours, sizeof(ours)) &&
	       image_read_link(pid, "root", theirs, sizeof(theirs)) && strcmp(ours, theirs) != 0;
}

/* The value of a variable, or NULL; text is /proc/PID/environ. */
static const char *find_variable(const char *text, size_t n_bytes, const char *name)
{
	size_t n = strlen(name);

	for (size_t at = 0; at < n_bytes; at += strlen(text + at) + 1) {
		if (strncmp(text + at, name, n) == 0 && text[at + n] == '=')
			return text + at + n + 1;
	}
	return NULL;
}

int64_t image_process_rank(pid_t pid)
{
	size_t n_bytes = 0;
	auto_free char *text = read_proc(pid, "environ", &n_bytes);
	uint64_t rank;

	for (size_t i = 0; text && output_rank_variables[i]; i++) {
		const char *value = find_variable(text, n_bytes, output_rank_variables[i]);

		if (value && parse_number(value, &rank) == 0 && rank <= INT32_MAX)
			return (int64_t)rank;
	}
	return -1;
}

static bool lacks_our_variable(pid_t pid)
{
	size_t n_bytes = 0;
	auto_free char *text = read_proc(pid, "environ", &n_bytes);

	/* Empty: not ours to read, or on its way out. */
	return text && n_bytes > 0 && !find_variable(text, n_bytes, RECORDING_ENV_SOCKET);
}

/* Why a live process that ran for a while has said no hello: never 0. */
static int image_process_why_not(pid_t pid)
{
	char path[EXE_PATH_BYTES];

	exe_path(pid, -1, path);
	int why_not = image_file_why_not(path);
	if (why_not)
		return why_not;
	if (is_in_another_root(pid))
		return TRACE_NOT_CHROOT;
	return lacks_our_variable(pid) ? TRACE_NOT_ENVIRONMENT : TRACE_NOT_ATTACHED;
}

/* n_bytes 0: it is to be asked for. */
static void take_command(struct image *image, const char *known, size_t n_bytes)
{
	bool is_known = n_bytes > 0;
	char *command = is_known ? malloc(n_bytes + 1) : read_proc(image->pid, "cmdline", &n_bytes);

	if (command && is_known) {
		memcpy(command, known, n_bytes);
		command[n_bytes] = '\0';
	}
	if (!command || n_bytes == 0) {
		free(command);
		return;
	}
	if (n_bytes > MAX_COMMAND_BYTES)
		n_bytes = MAX_COMMAND_BYTES;
	if (command[n_bytes - 1] == '\0')
		n_bytes--;
	free(image->command);
	image->command = command;
	image->command_bytes = n_bytes;
}

/* /proc/PID/exe of another user's (setuid) program cannot be read, but what it was called can. */
static void take_exe_from_command(struct image *image)
{
	char path[PATH_MAX];

	if (image->exe[0] || !image->command_bytes)
		return;
	if (image->command[0] != '/' && strchr(image->command, '/'))
		return; /* relative to a folder that is not ours */
	if (run_command_find(image->command, path) == 0)
		snprintf(image->exe, sizeof(image->exe), "%s", path);
}

/*
 * What is told of a pidfd has this line of status, too, without all that is worked out for the
 * others. 0: it is gone, or the kernel is older than 5.5.
 */
static pid_t number_of_pidfd(const struct image *image)
{
	char name[32];

	snprintf(name, sizeof(name), "fdinfo/%d", image->pidfd);
	auto_free char *text = image->pidfd < 0 ? NULL : read_proc(getpid(), name, NULL);

	return text ? status_number(text, "\nNSpid:") : 0;
}

bool image_inspect_number(struct image *image)
{
	pid_t ns_pid = number_of_pidfd(image);
	auto_free char *status = ns_pid > 0 ? NULL : read_proc(image->pid, "status", NULL);

	if (status)
		ns_pid = status_number(status, "\nNSpid:");
	if (ns_pid > 0)
		image->ns_pid = ns_pid;
	return status || ns_pid > 0;
}

void image_inspect_program(struct image *image, const struct image_told *told)
{
	char path[EXE_PATH_BYTES];

	exe_path(image->pid, told->exe_fd, path);
	if (follow_link(path, image->exe, sizeof(image->exe)))
		image->is_exe_guessed = false;
	take_command(image, told->command, told->n_bytes);
	take_exe_from_command(image);
}

void image_inspect(struct image *image)
{
	bool is_there = image_inspect_number(image);

	image_inspect_program(image, &(struct image_told){ .exe_fd = -1 });
	if (!image->is_traced && is_there)
		image->why_not = image_process_why_not(image->pid);
}

bool image_descends_from(pid_t pid, pid_t ancestor)
{
	for (int depth = 0; pid > 1 && depth < 64; depth++) {
		if (pid == ancestor)
			return true;
		pid = image_parent_pid(pid);
	}
	return false;
}

pid_t image_find_ns_pid(pid_t ancestor, pid_t ns_pid)
{
	auto_folder DIR *folder = opendir("/proc");

	for (pid_t pid; (pid = io_next_number(folder));)
		if (number_of(pid, "\nNSpid:") == ns_pid && image_descends_from(pid, ancestor))
			return pid;
	return 0;
}

void image_each_child(pid_t pid, void (*call)(void *user, pid_t child), void *user)
{
	auto_folder DIR *folder = open_threads(pid);
	char name[64];

	for (pid_t tid; (tid = io_next_number(folder));) {
		snprintf(name, sizeof(name), "task/%d/children", (int)tid);
		auto_free char *text = read_proc(pid, name, NULL);
		char *rest = text;

		for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
			if (atoi(word) > 0)
				call(user, (pid_t)atoi(word));
		}
	}
}

static bool names_socket(pid_t pid, const char *socket_path)
{
	size_t n_bytes = 0;
	auto_free char *text = read_proc(pid, "environ", &n_bytes);
	const char *value = text ? find_variable(text, n_bytes, RECORDING_ENV_SOCKET) : NULL;

	return value && strcmp(value, socket_path) == 0;
}

void image_each_recorded(const char *socket_path, void (*call)(void *user, pid_t pid), void *user)
{
	auto_folder DIR *folder = opendir("/proc");

	for (pid_t pid; (pid = io_next_number(folder));)
		if (pid != getpid() && names_socket(pid, socket_path))
			call(user, pid);
}

/* ---- /proc/PID/status ---- */

/* How a process ended that is not our child: nobody gives us its wait status. */

#define MAX_STAT_BYTES	  4096
#define FLAGS_FIELD	  9 /* proc_pid_stat(5) */
#define N_THREADS_FIELD	  20
#define EXIT_CODE_FIELD	  52
#define FIRST_BEHIND_COMM 3
#define FLAG_EXITING	  0x4u /* PF_EXITING of linux/sched.h: zombies have it, too */

/* linux/pidfd.h of 6.15 and later; Debian 12's is older. */
struct pidfd_exit_info {
	__u64 mask;
	__u64 cgroup_id;
	__u32 ids[11];
	__s32 exit_code;
	__u32 coredump_mask;
	__u32 spare;
};
_Static_assert(sizeof(struct pidfd_exit_info) == 72, "struct pidfd_info is ABI");
#define PIDFD_EXIT_BIT	    (UINT64_C(1) << 3)
#define PIDFD_GET_EXIT_INFO _IOWR(0xff, 11, struct pidfd_exit_info)

/* The fields of /proc/PID/stat from the state on. NULL: it is gone. */
static const char *read_stat(pid_t pid, char **ret_text)
{
	if (io_read_proc(pid, "stat", MAX_STAT_BYTES, ret_text, NULL) < 0)
		return NULL;
	const char *state = strrchr(*ret_text, ')');
	return state && state[1] ? state + 2 : NULL;
}

/* A field behind the state; NULL: there is none. */
static const char *find_field(const char *state, int number)
{
	for (int field = FIRST_BEHIND_COMM; state && field < number; field++) {
		state = strchr(state, ' ');
		state = state ? state + 1 : NULL;
	}
	return state;
}

int64_t image_stat_number(pid_t pid, int number, int64_t unknown)
{
	auto_free char *text = NULL;
	const char *field = find_field(read_stat(pid, &text), number);

	return field ? strtoll(field, NULL, 10) : unknown;
}

/* Its letter of proc_pid_stat(5); 0: it is gone. */
static char state_of(pid_t pid)
{
	auto_free char *text = NULL;
	const char *state = read_stat(pid, &text);

	return state ? state[0] : 0;
}

bool image_is_zombie(pid_t pid)
{
	return state_of(pid) == 'Z';
}

bool image_is_stopped(pid_t pid)
{
	return state_of(pid) == 'T';
}

static int count_running(void *user, pid_t tid)
{
	*(unsigned *)user += state_of(tid) == 'R';
	return 0;
}

unsigned image_count_running(pid_t pid)
{
	unsigned n = 0;

	image_each_thread(pid, count_running, &n);
	return n;
}

/* Its first thread may have ended alone: others go on for as long as they like. */
bool image_is_ending(pid_t pid)
{
	auto_free char *text = NULL;
	const char *state = read_stat(pid, &text);
	const char *flags = find_field(state, FLAGS_FIELD);
	const char *n_threads = find_field(state, N_THREADS_FIELD);

	return flags && n_threads && strtoul(flags, NULL, 10) & FLAG_EXITING &&
	       atoi(n_threads) <= 1;
}

/* As long as nobody has waited for it. */
static int status_of_zombie(pid_t pid)
{
	auto_free char *text = NULL;
	const char *state = read_stat(pid, &text);
	const char *status = state && state[0] == 'Z' ? find_field(state, EXIT_CODE_FIELD) : NULL;

	return status ? atoi(status) : IMAGE_STATUS_UNKNOWN;
}

/* Afterwards; the kernel keeps it for whoever holds a pidfd. */
static int status_of_reaped(int pidfd)
{
	struct pidfd_exit_info info = { .mask = PIDFD_EXIT_BIT };

	if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_EXIT_INFO, &info) < 0 ||
	    !(info.mask & PIDFD_EXIT_BIT))
		return IMAGE_STATUS_UNKNOWN;
	return info.exit_code;
}

int image_end_status(const struct image *image)
{
	int status = status_of_reaped(image->pidfd);

	/* Mostly somebody has waited for it by now; or has just when we looked. */
	if (status < 0)
		status = status_of_zombie(image->pid);
	return status >= 0 ? status : status_of_reaped(image->pidfd);
}

/* ---- /proc/PID/maps ---- */

#define MAX_MAPS_BYTES (64u << 20)

static bool read_hex(const char **at, char end, uint64_t *ret_value)
{
	char *behind;

	*ret_value = strtoull(*at, &behind, 16);
	if (behind == *at || *behind != end)
		return false;
	*at = behind + 1;
	return true;
}

/* The kernel writes a newline of a file's name as \012, and nothing else (fs/proc/task_mmu.c). */
static void read_newlines(char *path)
{
	static const char escape[] = "\\012";
	size_t n = sizeof(escape) - 1;

	for (char *at = strstr(path, escape); at; at = strstr(at + 1, escape)) {
		*at = '\n';
		memmove(at + 1, at + n, strlen(at + n) + 1);
	}
}

/* start-end prot offset major:minor inode path; proc_pid_maps(5). */
bool image_parse_map(char *line, struct image_map *ret_map)
{
	struct image_map map = { 0 };
	const char *at = line;
	char *behind;

	line[strcspn(line, "\n")] = '\0';
	if (!read_hex(&at, '-', &map.start) || !read_hex(&at, ' ', &map.end) || strlen(at) < 5)
		return false;
	map.prot = (at[0] == 'r' ? PROT_READ : 0u) | (at[1] == 'w' ? PROT_WRITE : 0u) |
		   (at[2] == 'x' ? PROT_EXEC : 0u);
	map.flags = at[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	at += 5;
	if (!read_hex(&at, ' ', &map.file_offset) || map.end <= map.start)
		return false;
	/* No sscanf(): some 30 of these are read for each program that starts. */
	at += strcspn(at, " ");
	map.inode = strtoull(at, &behind, 10);
	behind += strspn(behind, " ");
	map.path = behind;
	read_newlines(behind);
	*ret_map = map;
	return true;
}

void image_each_map_of(char *text, void (*call)(void *user, const struct image_map *map),
		       void *user)
{
	for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n")) {
		struct image_map map;

		if (image_parse_map(line, &map))
			call(user, &map);
	}
}

int image_each_map(pid_t pid, void (*call)(void *user, const struct image_map *map), void *user)
{
	auto_free char *text = NULL;

	int err = io_read_proc(pid, "maps", MAX_MAPS_BYTES, &text, NULL);
	if (err < 0)
		return err;
	image_each_map_of(text, call, user);
	return 0;
}

int image_ptrace_scope(void)
{
	auto_free char *text = NULL;

	return io_read_file("/proc/sys/kernel/yama/ptrace_scope", 64, &text, NULL) < 0 ? 0
										       : atoi(text);
}
