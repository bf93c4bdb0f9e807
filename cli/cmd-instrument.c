/* memsight instrument: a copy of a program or library that records itself. */
#include <elf.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/functions-table.h"
#include "cli/options/record-options.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf-check.h"
#include "common/io.h"
#include "common/shell-quote.h"
#include "copy/copy-note.h"
#include "copy/elf-copy.h"
#include "runner/launch/library.h"
#include "runner/run-command.h"
#include "runner/run.h"
#include "schemas/copy.h"
#include "schemas/trace-format.h"

/* What the note holds, as it will stand in the file. */
struct note_bytes {
	char *bytes;
	size_t n;
	int error;
};

static void put(struct note_bytes *note, const void *from, size_t n)
{
	if (note->error == 0 && grow_array_of(&note->bytes, note->n, n, 1) < 0)
		note->error = -ENOMEM;
	if (note->error < 0)
		return;
	memcpy(note->bytes + note->n, from, n);
	note->n += n;
}

static void put_string(struct note_bytes *note, const char *string)
{
	put(note, string, strlen(string) + 1);
}

/* --NAME=TEXT; the count of words. */
static uint32_t put_word(struct note_bytes *note, const char *name, const char *text)
{
	put(note, "--", 2);
	put(note, name, strlen(name));
	put(note, "=", 1);
	put_string(note, text);
	return 1;
}

/* The options of record on the command line: those of files and variables hold when it runs. */
static uint32_t put_options(struct note_bytes *note, const struct option_set *options)
{
	uint32_t n = 0;

	if (option_text(options, OPTION_TRACE))
		n += put_word(note, option_row(OPTION_OUTPUT)->name,
			      option_text(options, OPTION_TRACE));
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_value *value = &options->values[id];
		const struct option_row *row = option_row((enum option_id)id);

		if (value->origin != OPTION_FROM_LINE || value->of_preset ||
		    !option_is_of(row->id, COMMAND_RECORD) || id == OPTION_FORCE)
			continue;
		for (size_t i = 0; i < options->lists[id].n; i++) {
			const char *text = options->lists[id].texts[i];
			/* It is started in other folders than this one. */
			auto_free char *path = id == OPTION_FUNCTION_LIST || id == OPTION_LOAD
						       ? realpath(text, NULL)
						       : NULL;

			n += put_word(note, row->name, path ? path : text);
		}
		if (row->type != OPTION_TEXTS)
			n += put_word(note, row->name, value->text);
	}
	return n;
}

static int make_note(const struct option_set *options, const char *memsight, const char *original,
		     const char *build_id, struct note_bytes *note)
{
	static const char name[12] = COPY_NOTE_NAME;
	Elf64_Nhdr start = { .n_namesz = sizeof(COPY_NOTE_NAME), .n_type = COPY_NOTE_TYPE };
	struct copy_head head = { .version = COPY_VERSION };
	size_t before = sizeof(start) + sizeof(name);

	put(note, &start, sizeof(start));
	put(note, name, sizeof(name));
	put(note, &head, sizeof(head));
	put_string(note, memsight);
	put_string(note, original);
	put_string(note, build_id);
	head.n_words = put_options(note, options);
	if (note->error < 0)
		return note->error;
	if (note->n > COPY_MAX_BYTES)
		return -E2BIG;
	start.n_descsz = (Elf64_Word)(note->n - before);
	memcpy(note->bytes, &start, sizeof(start));
	memcpy(note->bytes + before, &head, sizeof(head));
	put(note, "\0\0\0", -note->n % 4);
	return note->error;
}

