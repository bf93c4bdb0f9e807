#include "tracealloc/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "schemas/recording.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/state.h"

extern void *__libc_stack_end __attribute__((weak));

/*
 * The environment that the kernel gave the image. libc sets `environ` only in its own constructor;
 * code that runs before (.preinit_array) finds it behind argc and argv at the start of the stack.
 */
static char *const *start_environment(void)
{
	const long *start = &__libc_stack_end ? __libc_stack_end : NULL;

	if (environ || !start)
		return environ;
	return (char *const *)(start + 1 + start[0] + 1);
}

const char *ta_environment_find(char *const environment[], const char *name)
{
	size_t length = strlen(name);

	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

/* Into zeros: what is nothing touches no page. */
static void copy_text(char *to, size_t room, const char *from)
{
	size_t length = from ? strlen(from) : 0;

	if (length > 0 && length < room) /* else too long to be ours */
		memcpy(to, from, length);
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
			copy_text(ta_told.library, sizeof(ta_told.library), info->dlpi_name);
			return 1;
		}
	}
	return 0;
}

void ta_environment_start(void)
{
	copy_text(ta_told.socket, sizeof(ta_told.socket),
		  ta_environment_find(start_environment(), RECORDING_ENV_SOCKET));
	copy_text(ta_told.placement, sizeof(ta_told.placement),
		  ta_environment_find(start_environment(), RECORDING_ENV_PLACEMENT));
	if (ta_told.socket[0])
		dl_iterate_phdr(find_library, NULL);
}

void ta_environment_start_late(void)
{
	static const char passing[] = "/proc/"; /* a file without a name is gone by now */

	memset(ta_told.library, 0, sizeof(ta_told.library));
	dl_iterate_phdr(find_library, NULL);
	if (strncmp(ta_told.library, passing, sizeof(passing) - 1) == 0)
		ta_told.library[0] = '\0';
}

