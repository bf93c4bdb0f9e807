/*
 * libmemsight_copy.so: what an instrumented copy needs, and what starts the recording. Its
 * constructor runs before all others (-z initfirst) and becomes `memsight record', with the options
 * that the copy holds; that starts the copy again. The process keeps its number, environment, open
 * files and folder. Whatever stands against it, the program runs on, unrecorded.
 *
 * No allocation and no stdio: libc may not have begun. Of a library that is loaded later nothing is
 * started, since the program would begin anew: the stack is too deep then.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "copy/copy-note.h"
#include "schemas/copy.h"
#include "schemas/recording.h"

/*
 * From the process's first word on the stack to our frame: 144 bytes measured when glibc's loader
 * starts a program, 1,808 within dlopen() out of main().
 */
#define START_DEPTH 1024u
#define N_WORDS	    6u /* memsight record --copy=FILE --argv0=NAME -- PROGRAM */
#define STAT_BYTES  1024u

struct copied {
	struct copy_note note;
	bool is_program; /* not one of its libraries */
	const char *path; /* of the library */
};

static void say_part(const char *text)
{
	(void)!write(STDERR_FILENO, text, strlen(text));
}

static void say(const char *what, const char *path)
{
	say_part("memsight: ");
	say_part(what);
	say_part(path);
	say_part("; the program runs unrecorded\n");
}

/* The beginning of a file of /proc, as a string. */
static bool read_small(const char *path, char *text, size_t n_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, n_bytes - 1) : -1;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number behind so many blanks. */
static uintptr_t number_behind(const char *text, unsigned n_blanks)
{
	uintptr_t number = 0;

	while (*text && n_blanks > 0)
		n_blanks -= *text++ == ' ';
	for (; *text >= '0' && *text <= '9'; text++)
		number = number * 10 + (uintptr_t)(*text - '0');
	return number;
}

/* What the kernel has put on the stack: argc, argv, NULL, envp, NULL. NULL: we are loaded late. */
static const uintptr_t *first_words(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	char stat[STAT_BYTES];
	const char *rest;

	/* proc(5): startstack is field 28; the name in field 2 may have blanks and brackets. */
	if (!read_small("/proc/self/stat", stat, sizeof(stat)) || !(rest = strrchr(stat, ')')))
		return NULL;
	uintptr_t start = number_behind(rest, 26);
	return start > here && start - here < START_DEPTH ? (const uintptr_t *)start : NULL;
}

/* For dl_iterate_phdr(): stops at the first file with a note. */
static int find_note(struct dl_phdr_info *info, size_t n_bytes, void *user)
{
	struct copied *copied = user;
	const ElfW(Phdr) *last = NULL;

	(void)n_bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			last = &info->dlpi_phdr[i];
	}
	if (last && last->p_flags & PF_R &&
	    copy_note_parse((const void *)(info->dlpi_addr + last->p_vaddr), last->p_filesz,
			    &copied->note) == 0) {
		copied->path = info->dlpi_name;
		return 1;
	}
	copied->is_program = false;
	return 0;
}

static bool has_variable(char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; *envp; envp++) {
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return true;
	}
	return false;
}

/* Recorded already, or not to be. */
static bool is_started(char *const *envp)
{
	return has_variable(envp, COPY_ENV) || has_variable(envp, RECORDING_ENV_SOCKET);
}

/* gdb and strace follow the program, not memsight. */
static bool is_traced(void)
{
	char status[STAT_BYTES];
	const char *line = read_small("/proc/self/status", status, sizeof(status))
				   ? strstr(status, "TracerPid:\t")
				   : NULL;

	return line && line[strlen("TracerPid:\t")] != '0';
}

static char *join(char *to, size_t n_bytes, const char *first, const char *second)
{
	size_t n_first = strlen(first), n_second = strlen(second);

	if (n_first + n_second >= n_bytes)
		return NULL;
	memcpy(to, first, n_first);
	memcpy(to + n_first, second, n_second + 1);
	return to;
}

/* Under `ld.so PROGRAM' it is not the program that the kernel has started. */
static const char *program_path(char *const *argv, char path[static PATH_MAX])
{
	ssize_t n = getauxval(AT_BASE) ? readlink("/proc/self/exe", path, PATH_MAX - 1) : 0;

	if (n <= 0)
		return argv[0];
	path[n] = '\0';
	return path;
}

static void start(const struct copied *copied, size_t argc, char *const *argv, char *const *envp)
{
	char path[PATH_MAX], file[PATH_MAX + 16], name[PATH_MAX + 16];
	const char *program = program_path(argv, path);
	const char *from = copied->is_program ? program : copied->path;
	size_t n_env = 0, n = 0;

	while (envp[n_env])
		n_env++;
	size_t n_bytes = (N_WORDS + argc + n_env + 4) * sizeof(char *);
	char **words =
		mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (words == MAP_FAILED) {
		say("no memory to start ", copied->note.memsight);
		return;
	}
	words[n++] = (char *)(uintptr_t)copied->note.memsight;
	words[n++] = (char *)(uintptr_t) "record";
	words[n++] = join(file, sizeof(file), "--copy=", from);
	if (argv[0][0] && strcmp(argv[0], program) != 0 &&
	    join(name, sizeof(name), "--argv0=", argv[0]))
		words[n++] = name;
	words[n++] = (char *)(uintptr_t) "--";
	words[n++] = (char *)(uintptr_t)program;
	for (size_t i = 1; i < argc; i++)
		words[n++] = argv[i];
	char **environment = words + n + 1;
	memcpy(environment, envp, n_env * sizeof(char *));
	environment[n_env] = (char *)(uintptr_t)COPY_ENV "=" COPY_STARTED;
	execve(copied->note.memsight, words, environment);
	munmap(words, n_bytes);
	say("cannot start ", copied->note.memsight);
}

__attribute__((constructor)) static void start_copy(void)
{
	struct copied copied = { .is_program = true };
	int kept = errno;

	if (getauxval(AT_SECURE) || dl_iterate_phdr(find_note, &copied) != 1)
		return;
	const uintptr_t *first = first_words();
	if (first) {
		char *const *argv = (char *const *)(first + 1);
		char *const *envp = argv + *first + 1;

		if (*first == 0 || is_started(envp))
			;
		else if (is_traced())
			say("a debugger follows ", argv[0]);
		else
			start(&copied, *first, argv, envp);
	} else if (!is_started(environ)) {
		say("loaded into a program that runs already: ", copied.path);
	}
	errno = kept;
}
