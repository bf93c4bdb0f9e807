/*
 * The hooks that start programs: they tell the collector what is about to start, and put our
 * variables back into an environment that was cleaned (or take them out: --no-follow). No malloc:
 * the new environment lies on the stack, or when it is large in a map.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracealloc/attach.h"
#include "tracealloc/environment.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/limit.h"
#include "tracealloc/program.h"
#include "tracealloc/sampler.h"
#include "tracealloc/sandbox.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

#define STACK_BYTES 8192u

/* One call, of whatever function. */
struct exec_call {
	int (*perform)(const struct exec_call *call);
	const char *path; /* "" for fexecve */
	char *const *argv;
	char *const *environment;
	bool is_spawn;
	bool is_searched; /* in PATH */
	bool has_fd; /* fexecve, execveat */
	int fd;
	bool is_traced; /* what is started will be, as far as we know */
	bool is_static; /* it is to get the agent */
	int flags; /* execveat */
	pid_t *ret_pid; /* posix_spawn */
	const posix_spawn_file_actions_t *actions;
	const posix_spawnattr_t *attributes;
};

static int perform_execve(const struct exec_call *call)
{
	return ta_real.execve(call->path, call->argv, call->environment);
}

static int perform_execvpe(const struct exec_call *call)
{
	return ta_real.execvpe(call->path, call->argv, call->environment);
}

static int perform_fexecve(const struct exec_call *call)
{
	return ta_real.fexecve(call->fd, call->argv, call->environment);
}

static int perform_execveat(const struct exec_call *call)
{
	if (ta_real.execveat)
		return ta_real.execveat(call->fd, call->path, call->argv, call->environment,
					call->flags);
	errno = ENOSYS;
	return -1;
}

static int perform_spawn(const struct exec_call *call)
{
	return ta_real.posix_spawn(call->ret_pid, call->path, call->actions, call->attributes,
				   call->argv, call->environment);
}

static int perform_spawnp(const struct exec_call *call)
{
	return ta_real.posix_spawnp(call->ret_pid, call->path, call->actions, call->attributes,
				    call->argv, call->environment);
}

static void record_exec_of(const struct ta_hook *hook, const struct exec_call *call,
			   const char *path)
{
	struct ring_exec *record;
	size_t length = strnlen(path, TA_PATH_BYTES - 1);
	uint32_t n_slots =
		(uint32_t)((sizeof(*record) + length + RING_RECORD_BYTES - 1) / RING_RECORD_BYTES);

	record = ta_record_reserve_big(hook->thread, n_slots * RING_RECORD_BYTES);
	if (!record) {
		ta_chunk_count_dropped();
		return;
	}
	record->ticks = ta_ticks_begin();
	record->path_bytes = (uint16_t)length;
	/* In a vfork child we are in our parent's memory, and its image goes on. */
	record->is_spawn = call->is_spawn || !ta_image_is_own();
	memcpy(record->bytes, path, length);
	ta_record_commit(&record->head, RING_HEAD(TRACE_OP_EXEC, 0, n_slots, 0));
}

/* The recorder looks at the file, and does not know where the program searches. */
static __attribute__((noinline)) void record_exec(const struct ta_hook *hook,
						  const struct exec_call *call)
{
	char path[PATH_MAX];
	bool is_found = call->is_searched && ta_program_find(call->path, path);

	record_exec_of(hook, call, is_found ? path : call->path);
}

/* The program that is started has the limits that this one has set, with nothing of ours. */
static int perform(struct exec_call *call)
{
	int fd = call->is_static ? ta_static_begin(call->is_spawn) : -1;
	struct ta_limits was;
	pid_t pid = 0;

	if (!call->is_spawn)
		ta_limit_pass_on(call->is_traced, &was);
	else if (!call->ret_pid)
		call->ret_pid = &pid;
	int r = call->perform(call);
	if (fd >= 0)
		ta_static_end(fd, r != 0);
	if (!call->is_spawn)
		ta_limit_take_back(&was);
	if (!call->is_spawn)
		return r;
	if (r == 0 && !call->is_traced)
		ta_limit_take_off(*call->ret_pid);
	return r;
}

/* Perform the call with a new environment in memory that is given. */
static int perform_in(struct exec_call *call, enum ta_follow follow, void *memory)
{
	call->environment = ta_environment_build(call->environment, follow, memory);
	return perform(call);
}

static __attribute__((noinline)) int perform_on_stack(struct exec_call *call, enum ta_follow follow,
						      size_t n_bytes)
{
	char *memory[n_bytes / sizeof(char *) + 1];

	return perform_in(call, follow, memory);
}

static int perform_in_map(struct exec_call *call, enum ta_follow follow, size_t n_bytes)
{
	long memory = ta_map_private(n_bytes);

	if (memory < 0)
		return perform(call);
	int r = perform_in(call, follow, (void *)memory);
	ta_syscall(SYS_munmap, memory, (long)n_bytes, 0, 0, 0, 0);
	return r;
}

/* Can what the kernel is to tell of as EFAULT, or E2BIG, be read by us? */
static bool is_sound(const struct exec_call *call)
{
	return ta_program_is_text(call->path) && ta_program_is_list(call->environment);
}

