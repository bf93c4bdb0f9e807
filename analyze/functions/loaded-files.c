#include "analyze/functions/loaded-files.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"

extern char **environ;

void loaded_files_finish(struct loaded_files *files)
{
	array_free(files->paths, files->n, it, free(*it));
	*files = (struct loaded_files){ 0 };
}

int loaded_files_add(struct loaded_files *files, const char *path)
{
	for (size_t i = 0; i < files->n; i++)
		if (strcmp(files->paths[i], path) == 0)
			return 0;
	if (grow_array_of(&files->paths, files->n, 1, sizeof(*files->paths)) < 0)
		return -ENOMEM;
	files->paths[files->n] = strdup(path);
	return files->paths[files->n] ? (files->n++, 0) : -ENOMEM;
}

/* The loader that an ELF file asks for; "" for none. -ENOEXEC: it is no program for x86-64. */
static int find_loader(const char *program, char *ret_path, size_t n_bytes)
{
	auto_close int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	GElf_Ehdr head;
	size_t n = 0;
	int r = 0;

	if (fd < 0)
		return -errno;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &head) ||
	    head.e_machine != EM_X86_64 || elf_getphdrnum(elf, &n) < 0)
		r = -ENOEXEC;
	*ret_path = '\0';
	for (size_t i = 0; r == 0 && i < n; i++) {
		GElf_Phdr segment;
		ssize_t got;

		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_INTERP)
			continue;
		if (segment.p_filesz >= n_bytes)
			r = -ENOEXEC;
		else if ((got = pread(fd, ret_path, segment.p_filesz, (off_t)segment.p_offset)) < 0)
			r = -errno;
		else
			ret_path[got] = '\0';
	}
	elf_end(elf);
	return r;
}

/* "\tlibm.so.6 => /lib/libm.so.6 (0x7f00)", "\t/lib64/ld-linux-x86-64.so.2 (0x7f00)". */
static int take_line(struct loaded_files *files, char *line)
{
	char *arrow = strstr(line, " => ");
	char *path = arrow ? arrow + 4 : line + strspn(line, " \t");
	char *end = strrchr(path, '(');

	if (arrow && strncmp(path, "not found", 9) == 0) {
		*arrow = '\0';
		snprintf(files->missing, sizeof(files->missing), "%s", line + strspn(line, " \t"));
		return 0;
	}
	if (*path != '/' || !end || end == path)
		return 0;
	end[-1] = '\0';
	return loaded_files_add(files, path);
}

/* Run LOADER --list PROGRAM; its standard output comes from *ret_fd. */
static int start(const char *loader, const char *program, pid_t *ret_pid, int *ret_fd)
{
	const char *words[] = { loader, "--list", program, NULL };
	posix_spawn_file_actions_t actions;
	int pipes[2];

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	int r = -posix_spawn(ret_pid, loader, &actions, NULL, (char *const *)words, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	if (r < 0)
		close(pipes[0]);
	else
		*ret_fd = pipes[0];
	return r;
}

/* Takes the descriptor over. */
static int read_answer(struct loaded_files *files, int fd)
{
	auto_fclose FILE *output = fdopen(fd, "r");
	auto_free char *line = NULL;
	size_t n_allocated = 0;
	int r = 0;

	if (!output)
		return close(fd), -ENOMEM;
	while (r == 0 && getline(&line, &n_allocated, output) > 0)
		r = take_line(files, line);
	return r;
}

static int ask(struct loaded_files *files, const char *loader, const char *program)
{
	int status = 0;
	int fd = -1;
	pid_t pid;
	int r = start(loader, program, &pid, &fd);

	if (r < 0)
		return r;
	r = read_answer(files, fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return r;
}

int loaded_files_list(const char *program, struct loaded_files *ret_files,
		      char ret_message[static LOADED_MESSAGE_BYTES])
{
	struct loaded_files files = { 0 };
	auto_free char *path = realpath(program, NULL);
	char loader[512];
	int r = path ? find_loader(path, loader, sizeof(loader)) : -errno;

	if (r == -ENOEXEC)
		snprintf(ret_message, LOADED_MESSAGE_BYTES,
			 "%.160s is no ELF program for x86-64; of a script name the interpreter",
			 program);
	r = r ?: loaded_files_add(&files, path);
	if (r == 0 && *loader)
		r = ask(&files, loader, path);
	if (r < 0) {
		if (r != -ENOEXEC)
			snprintf(ret_message, LOADED_MESSAGE_BYTES, "cannot read %.160s: %s",
				 program, strerror(-r));
		loaded_files_finish(&files);
		return r;
	}
	*ret_files = files;
	return 0;
}
