/* Which process, and whether it can be entered. */
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/text.h"
#include "runner/attach/attach.h"
#include "runner/attach/attacher.h"
#include "runner/processes/image-proc.h"

#define MAX_FOUND 8u

#define say(message, error, ...) text_refuse(error, message, ATTACH_MESSAGE_BYTES, __VA_ARGS__)

/* The word behind a name in /proc/PID/status; "" without. */
static void status_word(const char *status, const char *name, char word[static 64])
{
	const char *at = strstr(status, name);

	word[0] = '\0';
	if (at)
		sscanf(at + strlen(name), "%63s", word);
}

static long status_number(const char *status, const char *name)
{
	char word[64];

	status_word(status, name, word);
	return strtol(word, NULL, 10);
}

static int read_status(pid_t pid, char **ret_text)
{

	return io_read_proc(pid, "status", 1u << 16, ret_text, NULL);
}

/* ---- Which ---- */

struct found {
	pid_t pids[MAX_FOUND];
	size_t n;
};

static bool has_file_name(pid_t pid, const char *name)
{
	char target[PATH_MAX];

	return image_read_link(pid, "exe", target, sizeof(target)) &&
	       strcmp(text_base_name(target), name) == 0;
}

static bool has_kernel_name(pid_t pid, const char *name)
{
	auto_free char *text = NULL;

	if (io_read_proc(pid, "comm", 64, &text, NULL) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, name) == 0;
}

/* It may be one of us, which will be done in a moment. */
static int say_traced(pid_t pid, long tracer, int error, char message[ATTACH_MESSAGE_BYTES])
{
	if (has_kernel_name((pid_t)tracer, ATTACHER_NAME) ||
	    has_kernel_name((pid_t)tracer, "memsight"))
		return say(message, error,
			   "another memsight (process %ld) is entering or leaving process %d just "
			   "now: try again when that is done",
			   tracer, (int)pid);
	return say(message, error,
		   "process %d is traced by process %ld (a debugger, strace): end that first",
		   (int)pid, tracer);
}

static void find_named(const char *name, int64_t rank, struct found *found)
{
	auto_folder DIR *folder = opendir("/proc");

	for (pid_t pid; (pid = io_next_number(folder));) {
		if (pid == getpid() || (!has_file_name(pid, name) && !has_kernel_name(pid, name)) ||
		    (rank >= 0 && image_process_rank(pid) != rank))
			continue;
		if (found->n < MAX_FOUND)
			found->pids[found->n] = pid;
		found->n++;
	}
}

static int say_several(const char *name, const struct found *found,
		       char message[ATTACH_MESSAGE_BYTES])
{
	size_t n = (size_t)snprintf(
		message, ATTACH_MESSAGE_BYTES,
		"%zu processes are called %.60s; name one, or several:", found->n, name);

	for (size_t i = 0; i < found->n && i < MAX_FOUND; i++)
		n += (size_t)snprintf(message + n, ATTACH_MESSAGE_BYTES - n, "%c%d",
				      i == 0 ? ' ' : ',', (int)found->pids[i]);
	if (found->n > MAX_FOUND)
		snprintf(message + n, ATTACH_MESSAGE_BYTES - n, ",...");
	return -ENOTUNIQ;
}

/* A path, or what the shell would run; false: there is no such file. */
static bool find_command(const char *command, struct stat *ret_status)
{
	const char *folders = getenv("PATH");
	char path[PATH_MAX];

	if (strchr(command, '/'))
		return stat(command, ret_status) == 0;
	for (const char *at = folders, *end; at && *at; at = *end ? end + 1 : end) {
		end = strchrnul(at, ':');
		snprintf(path, sizeof(path), "%.*s/%s", (int)(end - at), at, command);
		if (stat(path, ret_status) == 0 && S_ISREG(ret_status->st_mode))
			return true;
	}
	return false;
}