static enum ta_follow bears(struct exec_call *call)
{
	const struct ta_program program = { call->path, call->has_fd ? call->fd : AT_FDCWD,
					    call->is_searched };

	enum ta_follow follow;
	int why_not;

	follow = ta_program_bears(&program, call->environment, &why_not);
	call->is_traced = why_not == TRACE_TRACED;
	call->is_static = why_not == TRACE_NOT_STATIC && ta_image.flags & RING_FLAG_STATIC &&
			  ta_sandbox_may_wait();
	return follow;
}

/* The loader of one that cannot reach us would complain on the program's stderr. */
static enum ta_follow can_follow(struct exec_call *call)
{
	if (ta_sandbox_lets_follow())
		return ta_environment_is_reachable() ? bears(call) : TA_FOLLOW_NOT;
	atomic_fetch_add_explicit(&ta_image.process->n_not_followed, 1, memory_order_relaxed);
	return TA_FOLLOW_NOT;
}

/*
 * The guard is down again before the call: in a vfork child it is the parent's, which finds it as
 * the child has left it.
 */
static int run_call(struct exec_call *call, const uintptr_t *frame)
{
	struct ta_hook hook;

	ta_real_resolve();
	call->is_traced =
		(atomic_load(&ta_state.word) & TA_ON) && (ta_image.flags & RING_FLAG_FOLLOW);
	/* Without a path, or with a bad one, it is the kernel that has to say so: EFAULT. */
	if (!is_sound(call) || !ta_hook_enter_kept(&hook, frame, TA_EVENTS_ALWAYS))
		return perform(call);
	if (!hook.bits)
		record_exec(&hook, call);
	ta_hook_leave(&hook);
	enum ta_follow follow = call->is_traced ? can_follow(call) : TA_FOLLOW_NOT;
	call->is_traced = call->is_traced && follow != TA_FOLLOW_NOT;
	size_t n_bytes = ta_environment_bytes(call->environment, follow);
	if (n_bytes == 0)
		return perform(call);
	if (n_bytes <= STACK_BYTES)
		return perform_on_stack(call, follow, n_bytes);
	return perform_in_map(call, follow, n_bytes);
}

#define RUN(...) run_call(&(struct exec_call){ __VA_ARGS__ }, TA_FRAME())

TA_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return RUN(perform_execve, path, argv, envp);
}

TA_EXPORT int execv(const char *path, char *const argv[])
{
	return RUN(perform_execve, path, argv, environ);
}

TA_EXPORT int execvp(const char *file, char *const argv[])
{
	return RUN(perform_execvpe, file, argv, environ, .is_searched = true);
}

TA_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return RUN(perform_execvpe, file, argv, envp, .is_searched = true);
}

TA_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	return RUN(perform_fexecve, "", argv, envp, .has_fd = true, .fd = fd);
}

TA_EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
	return RUN(perform_execveat, path, argv, envp, .has_fd = true, .fd = fd, .flags = flags);
}

TA_EXPORT int posix_spawn(pid_t *ret_pid, const char *path,
			  const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attributes, char *const argv[],
			  char *const envp[])
{
	return RUN(perform_spawn, path, argv, envp, true, .ret_pid = ret_pid, .actions = actions,
		   .attributes = attributes);
}

TA_EXPORT int posix_spawnp(pid_t *ret_pid, const char *file,
			   const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attributes, char *const argv[],
			   char *const envp[])
{
	return RUN(perform_spawnp, file, argv, envp, true, true, .ret_pid = ret_pid,
		   .actions = actions, .attributes = attributes);
}

/* Arguments of a list up to and with its NULL; first is the one before the dots. */
static size_t count_list(const char *first, va_list *list)
{
	size_t n = 1;

	for (const char *arg = first; arg; arg = va_arg(*list, const char *))
		n++;
	return n;
}

static void take_list(const char *first, va_list *list, char **argv)
{
	const char *arg = first;

	for (; arg; arg = va_arg(*list, const char *))
		*argv++ = (char *)arg;
	*argv = NULL;
}

TA_EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list list;

	va_start(list, arg);
	size_t n = count_list(arg, &list);
	va_end(list);
	char *argv[n];
	va_start(list, arg);
	take_list(arg, &list, argv);
	va_end(list);
	return RUN(perform_execve, path, argv, environ);
}

TA_EXPORT int execlp(const char *file, const char *arg, ...)
{
	va_list list;

	va_start(list, arg);
	size_t n = count_list(arg, &list);
	va_end(list);
	char *argv[n];
	va_start(list, arg);
	take_list(arg, &list, argv);
	va_end(list);
	return RUN(perform_execvpe, file, argv, environ, .is_searched = true);
}

TA_EXPORT int execle(const char *path, const char *arg, ...)
{
	char *const *environment;
	va_list list;

	va_start(list, arg);
	size_t n = count_list(arg, &list);
	va_end(list);
	char *argv[n];
	va_start(list, arg);
	take_list(arg, &list, argv);
	environment = va_arg(list, char *const *);
	va_end(list);
	return RUN(perform_execve, path, argv, environment);
}
