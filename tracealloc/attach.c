#include "tracealloc/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "schemas/recording.h"
#include "schemas/ring.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/limit.h"
#include "tracealloc/state.h"

#define MAX_ARGUMENTS	  1024u
#define MAX_COMMAND_BYTES 4096
#define USER_MODE_ONLY	  1 /* UFFD_USER_MODE_ONLY: an ordinary user may have no other */

extern void *__libc_stack_end __attribute__((weak));

static struct recording_greeting greeting TA_LARGE; /* of the one thread that attaches */

static uint64_t now_ms(void)
{
	struct timespec now = { 0 };

	ta_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int left_ms(uint64_t deadline_ms)
{
	uint64_t now = now_ms();

	return now >= deadline_ms ? 0 : (int)(deadline_ms - now);
}

/* Wait until fd can be read. */
static bool wait_readable(int fd, int ms)
{
	struct pollfd poll = { .fd = fd, .events = POLLIN };
	struct timespec timeout = { .tv_nsec = ms * 1000000L };

	return ta_syscall(SYS_ppoll, (long)&poll, 1, (long)&timeout, 0, 0, 0) == 1;
}

/* "/proc/PID/stat"; no libc, which may allocate. */
static void write_stat_path(char path[static 32], uint32_t pid)
{
	char digits[12];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + pid % 10);
		pid /= 10;
	} while (pid > 0);
	memcpy(path, "/proc/", 6);
	path += 6;
	while (n > 0)
		*path++ = digits[--n];
	memcpy(path, "/stat", 6);
}

/* The letter of proc_pid_stat(5) for a process; '?' where it cannot be told. */
static char process_state(uint32_t pid)
{
	char path[32], text[128];
	long fd, n, end;

	if (pid == 0)
		return '?';
	write_stat_path(path, pid);
	fd = ta_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return '?';
	n = ta_syscall(SYS_read, fd, (long)text, sizeof(text), 0, 0, 0);
	ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	for (end = n - 3; end >= 0 && text[end] != ')'; end--)
		;
	return end >= 0 ? text[end + 2] : '?';
}

/* Who listens; false when the kernel does not tell. */
static bool read_peer(int fd, struct ucred *ret_peer)
{
	socklen_t n_bytes = sizeof(*ret_peer);

	return ta_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)ret_peer,
			  (long)&n_bytes, 0) == 0;
}

/*
 * Is it the administrator, or ourselves? Another user may take the socket's name, which all can
 * read in
 * /proc/net/unix, once the recorder is gone; what he hands us would be our memory.
 */
static bool is_trusted(int fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };

	return read_peer(fd, &peer) &&
	       (peer.uid == 0 || peer.uid == (uid_t)ta_syscall(SYS_getuid, 0, 0, 0, 0, 0, 0));
}

/*
 * Wait for the welcome. A collector that is stopped costs one slice; one that is alive but slow, on
 * a machine with more work than CPUs, gets more time than one of which we can tell nothing. One
 * that dies closes the socket, and that can be read.
 */
static int wait_welcome(int fd, uint64_t patience_ms)
{
	uint64_t begin_ms = now_ms(), passed_ms = 0;
	/* Who listens, as our pid namespace knows it; 0: it does not. */
	struct ucred peer = { 0 };
	uint32_t pid = read_peer(fd, &peer) && peer.pid > 0 ? (uint32_t)peer.pid : 0;

	while (passed_ms < patience_ms) {
		if (wait_readable(fd, RECORDING_SLICE_MS))
			return 0;
		char state = process_state(pid);
		if (state == 'T' || state == 't' || state == 'Z' || state == 'X')
			break;
		passed_ms = now_ms() - begin_ms;
		if (state == '?' && passed_ms >= RECORDING_ATTACH_MS)
			break;
	}
	/* It may have come just now. */
	return wait_readable(fd, 0) ? 0 : -ETIMEDOUT;
}

/* Connect; while the collector's queue is full, again. */
static int connect_to(int fd, const struct sockaddr_un *address, socklen_t length,
		      uint64_t deadline_ms)
{
	const struct timespec pause = { .tv_nsec = 500000 };
	long r;

	for (;;) {
		r = ta_syscall(SYS_connect, fd, (long)address, length, 0, 0, 0);
		if ((r != -EAGAIN && r != -EINTR) || left_ms(deadline_ms) == 0)
			return (int)r;
		ta_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	}
}

static int connect_path(int fd, const char *path, uint64_t deadline_ms)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(path);

	if (length + 1 >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, length + 1);
	int r = connect_to(fd, &address, sizeof(address), deadline_ms);
	if (r == 0)
		return 0;
	/* Another root folder, or no right to see this one: the abstract name of the same path. */
	memcpy(address.sun_path + 1, path, length);
	address.sun_path[0] = '\0';
	return connect_to(fd, &address,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length),
			  deadline_ms);
}

/*
 * Add the arguments to the greeting: behind each other, above where the stack began, as the kernel
 * put them there. Of a loader that was asked to run the program (no AT_BASE) some are its own.
 */
