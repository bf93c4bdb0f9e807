#include "tracealloc/environment.h"

#include <link.h>
#include <string.h>
#include <unistd.h>

#include "schemas/recording.h"
#include "tracealloc/state.h"

extern void *__libc_stack_end __attribute__((weak));

/*
 * The environment that the kernel gave the image. libc sets `environ` only in its own constructor;
 * code that runs before (.preinit_array) finds it behind argc and argv at the start of the stack.
 */
static char *const *start_environment(void)
{
	const long *start = __libc_stack_end;

	if (environ || !&__libc_stack_end || !start)
		return environ;
	return (char *const *)(start + 1 + start[0] + 1);
}

static const char *find_variable(char *const *environment, const char *name)
{
	size_t length = strlen(name);

	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

static void copy_text(char *to, const char *from)
{
	size_t length = from ? strlen(from) : 0;

	if (length >= TA_PATH_BYTES)
		length = 0; /* too long to be ours */
	memcpy(to, from ? from : "", length);
	to[length] = '\0';
}

/* Our own path as the loader has it, which is as LD_PRELOAD has it. */
static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t here = (uintptr_t)&ta_image;

	(void)size;
	(void)unused;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD &&
		    here - (info->dlpi_addr + header->p_vaddr) < header->p_memsz) {
			copy_text(ta_image.library, info->dlpi_name);
			return 1;
		}
	}
	return 0;
}

void ta_environment_start(void)
{
	copy_text(ta_image.socket, find_variable(start_environment(), RECORDING_ENV_SOCKET));
	if (ta_image.socket[0])
		dl_iterate_phdr(find_library, NULL);
}
