/*
 * system() and popen() start a shell inside libc, past the hooks of exec and spawn. Where the
 * program has cleaned its environment, our variables go in front of the command: the shell is not
 * traced, what it starts is. (To change `environ` for the time of the call would be seen by other
 * threads.)
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tracealloc/environment.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/program.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

struct shell {
	const char *command;
	void *memory; /* NULL: the command is the program's own */
	size_t n_bytes;
};

static void begin(struct shell *shell, const char *command)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);

	*shell = (struct shell){ .command = command };
	if (!(state & TA_ON) || !(ta_image.flags & RING_FLAG_FOLLOW) ||
	    !ta_program_is_text(command))
		return;
	if (!ta_environment_is_reachable()) {
		ta_environment_leave();
		return;
	}
	shell->n_bytes = ta_environment_command_bytes(command);
	if (shell->n_bytes == 0)
		return;
	long memory = ta_map_private(shell->n_bytes);
	if (memory < 0)
		return;
	shell->memory = (void *)memory;
	shell->command = ta_environment_command(command, shell->memory);
}

static void end(const struct shell *shell)
{
	if (shell->memory)
		ta_syscall(SYS_munmap, (long)shell->memory, (long)shell->n_bytes, 0, 0, 0, 0);
}

TA_EXPORT int system(const char *command)
{
	struct shell shell;

	ta_real_resolve();
	begin(&shell, command);
	int r = ta_real.system(shell.command);
	end(&shell);
	return r;
}

TA_EXPORT FILE *popen(const char *command, const char *type)
{
	struct shell shell;

	ta_real_resolve();
	begin(&shell, command);
	FILE *file = ta_real.popen(shell.command, type);
	end(&shell);
	return file;
}