static void add_command(void)
{
	const uintptr_t *start = &__libc_stack_end ? __libc_stack_end : NULL;
	const char *last = (const char *)getauxval(AT_EXECFN); /* above all of them */
	char *const *arguments = (char *const *)(start + 1);

	if (!start || !getauxval(AT_BASE) || *start == 0 || *start > MAX_ARGUMENTS)
		return;
	const char *at = arguments[0];
	for (uintptr_t i = 0; i < *start; i++) {
		if (arguments[i] != at || at <= (const char *)start || at >= last)
			return;
		at += strlen(at) + 1;
	}
	if (arguments[*start] || at - arguments[0] > MAX_COMMAND_BYTES)
		return;
	greeting.hello.command_bytes = (uint32_t)(at - arguments[0]);
	memcpy(greeting.text, arguments[0], greeting.hello.command_bytes);
}

static void add_maps(void)
{
	char *to = greeting.text + greeting.hello.command_bytes;
	uint32_t room = RECORDING_TEXT_BYTES - greeting.hello.command_bytes, n = 0;
	long fd = ta_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0,
			     0, 0);
	long got = -1;

	if (fd < 0)
		return;
	while (n < room && (got = ta_syscall(SYS_read, fd, (long)(to + n), room - n, 0, 0, 0)) > 0)
		n += (uint32_t)got;
	ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	greeting.hello.maps_bytes = got == 0 ? n : 0; /* all of them, or none */
}

const char *ta_attach_maps(size_t *ret_bytes)
{
	*ret_bytes = greeting.hello.maps_bytes;
	return greeting.text + greeting.hello.command_bytes;
}

static void make_greeting(uint32_t pid)
{
	greeting.hello = (struct recording_hello){
		.magic = RECORDING_MAGIC,
		.version = RING_VERSION,
		.pid = pid,
		.tid = (uint32_t)ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0),
	};
	add_command();
	add_maps();
}

static int say_hello(int fd)
{
	size_t n_bytes =
		sizeof(greeting.hello) + greeting.hello.command_bytes + greeting.hello.maps_bytes;
	long r = ta_syscall(SYS_sendto, fd, (long)&greeting, (long)n_bytes, MSG_NOSIGNAL, 0, 0);

	return r == (long)n_bytes ? 0 : -EPROTO;
}

/* Take the welcome and the file descriptors that may come with it (-1: none). */
static int take_welcome(int fd, struct recording_welcome *ret_welcome, int ret_fds[2])
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec part = { .iov_base = ret_welcome, .iov_len = sizeof(*ret_welcome) };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	long r = ta_syscall(SYS_recvmsg, fd, (long)&message, MSG_CMSG_CLOEXEC, 0, 0, 0);

	ret_fds[0] = ret_fds[1] = -1;
	if (r < 0)
		return (int)r;
	if (message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
	    control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(&control.head),
		       control.head.cmsg_len < CMSG_LEN(2 * sizeof(int)) ? sizeof(int)
									 : 2 * sizeof(int));
	if (r != sizeof(*ret_welcome) || ret_welcome->magic != RECORDING_MAGIC)
		return -EPROTO;
	return ret_welcome->verdict == RECORDING_ACCEPTED && ret_fds[0] >= 0 ? 0 : -ECONNREFUSED;
}

/* ---- What is lent ---- */

static void send_lent(int fd, int lent)
{
	struct recording_lent word = { .magic = RECORDING_LENT_MAGIC, .version = RING_VERSION };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { .iov_base = &word, .iov_len = sizeof(word) };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.head), &lent, sizeof(lent));
	ta_syscall(SYS_sendmsg, fd, (long)&message, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0, 0);
}

int ta_attach_connect(const char *path)
{
	long fd = ta_syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			     0, 0, 0);
	int r = fd < 0 ? (int)fd : connect_path((int)fd, path, now_ms() + RECORDING_ATTACH_MS);

	if (r == 0 && !is_trusted((int)fd))
		r = -EPERM;
	if (r < 0 && fd >= 0)
		ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return r < 0 ? r : (int)fd;
}

/* ---- Static programs ---- */

static long send_bytes(int fd, const void *bytes, size_t n_bytes)
{
	return ta_syscall(SYS_sendto, fd, (long)bytes, (long)n_bytes, MSG_NOSIGNAL, 0, 0);
}

/* The next answer, a word. A negative errno when there is none in time. */
static int take_word(int fd, int32_t *ret_word)
{
	int r = wait_welcome(fd, RECORDING_STATIC_MS);

	if (r < 0)
		return r;
	return ta_syscall(SYS_recvfrom, fd, (long)ret_word, sizeof(*ret_word), 0, 0, 0) ==
			       sizeof(*ret_word)
		       ? 0
		       : -EPROTO;
}