static int check_command(pid_t pid, const char *command, char message[ATTACH_MESSAGE_BYTES])
{
	struct stat wanted, runs;
	char path[64], name[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (!find_command(command, &wanted))
		return say(message, -ENOENT, "there is no program '%.200s'", command);
	if (stat(path, &runs) == 0 && runs.st_ino == wanted.st_ino && runs.st_dev == wanted.st_dev)
		return 0;
	image_read_link(pid, "exe", name, sizeof(name));
	return say(message, -EINVAL, "process %d does not run '%.100s' but %s", (int)pid, command,
		   name[0] ? name : "another program");
}

static int find_pid(const struct attach_wish *wish, const char *text, pid_t *ret_pid,
		    char message[ATTACH_MESSAGE_BYTES])
{
	struct found found = { .n = 0 };
	char *end;
	long number = strtol(text, &end, 10);

	if (isdigit((unsigned char)text[0]) && *end == '\0') {
		if (number <= 0 || number > INT32_MAX)
			return say(message, -EINVAL, "'%.40s' is no number of a process", text);
		*ret_pid = (pid_t)number;
		if (wish->rank >= 0 && image_process_rank(*ret_pid) != wish->rank)
			return say(message, -EINVAL, "process %ld is not rank %lld of a job",
				   number, (long long)wish->rank);
		return 0;
	}
	find_named(text, wish->rank, &found);
	if (found.n == 0 && wish->rank >= 0)
		return say(message, -ESRCH, "no process is called '%.60s' and is rank %lld here",
			   text, (long long)wish->rank);
	if (found.n == 0)
		return say(message, -ESRCH, "no process is called '%.60s'", text);
	if (found.n > 1)
		return say_several(text, &found, message);
	*ret_pid = found.pids[0];
	return 0;
}

int attach_find(const struct attach_wish *wish, pid_t **ret_pids, size_t *ret_n,
		char message[ATTACH_MESSAGE_BYTES])
{
	auto_free char *text = strdup(wish->text);
	auto_free pid_t *pids = NULL;
	size_t n = 0;
	char *rest = text, *one;
	int r = text ? 0 : say(message, -ENOMEM, "no memory left");

	while (r == 0 && (one = strsep(&rest, ","))) {
		if (grow_array_of(&pids, n, 1, sizeof(*pids)) < 0)
			return say(message, -ENOMEM, "no memory left");
		r = find_pid(wish, one, &pids[n], message);
		if (r == 0 && wish->command)
			r = check_command(pids[n], wish->command, message);
		if (r == 0 && !array_find(pids, n, it, *it == pids[n]))
			n++;
	}
	if (r < 0)
		return r;
	*ret_n = n;
	*ret_pids = steal_ptr(&pids);
	return 0;
}

#define START_FIELD 22 /* of proc_pid_stat(5) */

uint64_t attach_started(pid_t pid)
{
	return (uint64_t)image_stat_number(pid, START_FIELD, 0);
}

static uint64_t pid_space(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

struct ring_recorder attach_recorder(void)
{
	pid_t pid = getpid();

	return (struct ring_recorder){
		.pid = (uint32_t)pid,
		.started = attach_started(pid),
		.space = pid_space(),
	};
}

bool attach_is_left_behind(const struct ring_recorder *recorder)
{
	uint64_t space = pid_space();

	if (recorder->has_ended)
		return true;
	return recorder->pid && recorder->started && space && space == recorder->space &&
	       attach_started((pid_t)recorder->pid) != recorder->started;
}

/* ---- Whether ---- */

struct facts {
	bool has_map;
	bool has_loader;
	bool has_libc;
	bool has_musl;
	bool has_sanitizer;
};

static void look_at_map(void *user, const struct image_map *map)
{
	struct facts *facts = user;
	const char *name = text_base_name(map->path);

	facts->has_map = true;
	facts->has_musl |= strncmp(name, "ld-musl", 7) == 0 || strcmp(name, "libc.so") == 0;
	facts->has_loader |= strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld-2.", 5) == 0 ||
			     strncmp(name, "ld.so", 5) == 0;
	facts->has_libc |= strncmp(name, "libc.so.6", 9) == 0 || strncmp(name, "libc-2.", 7) == 0;
	facts->has_sanitizer |= strncmp(name, "libasan.so", 10) == 0 ||
				strncmp(name, "libtsan.so", 10) == 0 ||
				strncmp(name, "libclang_rt.", 12) == 0;
}

static int check_memory(pid_t pid, char message[ATTACH_MESSAGE_BYTES])
{
	struct facts facts = { false };
	int r = image_each_map(pid, look_at_map, &facts);

	if (r < 0) {
		attach_explain(pid, r, message);
		return r;
	}
	if (!facts.has_map)
		return say(message, -EINVAL,
			   "process %d has no memory: it is the kernel's, or ends", (int)pid);
	if (facts.has_musl && !facts.has_libc)
		return say(message, -ENOTSUP,
			   "process %d runs with musl's C library, which cannot be attached to: "
			   "`memsight record' starts it recorded",
			   (int)pid);
	if (facts.has_sanitizer)
		return say(message, -ENOTSUP,
			   "process %d is built with a sanitizer, which has its own malloc",
			   (int)pid);
	if (!facts.has_loader || !facts.has_libc)
		return say(message, -ENOTSUP,
			   "process %d is linked statically: there is no loader that could load "
			   "the recording library",
			   (int)pid);
	return 0;
}

static int check_program(pid_t pid, char message[ATTACH_MESSAGE_BYTES])
{
	unsigned char head[EI_NIDENT];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		int error = -errno;

		if (error == -ENOENT)
			return say(message, -EINVAL, "process %d is a thread of the kernel",
				   (int)pid);
		attach_explain(pid, error, message);
		return error;
	}
	if (read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) && head[EI_CLASS] != ELFCLASS64)
		return say(message, -ENOTSUP, "process %d is a 32-bit program", (int)pid);
	return 0;
}

