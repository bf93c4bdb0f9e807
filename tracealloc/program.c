#include "tracealloc/program.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elf-check.h"
#include "schemas/recording.h"
#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/environment.h"
#include "tracealloc/stack/unwind-walk.h"
#include "tracealloc/state.h"

#define DEFAULT_PATH	 "/bin:/usr/bin" /* of execvp, where there is no PATH */
#define MAX_TEXT_BYTES	 (128 << 10) /* of one argument, MAX_ARG_STRLEN */
#define MAX_INTERPRETERS 4 /* a script of a script ...; the kernel stops there, too */

static long read_file(int fd, void *to, size_t n_bytes, uint64_t at)
{
	return ta_syscall(SYS_pread64, fd, (long)to, (long)n_bytes, (long)at, 0, 0);
}

static int open_file(int folder, const char *path)
{
	/* Without O_NONBLOCK a fifo of that name would hold us up. */
	return (int)ta_syscall(SYS_openat, folder, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0,
			       0, 0);
}

static void close_file(int fd)
{
	ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static bool has_slash(const char *path)
{
	for (; *path; path++)
		if (*path == '/')
			return true;
	return false;
}

bool ta_program_find(const char *name, char path[PATH_MAX])
{
	const char *folders = ta_environment_find(environ, "PATH");
	size_t name_bytes = strlen(name) + 1;

	if (has_slash(name))
		return false;
	if (!folders)
		folders = DEFAULT_PATH;

	while (folders) {
		size_t n = 0;

		while (folders[n] && folders[n] != ':')
			n++;
		if (n + 1 + name_bytes <= PATH_MAX) {
			memcpy(path, folders, n);
			path[n] = '/';
			memcpy(path + n + (n > 0), name, name_bytes);
			if (ta_syscall(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0) == 0)
				return true;
		}
		folders = folders[n] ? folders + n + 1 : NULL;
	}
	return false;
}

static int open_program(const struct ta_program *program)
{
	char path[PATH_MAX];

	if (program->is_searched && !has_slash(program->path))
		return ta_program_find(program->path, path) ? open_file(AT_FDCWD, path) : -1;
	if (!program->path[0] && program->fd >= 0) /* another number for the same file */
		return (int)ta_syscall(SYS_fcntl, program->fd, F_DUPFD_CLOEXEC, 0, 0, 0, 0);
	return open_file(program->fd, program->path);
}

/* Is the page of an address readable? *page was asked for last. */
static bool is_readable(const void *address, uintptr_t *page)
{
	uintptr_t asked = (uintptr_t)address & -(uintptr_t)TA_PAGE_BYTES;

	if (asked != *page && (asked == 0 || !ta_walk_is_readable(asked)))
		return false;
	*page = asked;
	return true;
}

static bool is_text(const char *text, uintptr_t *page)
{
	for (const char *at = text; at - text < MAX_TEXT_BYTES; at++) {
		if ((at == text || (uintptr_t)at % TA_PAGE_BYTES == 0) && !is_readable(at, page))
			return false;
		if (!*at)
			return true;
	}
	return false;
}

bool ta_program_is_text(const char *text)
{
	uintptr_t page = 1; /* none */

	return is_text(text, &page);
}

bool ta_program_is_list(char *const list[])
{
	uintptr_t page = 1, text_page = 1;

	for (; list; list++) {
		if (!is_readable(list, &page) || !is_readable((const char *)(list + 1) - 1, &page))
			return false;
		if (!*list)
			break;
		if (!is_text(*list, &text_page))
			return false;
	}
	return true;
}

static bool gives_rights(int fd)
{
	struct stat status = { .st_mode = S_ISUID };

	ta_syscall(SYS_fstat, fd, (long)&status, 0, 0, 0, 0);
	return status.st_mode & (S_ISUID | S_ISGID) ||
	       ta_syscall(SYS_fgetxattr, fd, (long)"security.capability", 0, 0, 0, 0) > 0;
}

enum ta_follow ta_program_bears(const struct ta_program *program, char *const environment[],
				int *ret_why_not)
{
	char path[PATH_MAX];
	int fd = -1;

	*ret_why_not = TRACE_NOT_SANITIZER;
	if (program_list_has_sanitizer(ta_environment_find(environment, RECORDING_ENV_PRELOAD)))
		return TA_FOLLOW_NOT;
	fd = open_program(program);
	for (int i = 0; fd >= 0 && i < MAX_INTERPRETERS &&
			program_file_interpreter(read_file, fd, path, sizeof(path));
	     i++) {
		close_file(fd);
		fd = open_file(AT_FDCWD, path);
	}
	*ret_why_not = TRACE_TRACED;
	if (fd < 0)
		return TA_FOLLOW_ALL;
	int why_not = program_file_why_not(read_file, fd);
	bool is_musl = ta_told.placement[0] && program_file_is_musl(read_file, fd);
	if (why_not == TRACE_NOT_STATIC && gives_rights(fd))
		why_not = TRACE_NOT_SETUID;
	close_file(fd);
	*ret_why_not = why_not;
	if (why_not == TRACE_NOT_32BIT || why_not == TRACE_NOT_SANITIZER)
		return TA_FOLLOW_NOT;
	return is_musl ? TA_FOLLOW_BARE : TA_FOLLOW_ALL;
}