static int ask_for_agent(int fd, bool is_spawn)
{
	const struct recording_static question = {
		.magic = RECORDING_STATIC_MAGIC,
		.version = RING_VERSION,
		.pid = (uint32_t)ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
		.tid = (uint32_t)ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0),
		.is_spawn = is_spawn,
	};
	const char byte = RECORDING_STATIC_IS_TRACED;
	int32_t word = 0;
	int r = send_bytes(fd, &question, sizeof(question)) < 0 ? -EPIPE : take_word(fd, &word);

	if (r < 0)
		return r;
	ta_syscall(SYS_prctl, PR_SET_PTRACER, word, 0, 0, 0, 0);
	r = send_bytes(fd, &byte, 1) < 0 ? -EPIPE : take_word(fd, &word);
	return r < 0 ? r : word;
}

int ta_static_begin(bool is_spawn)
{
	const size_t n = sizeof(RECORDING_STATIC_NAME);
	size_t length = strlen(ta_told.socket);
	char path[TA_SOCKET_BYTES];

	if (length < n)
		return -ENOENT;
	memcpy(path, ta_told.socket, length + 1);
	memcpy(path + length + 1 - n, RECORDING_STATIC_NAME, n);
	int fd = ta_attach_connect(path);
	if (fd < 0)
		return fd;
	int r = ask_for_agent(fd, is_spawn);
	if (r < 0)
		ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return r < 0 ? r : fd;
}

void ta_static_end(int fd, bool has_failed)
{
	const char byte = RECORDING_STATIC_FAILED;

	if (has_failed)
		send_bytes(fd, &byte, 1);
	ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

void ta_attach_lend(const char *path)
{
	if (ta_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) != 0)
		return;
	long lent =
		ta_syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY, 0, 0, 0, 0, 0);
	if (lent < 0)
		return;
	long fd = ta_attach_connect(path);
	if (fd >= 0) {
		send_lent((int)fd, (int)lent);
		ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	}
	ta_syscall(SYS_close, lent, 0, 0, 0, 0, 0);
}

bool ta_attach_fits_limit(uint64_t pool_bytes)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	ta_syscall(SYS_getrlimit, RLIMIT_AS, (long)&limit, 0, 0, 0, 0);
	return limit.rlim_cur == RLIM_INFINITY || pool_bytes <= limit.rlim_cur / 16;
}

/* What is ours of the limits says how much room there is, before the pool takes it. */
static void take_limits(int pool_fd)
{
	long memory = ta_syscall(SYS_mmap, 0, sizeof(struct ring_control), PROT_READ | PROT_WRITE,
				 MAP_SHARED, pool_fd, 0);
	const struct ring_control *control = (const void *)memory;

	if (memory < 0)
		return;
	if (control->magic == RING_MAGIC && control->version == RING_VERSION)
		ta_limit_inherit(control);
	ta_syscall(SYS_munmap, memory, sizeof(*control), 0, 0, 0, 0);
}

static int map_pool(int pool_fd, uint64_t pool_bytes, void **ret_pool)
{
	long memory = ta_syscall(SYS_mmap, 0, (long)pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
				 pool_fd, 0);

	if (memory < 0)
		return (int)memory;
	/* It is no part of the program: a core dump is that of the program alone. */
	ta_syscall(SYS_madvise, memory, (long)pool_bytes, MADV_DONTDUMP, 0, 0, 0);
	*ret_pool = (void *)memory;
	return 0;
}

int ta_attach_begin(const char *path, uint32_t pid)
{
	make_greeting(pid);
	int fd = ta_attach_connect(path);
	int r = fd < 0 ? fd : say_hello(fd);
	if (r < 0 && fd >= 0)
		ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return r < 0 ? r : fd;
}

/* A program that has no room for it runs as it is: what it is told of functions is no event. */
static void map_plan(int fd, struct recording_welcome *welcome, const void **ret_plan)
{
	long memory = -EBADF;

	if (fd >= 0 && welcome->plan_bytes)
		memory = ta_syscall(SYS_mmap, 0, (long)welcome->plan_bytes, PROT_READ, MAP_SHARED,
				    fd, 0);
	if (memory > 0)
		*ret_plan = (const void *)memory;
	else
		welcome->plan_bytes = 0;
}

int ta_attach_end(int fd, struct recording_welcome *ret_welcome, void **ret_pool,
		  const void **ret_plan)
{
	int fds[2] = { -1, -1 };
	int pool_fd;
	int r = wait_welcome(fd, RECORDING_PATIENCE_MS) ?: take_welcome(fd, ret_welcome, fds);
	pool_fd = fds[0];
	if (r == 0)
		take_limits(pool_fd);
	if (r == 0 && !ta_attach_fits_limit(ret_welcome->pool_bytes) &&
	    (ta_image.is_late || !ta_limit_make_room(ret_welcome->pool_bytes)))
		r = -ENOMEM;
	r = r ?: map_pool(pool_fd, ret_welcome->pool_bytes, ret_pool);
	if (r == 0)
		map_plan(fds[1], ret_welcome, ret_plan);
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			ta_syscall(SYS_close, fds[i], 0, 0, 0, 0, 0);
	ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return r;
}