static int check_status(pid_t pid, const char *status, char message[ATTACH_MESSAGE_BYTES])
{
	long leader = status_number(status, "\nTgid:"),
	     tracer = status_number(status, "\nTracerPid:");
	char state[64], features[64];

	status_word(status, "\nState:", state);
	status_word(status, "\nx86_Thread_features:", features);
	if (leader != pid)
		return say(message, -EINVAL, "%d is a thread of process %ld: attach to that",
			   (int)pid, leader);
	if (state[0] == 'Z' || state[0] == 'X')
		return say(message, -ESRCH, "process %d has ended and waits for its parent",
			   (int)pid);
	if (tracer)
		return say_traced(pid, tracer, -EBUSY, message);
	if (state[0] == 'T')
		return say(message, -EAGAIN, "process %d is stopped: `kill -CONT %d' lets it go on",
			   (int)pid, (int)pid);
	if (strstr(features, "shstk"))
		return say(message, -ENOTSUP,
			   "process %d has a shadow stack (CET): start it without "
			   "(GLIBC_TUNABLES=glibc.cpu.x86_shstk=off)",
			   (int)pid);
	return 0;
}

struct confined {
	struct image_confinement first;
	pid_t pid;
	pid_t other; /* a thread with other filters than the first one; 0: none */
};

static int compare_filters(void *user, pid_t tid)
{
	struct confined *confined = user;
	struct image_confinement its = image_confinement(tid);

	if ((its.mode != confined->first.mode || its.n_filters != confined->first.n_filters) &&
	    !image_is_zombie(tid))
		confined->other = tid;
	return confined->other ? -ECANCELED : 0;
}

/* What they permit is asked when we are its tracer. */
static int check_filters(pid_t pid, char message[ATTACH_MESSAGE_BYTES])
{
	struct confined confined = { .first = image_confinement(pid), .pid = pid };

	if (confined.first.mode == SECCOMP_MODE_STRICT)
		return say(message, -EPERM,
			   "process %d has confined itself to read and write (seccomp, strict)",
			   (int)pid);
	image_each_thread(pid, compare_filters, &confined);
	if (confined.other)
		return say(
			message, -EPERM,
			"thread %d of process %d has other seccomp filters than its first thread: "
			"`memsight record' starts it recorded",
			(int)confined.other, (int)pid);
	if (confined.first.mode && geteuid() != 0)
		return say(message, -EPERM,
			   "process %d has a seccomp filter, which may end it for a call of ours; "
			   "attach as root, who may read what it permits, or start it by "
			   "`memsight record'",
			   (int)pid);
	return 0;
}

int attach_check(pid_t pid, char message[ATTACH_MESSAGE_BYTES])
{
	auto_free char *status = NULL;
	int r;

#if !defined(__x86_64__)
	return say(message, -ENOTSUP, "attaching is there on x86-64 only");
#endif
	if (pid == getpid())
		return say(message, -EINVAL, "process %d is memsight itself", (int)pid);
	if (access("/proc/self/stat", R_OK) < 0)
		return say(message, -ENOENT,
			   "/proc is not mounted or cannot be read, and attaching needs it");
	r = read_status(pid, &status);
	if (r < 0)
		return say(message, -ESRCH, "there is no process %d", (int)pid);
	r = check_status(pid, status, message) ?: check_filters(pid, message);
	r = r ?: check_program(pid, message);
	return r == 0 ? check_memory(pid, message) : r;
}

void attach_explain(pid_t pid, int error, char message[ATTACH_MESSAGE_BYTES])
{
	auto_free char *status = NULL;

	if (read_status(pid, &status) < 0) {
		say(message, error, "process %d has ended", (int)pid);
		return;
	}
	long user = status_number(status, "\nUid:");
	long tracer = status_number(status, "\nTracerPid:");
	if (error == -ESRCH)
		say(message, error, "process %d has ended", (int)pid);
	else if (tracer)
		say_traced(pid, tracer, error, message);
	else if (geteuid() != 0 && (uid_t)user != geteuid())
		say(message, error, "process %d belongs to user %ld: attach as that user or root",
		    (int)pid, user);
	else if (geteuid() != 0 && image_ptrace_scope() > 0)
		say(message, error,
		    "kernel.yama.ptrace_scope is %d, which forbids to attach to process %d: "
		    "`sysctl kernel.yama.ptrace_scope=0' as root permits it, or attach as root",
		    image_ptrace_scope(), (int)pid);
	else if (geteuid() != 0)
		say(message, error,
		    "process %d may not be looked at: it has more rights than we have (setuid, "
		    "capabilities); attach as root",
		    (int)pid);
	else
		say(message, error,
		    "the kernel forbids to attach to process %d: %s (a container without "
		    "CAP_SYS_PTRACE, or kernel.yama.ptrace_scope is %d)",
		    (int)pid, strerror(-error), image_ptrace_scope());
}