static bool has_name(const char *entry, const char *name, size_t length)
{
	return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

#define IS_SOCKET(entry)  has_name(entry, RECORDING_ENV_SOCKET, sizeof(RECORDING_ENV_SOCKET) - 1)
#define IS_PRELOAD(entry) has_name(entry, RECORDING_ENV_PRELOAD, sizeof(RECORDING_ENV_PRELOAD) - 1)
#define IS_PLACEMENT(entry)                                                                        \
	has_name(entry, RECORDING_ENV_PLACEMENT, sizeof(RECORDING_ENV_PLACEMENT) - 1)

/* The loader takes both as separators. */
static bool is_separator(char c)
{
	return c == ':' || c == ' ';
}

/* The next entry of an LD_PRELOAD list; *text moves behind it. Length 0: none is left. */
static size_t next_entry(const char **text, const char **ret_entry)
{
	const char *end;

	while (is_separator(**text))
		(*text)++;
	for (end = *text; *end && !is_separator(*end); end++)
		;
	*ret_entry = *text;
	*text = end;
	return (size_t)(end - *ret_entry);
}

/* Is it a library of this name, by whatever path? */
static bool is_library(const char *entry, size_t length, const char *name)
{
	const size_t name_length = strlen(name);

	return length >= name_length &&
	       memcmp(entry + length - name_length, name, name_length) == 0 &&
	       (length == name_length || entry[length - name_length - 1] == '/');
}

static bool list_has(const char *list, const char *name)
{
	const char *entry;
	size_t length;

	while (list && (length = next_entry(&list, &entry)))
		if (is_library(entry, length, name))
			return true;
	return false;
}

bool ta_environment_lacks_heap(void)
{
	return ta_told.placement[0] &&
	       !list_has(ta_environment_find(start_environment(), RECORDING_ENV_PRELOAD),
			 RECORDING_HEAP_LIBRARY);
}

/*
 * Is nothing to be changed? An environment that names another recording (a `memsight record`
 * inside the recorded program), or an empty one, is as somebody wants it.
 */
static bool is_right(char *const environment[], enum ta_follow follow)
{
	const char *socket = ta_environment_find(environment, RECORDING_ENV_SOCKET);
	const char *preload = ta_environment_find(environment, RECORDING_ENV_PRELOAD);
	const char *placement = ta_environment_find(environment, RECORDING_ENV_PLACEMENT);
	bool has_ours = list_has(preload, RECORDING_LIBRARY);
	bool has_heap = list_has(preload, RECORDING_HEAP_LIBRARY);

	if (socket && strcmp(socket, ta_told.socket) != 0)
		return true;
	if (follow == TA_FOLLOW_NOT)
		return !socket && !has_ours && !has_heap;
	if (!socket || !has_ours)
		return false;
	return !ta_told.placement[0] || (placement && has_heap == (follow == TA_FOLLOW_ALL));
}

/* The folder of our own path, with the last '/': the heap's library lies beside us. */
static size_t folder_bytes(void)
{
	const char *end = ta_told.library;

	for (const char *at = end; *at; at++)
		if (*at == '/')
			end = at + 1;
	return (size_t)(end - ta_told.library);
}

size_t ta_environment_bytes(char *const environment[], enum ta_follow follow)
{
	size_t n = 0;

	if (!ta_told.socket[0] || !ta_told.library[0] || is_right(environment, follow))
		return 0;
	while (environment && environment[n])
		n++;
	const char *preload = ta_environment_find(environment, RECORDING_ENV_PRELOAD);
	return (n + 4) * sizeof(char *) +
	       sizeof(RECORDING_ENV_SOCKET "=" RECORDING_ENV_PRELOAD "=:" RECORDING_ENV_PLACEMENT
					   "=:" RECORDING_HEAP_LIBRARY) +
	       strlen(ta_told.socket) + 2 * strlen(ta_told.library) + strlen(ta_told.placement) +
	       (preload ? strlen(preload) : 0) + 3;
}

static char *append(char *to, const char *from, size_t length)
{
	memcpy(to, from, length);
	return to + length;
}

/* LD_PRELOAD's new value, with the user's entries; "" when nothing is left of it. */
static char *write_list(char *to, const char *list, enum ta_follow follow)
{
	const char *entry;
	size_t length;
	bool is_first = follow == TA_FOLLOW_NOT;

	if (follow != TA_FOLLOW_NOT)
		to = append(to, ta_told.library, strlen(ta_told.library));
	if (follow == TA_FOLLOW_ALL && ta_told.placement[0]) {
		*to++ = ':';
		to = append(to, ta_told.library, folder_bytes());
		to = append(to, RECORDING_HEAP_LIBRARY, sizeof(RECORDING_HEAP_LIBRARY) - 1);
	}
	while (list && (length = next_entry(&list, &entry))) {
		if (is_library(entry, length, RECORDING_LIBRARY) ||
		    is_library(entry, length, RECORDING_HEAP_LIBRARY))
			continue;
		if (!is_first)
			*to++ = ':';
		to = append(to, entry, length);
		is_first = false;
	}
	*to++ = '\0';
	return to;
}

char **ta_environment_build(char *const environment[], enum ta_follow follow, void *memory)
{
	char **result = memory;
	char **next = result;
	const char *list = ta_environment_find(environment, RECORDING_ENV_PRELOAD);
	size_t n = 0;

	for (; environment && environment[n]; n++)
		if (!IS_SOCKET(environment[n]) && !IS_PRELOAD(environment[n]) &&
		    !IS_PLACEMENT(environment[n]))
			*next++ = environment[n];
	char *preload = (char *)memory + (n + 4) * sizeof(char *);
	char *text =
		append(preload, RECORDING_ENV_PRELOAD "=", sizeof(RECORDING_ENV_PRELOAD "=") - 1);
	if (write_list(text, list, follow) > text + 1)
		*next++ = preload;
	if (follow != TA_FOLLOW_NOT) {
		text += strlen(text) + 1;
		*next++ = text;
		text = append(text, RECORDING_ENV_SOCKET "=", sizeof(RECORDING_ENV_SOCKET "=") - 1);
		text = append(text, ta_told.socket, strlen(ta_told.socket) + 1);
	}
	if (follow != TA_FOLLOW_NOT && ta_told.placement[0]) {
		*next++ = text;
		text = append(text, RECORDING_ENV_PLACEMENT "=",
			      sizeof(RECORDING_ENV_PLACEMENT "=") - 1);
		append(text, ta_told.placement, strlen(ta_told.placement) + 1);
	}
	*next = NULL;
	return result;
}

static bool may_read_us(int flags)
{
	long r = ta_syscall(SYS_faccessat2, AT_FDCWD, (long)ta_told.library, R_OK, flags, 0, 0);

	return r != -ENOENT && r != -EACCES && r != -ENOTDIR;
}

/*
 * As the real user without capabilities too: setpriv keeps them up to the exec, which takes them
 * away.
 */
bool ta_environment_is_reachable(void)
{
	return ta_told.library[0] && may_read_us(AT_EACCESS) && may_read_us(0);
}

void ta_environment_leave(void)
{
	static char text[TA_PATH_BYTES] TA_LARGE;
	static _Atomic bool is_done;
	char **entry = environ;

	while (entry && *entry && !IS_PRELOAD(*entry))
		entry++;
	if (!entry || !*entry || strlen(*entry) >= sizeof(text) || atomic_exchange(&is_done, true))
		return;
	char *end = append(text, *entry, sizeof(RECORDING_ENV_PRELOAD));
	if (write_list(end, *entry + sizeof(RECORDING_ENV_PRELOAD), TA_FOLLOW_NOT) > end + 1)
		*entry = text;
	else
		for (; *entry; entry++)
			*entry = entry[1];
}

#define MAX_COMMAND_BYTES (96u << 10) /* Linux takes 128 KiB in one argument */

static const char shell_start[] = "export " RECORDING_ENV_SOCKET "='";
static const char shell_preload[] = "' " RECORDING_ENV_PRELOAD "='";
static const char shell_placement[] = "' " RECORDING_ENV_PLACEMENT "='";
static const char shell_end[] = "';";

size_t ta_environment_command_bytes(const char *command)
{
	const char *list = ta_environment_find(environ, RECORDING_ENV_PRELOAD);
	size_t n_bytes = strlen(command) + (list ? strlen(list) : 0);

	if (n_bytes > MAX_COMMAND_BYTES || ta_environment_bytes(environ, TA_FOLLOW_ALL) == 0 ||
	    strchr(ta_told.socket, '\'') || strchr(ta_told.library, '\'') ||
	    strchr(ta_told.placement, '\'') || (list && strchr(list, '\'')))
		return 0;
	return n_bytes + strlen(ta_told.socket) + 2 * strlen(ta_told.library) +
	       strlen(ta_told.placement) + sizeof(shell_start) + sizeof(shell_preload) +
	       sizeof(":" RECORDING_HEAP_LIBRARY) + sizeof(shell_placement) + sizeof(shell_end) + 2;
}

const char *ta_environment_command(const char *command, char *memory)
{
	char *to = append(memory, shell_start, sizeof(shell_start) - 1);

	to = append(to, ta_told.socket, strlen(ta_told.socket));
	to = append(to, shell_preload, sizeof(shell_preload) - 1);
	to = write_list(to, ta_environment_find(environ, RECORDING_ENV_PRELOAD), TA_FOLLOW_ALL) - 1;
	if (ta_told.placement[0]) {
		to = append(to, shell_placement, sizeof(shell_placement) - 1);
		to = append(to, ta_told.placement, strlen(ta_told.placement));
	}
	to = append(to, shell_end, sizeof(shell_end) - 1);
	append(to, command, strlen(command) + 1);
	return memory;
}