/* In hex; "": it has none, or is no ELF file. */
static void read_build_id(int fd, char *text, size_t n_bytes)
{
	const unsigned char *id;

	text[0] = '\0';
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	ssize_t n = elf ? dwelf_elf_gnu_build_id(elf, (const void **)&id) : 0;
	for (ssize_t i = 0; i < n && (size_t)(2 * i + 2) < n_bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	elf_end(elf);
}

#define MODULE_SIGNATURE "~Module signature appended~\n"

static bool has_signature(int fd, const struct stat *status)
{
	char end[sizeof(MODULE_SIGNATURE) - 1];

	return fgetxattr(fd, "security.ima", NULL, 0) > 0 ||
	       (pread(fd, end, sizeof(end), status->st_size - (off_t)sizeof(end)) ==
			(ssize_t)sizeof(end) &&
		memcmp(end, MODULE_SIGNATURE, sizeof(end)) == 0);
}

/* What a copy cannot keep, or must not have; NULL: nothing speaks against it. */
static const char *why_no_copy(int fd, const struct stat *status)
{
	if (!S_ISREG(status->st_mode))
		return "is no regular file";
	if (status->st_mode & (S_ISUID | S_ISGID))
		return "is setuid or setgid: a copy would run with the rights of whoever starts it";
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "has capabilities (getcap): a copy would run without them";
	if (has_signature(fd, status))
		return "has a signature, which a copy would break";
	if (program_file_why_not(io_read_at, fd) == TRACE_NOT_SANITIZER)
		return "is built with a sanitizer, which has its own malloc: a recording of it "
		       "would be empty";
	return NULL;
}

static int read_whole(int fd, size_t n_bytes, struct elf_original *original)
{
	original->bytes = malloc(n_bytes + 1);
	ssize_t n = original->bytes ? io_read_full(fd, original->bytes, n_bytes) : -ENOMEM;

	original->n_bytes = n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : 0;
}

/* Beside its place first, and there in one step: nobody starts half a copy. */
static int write_copy(const char *path, const struct elf_copy *copy, mode_t mode)
{
	auto_free char *beside = NULL;

	if (asprintf(&beside, "%s.XXXXXX", path) < 0)
		return cmd_fail("out of memory");
	auto_close int fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return cmd_fail("cannot write %s: %s", path, strerror(errno));
	int r = io_write_all(fd, copy->bytes, copy->n_bytes);
	if (r == 0 && lseek(fd, (off_t)copy->more_at, SEEK_SET) < 0)
		r = -errno;
	r = r ?: io_write_all(fd, copy->more, copy->n_more);
	mode_t hidden = umask(0);
	umask(hidden);
	if (r == 0 &&
	    (fchmod(fd, mode & 0777 & ~hidden) < 0 || fsync(fd) < 0 || rename(beside, path) < 0))
		r = -errno;
	if (r < 0)
		unlink(beside);
	return r < 0 ? cmd_fail("cannot write %s: %s", path, strerror(-r)) : CMD_DONE;
}

/* A command is found as a shell does; a library lies where its name says. */
static int find_file(const char *name, char path[static PATH_MAX])
{
	char found[PATH_MAX];

	return realpath(run_command_find(name, found) == 0 ? found : name, path)
		       ? CMD_DONE
		       : cmd_fail("cannot copy %s: %s", name, strerror(errno));
}

static int find_ours(char memsight[static PATH_MAX], char library[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", memsight, PATH_MAX - 1);

	if (n <= 0)
		return cmd_fail("cannot find out where memsight lies: %s", strerror(errno));
	memsight[n] = '\0';
	if (library_find_beside(COPY_LIBRARY, library, PATH_MAX) < 0)
		return cmd_fail("%s is neither beside memsight nor installed", COPY_LIBRARY);
	return CMD_DONE;
}

static int make_copy(const struct option_set *options, const char *path, const char *output)
{
	char memsight[PATH_MAX], library[PATH_MAX], build_id[128];
	char message[COPY_MESSAGE_BYTES];
	__attribute__((cleanup(elf_copy_free))) struct elf_copy copy = ELF_COPY_EMPTY;
	struct note_bytes note = { .n = 0 };
	struct stat status;
	struct elf_original original = { .library = library };

	int r = find_ours(memsight, library);
	if (r != CMD_DONE)
		return r;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) < 0)
		return cmd_fail("cannot read %s: %s", path, strerror(errno));
	const char *why = why_no_copy(fd, &status);
	if (why)
		return cmd_fail("%s %s", path, why);
	read_build_id(fd, build_id, sizeof(build_id));
	r = make_note(options, memsight, path, build_id, &note);
	auto_free char *note_bytes = note.bytes;
	if (r == -E2BIG)
		return cmd_fail("the options are too long: %zu bytes, at most %u", note.n,
				COPY_MAX_BYTES);
	r = r ?: read_whole(fd, (size_t)status.st_size, &original);
	copy.bytes = original.bytes;
	if (r < 0)
		return cmd_fail("cannot read %s: %s", path, strerror(-r));
	original.note = note_bytes;
	original.n_note_bytes = note.n;
	r = elf_copy_make(&original, &copy, message);
	if (r < 0)
		return cmd_fail("%s %s", path,
				r == -ENOMEM ? "is too large for the memory here" : message);
	return write_copy(output, &copy, status.st_mode);
}

/* --show: what a copy holds, as words of a shell. */
static int show(const char *path)
{
	auto_free void *bytes = NULL;
	struct copy_note note;
	int r = copy_note_read(path, &bytes, &note);

	if (r < 0)
		return cmd_fail("%s: %s", path,
				r == -EBADMSG || (r == -ENOENT && access(path, F_OK) == 0)
					? "is no copy that `memsight instrument' has made"
					: strerror(-r));
	const char *end = note.words;
	for (uint32_t i = 0; i < note.n_words; i++)
		end = copy_note_next(end);
	auto_free char *words = command_text(note.words, (size_t)(end - note.words));
	if (!words)
		return cmd_fail("out of memory");
	printf("original  %s\nbuild-id  %s\nmemsight  %s\noptions   %s\n", note.original,
	       note.build_id[0] ? note.build_id : "-", note.memsight, words);
	return CMD_DONE;
}

static int check_options(const struct option_set *options)
{
	struct run_options run = record_options_of(options);
	char message[OPTION_MESSAGE_BYTES];
	bool has_functions;

	if (!option_text(options, OPTION_INSTRUMENT_OUTPUT))
		return cmd_usage("instrument: where to? -o COPY");
	if (functions_check(options, &has_functions) != CMD_DONE)
		return CMD_USAGE;
	if (run_check(&run, message, sizeof(message)) < 0)
		return cmd_usage("instrument: %s", message);
	return CMD_DONE;
}

int cmd_instrument(const struct option_set *options)
{
	const char *output = option_text(options, OPTION_INSTRUMENT_OUTPUT);
	char path[PATH_MAX];

	if (option_flag(options, OPTION_SHOW))
		return show(options->operands[0]);
	int r = check_options(options) ?: find_file(options->operands[0], path);
	r = r ?: cmd_check_new(output, options);
	r = r ?: make_copy(options, path, output);
	if (r == CMD_DONE && !option_flag(options, OPTION_QUIET))
		cmd_warn("%s records itself when it is started; MEMSIGHT_COPIES=off runs it "
			 "unrecorded",
			 output);
	return r;
}
