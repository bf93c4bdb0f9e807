/* The folder of a recording, its sockets, the environment and the files that lead to it. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/launch/environment.h"
#include "runner/launch/library.h"
#include "runner/processes/image-proc.h"
#include "runner/recording.h"
#include "runner/run-command.h"
#include "schemas/ring.h"
#include "tests/support/suite.h"

static char base[64];

static void setup(void)
{
	snprintf(base, sizeof(base), "/tmp/test-recording-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(base));
	setenv("XDG_RUNTIME_DIR", base, 1);
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", base);
	ck_assert_int_eq(system(command), 0);
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

START_TEST(only_its_user_can_enter_the_folder_and_it_goes_away)
{
	struct recording recording;
	struct stat status;
	char folder[RECORDING_PATH_BYTES];

	ck_assert_int_eq(recording_init(&recording), 0);
	memcpy(folder, recording.folder, sizeof(folder));
	ck_assert_int_eq(strncmp(folder, base, strlen(base)), 0);
	ck_assert_int_eq(stat(folder, &status), 0);
	ck_assert_int_eq(status.st_mode & 07777, 0700);
	ck_assert(exists(recording.socket_path));
	recording_finish(&recording);
	ck_assert(!exists(folder));
	recording_finish(&recording);
}
END_TEST

/* With what comes behind it, longer than the name of a socket may be (108). */
#define LONG_NAME                                                                                  \
	"/tmp/a-name-that-is-longer-than-the-name-of-a-socket-may-be-which-is-one-hundred-and-"    \
	"eight-bytes-with-all"

static const char *const bad_bases[] = {
	"/no/such/folder",
	"relative",
	"/proc",
	LONG_NAME,
};

START_TEST(another_place_is_found_where_the_first_does_not_serve)
{
	struct recording recording;

	setenv("XDG_RUNTIME_DIR", bad_bases[_i], 1);
	setenv("TMPDIR", base, 1);
	ck_assert_int_eq(recording_init(&recording), 0);
	ck_assert_int_eq(strncmp(recording.folder, base, strlen(base)), 0);
	recording_finish(&recording);
}
END_TEST

static void make_left_behind(char path[128], const char *name, bool with_lock)
{
	char lock[160];

	snprintf(path, 128, "%s/%s", base, name);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(lock, sizeof(lock), "%s/lock", path);
	if (with_lock)
		ck_assert_int_eq(close(creat(lock, 0600)), 0);
}

START_TEST(what_killed_recordings_left_is_swept_and_nothing_else)
{
	char dead[128], young[128], other[128], full[128], file[160];
	struct recording living, next;

	ck_assert_int_eq(recording_init(&living), 0);
	make_left_behind(dead, "memsight-aaaaaa", true);
	make_left_behind(young, "memsight-bbbbbb", false);
	make_left_behind(other, "memsight-something", true);
	make_left_behind(full, "memsight-cccccc", true);
	snprintf(file, sizeof(file), "%s/precious", full);
	ck_assert_int_eq(close(creat(file, 0600)), 0);

	ck_assert_int_eq(recording_init(&next), 0);
	ck_assert(!exists(dead));
	ck_assert(exists(young)); /* may be half made by somebody right now */
	ck_assert(exists(other));
	ck_assert(exists(file));
	ck_assert(exists(living.socket_path));
	recording_finish(&next);
	recording_finish(&living);
}
END_TEST

static int record_many(void)
{
	struct recording recording;

	for (int i = 0; i < 500; i++) {
		if (recording_init(&recording) < 0 || !exists(recording.socket_path))
			return 1;
		recording_finish(&recording);
	}
	return 0;
}

/* A folder between its lock's creation and its locking was once taken for one left behind. */
START_TEST(recorders_that_begin_at_once_do_not_sweep_each_other_away)
{
	int status, n_failed = 0;

	for (int i = 0; i < 8; i++) {
		if (fork() == 0)
			_exit(record_many());
	}
	for (int i = 0; i < 8; i++) {
		ck_assert_int_gt(wait(&status), 0);
		n_failed += status != 0;
	}
	ck_assert_int_eq(n_failed, 0);
}
END_TEST

static int connect_to(const char *path, bool is_abstract)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(name.sun_path + is_abstract, path, strlen(path));
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&name,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + is_abstract +
					     strlen(path))),
			 0);
	return fd;
}

static int take_fd(int fd, struct recording_welcome *welcome)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { welcome, sizeof(*welcome) };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int taken = -1;

	ck_assert_int_eq(recvmsg(fd, &message, 0), (int)sizeof(*welcome));
	if (CMSG_FIRSTHDR(&message))
		memcpy(&taken, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(taken));
	return taken;
}

START_TEST(a_program_says_hello_by_either_name_and_gets_a_file)
{
	const struct recording_hello hello = { RECORDING_MAGIC, RING_VERSION, 1, 2 };
	struct recording_welcome welcome = { .magic = RECORDING_MAGIC, .pool_bytes = 4096 }, got;
	struct recording recording;
	struct recording_greeting received;
	struct ucred peer;

	ck_assert_int_eq(recording_init(&recording), 0);
	ck_assert_int_eq(recording_accept(&recording), -EAGAIN);
	auto_close int program = connect_to(recording.socket_path, _i == 1);
	auto_close int ours = recording_accept(&recording);
	ck_assert_int_ge(ours, 0);
	ck_assert_int_eq(recording_receive(ours, &received, &peer), -EAGAIN);
	ck_assert_int_eq(send(program, &hello, sizeof(hello), 0), (int)sizeof(hello));
	ck_assert_int_eq(recording_receive(ours, &received, &peer), 0);
	ck_assert_mem_eq(&received.hello, &hello, sizeof(hello));
	ck_assert_int_eq(peer.pid, getpid());
	ck_assert_uint_eq(peer.uid, geteuid());

	auto_close int memory = memfd_create("test", MFD_CLOEXEC);
	ck_assert_int_eq(recording_answer(ours, &welcome, memory, -1), 0);
	auto_close int taken = take_fd(program, &got);
	ck_assert_int_ge(taken, 0);
	ck_assert_uint_eq(got.pool_bytes, 4096);
	ck_assert_int_eq(recording_answer(ours, &welcome, -1, -1), 0);
	ck_assert_int_eq(take_fd(program, &got), -1);
	recording_finish(&recording);
}
END_TEST

/* Counts are the program's words: what they say must be what came. */
START_TEST(a_hello_has_as_much_text_as_it_says)
{
	static const struct {
		uint32_t version, command_bytes, maps_bytes;
		size_t n_bytes;
		int result;
	} hellos[] = {
		{ RING_VERSION, 4, 6, 10, 0 },
		{ RING_VERSION, 4, 6, 9, -EPROTO },
		{ RING_VERSION, 4, 6, 11, -EPROTO },
		{ RING_VERSION, UINT32_MAX, 11, 10, -EPROTO },
		{ RING_VERSION, RECORDING_TEXT_BYTES, 0, RECORDING_TEXT_BYTES, 0 },
		{ RING_VERSION - 1, 4, 6, 3, 0 }, /* goes on otherwise; to be refused */
	};
	static struct recording_greeting sent, received;
	struct recording recording;
	struct ucred peer;

	sent.hello = (struct recording_hello){ RECORDING_MAGIC,		 hellos[_i].version,   1, 2,
					       hellos[_i].command_bytes, hellos[_i].maps_bytes };
	memcpy(sent.text, "cmd", 4);
	ck_assert_int_eq(recording_init(&recording), 0);
	auto_close int program = connect_to(recording.socket_path, false);
	auto_close int ours = recording_accept(&recording);
	size_t n_bytes = sizeof(sent.hello) + hellos[_i].n_bytes;
	ck_assert_int_eq(send(program, &sent, n_bytes, 0), (ssize_t)n_bytes);
	ck_assert_int_eq(recording_receive(ours, &received, &peer), hellos[_i].result);
	if (hellos[_i].result == 0)
		ck_assert_mem_eq(&received, &sent, n_bytes);
	recording_finish(&recording);
}
END_TEST

START_TEST(what_is_no_hello_is_refused)
{
	struct recording recording;
	struct recording_greeting received;
	struct ucred peer;

	ck_assert_int_eq(recording_init(&recording), 0);
	int program = connect_to(recording.socket_path, false);
	auto_close int ours = recording_accept(&recording);
	ck_assert_int_eq(send(program, "hello", 5, 0), 5);
	ck_assert_int_eq(recording_receive(ours, &received, &peer), -EPROTO);
	close(program);
	ck_assert_int_eq(recording_receive(ours, &received, &peer), -EPIPE);
	recording_finish(&recording);
}
END_TEST

/* What LD_PRELOAD is before and after. */
static const struct {
	const char *before;
	const char *after; /* NULL: not set */
	const char *after_no_alloc;
} preloads[] = {
	{ NULL, "LD_PRELOAD=/l/libtracealloc.so", NULL },
	{ "LD_PRELOAD=", "LD_PRELOAD=/l/libtracealloc.so", NULL },
	{ "LD_PRELOAD=a.so:b.so", "LD_PRELOAD=/l/libtracealloc.so:a.so:b.so",
	  "LD_PRELOAD=a.so:b.so" },
	{ "LD_PRELOAD=a.so  b.so", "LD_PRELOAD=/l/libtracealloc.so:a.so:b.so",
	  "LD_PRELOAD=a.so:b.so" },
	{ "LD_PRELOAD=/old/libtracealloc.so:a.so", "LD_PRELOAD=/l/libtracealloc.so:a.so",
	  "LD_PRELOAD=a.so" },
	{ "LD_PRELOAD=/x/notlibtracealloc.so",
	  "LD_PRELOAD=/l/libtracealloc.so:/x/notlibtracealloc.so",
	  "LD_PRELOAD=/x/notlibtracealloc.so" },
};

static const char *find(char **envp, const char *name)
{
	for (; *envp; envp++) {
		if (strncmp(*envp, name, strlen(name)) == 0)
			return *envp;
	}
	return NULL;
}

START_TEST(the_users_own_preload_stays_behind_ours)
{
	char *before[] = { "HOME=/h", "MEMSIGHT_RECORDING=/outer", (char *)preloads[_i].before,
			   NULL };
	char **envp;

	ck_assert_int_eq(environment_make(before, "/l/libtracealloc.so", "/r/socket", NULL, &envp),
			 0);
	ck_assert_str_eq(find(envp, "LD_PRELOAD="), preloads[_i].after);
	ck_assert_str_eq(find(envp, "MEMSIGHT_RECORDING="), "MEMSIGHT_RECORDING=/r/socket");
	ck_assert_str_eq(envp[0], "HOME=/h");
	environment_free(envp);

	ck_assert_int_eq(environment_copy(before, &envp), 0);
	ck_assert_pstr_eq(find(envp, "LD_PRELOAD="), preloads[_i].after_no_alloc);
	ck_assert_ptr_null(find(envp, "MEMSIGHT_RECORDING="));
	environment_free(envp);
}
END_TEST

START_TEST(a_library_in_an_odd_place_is_named_through_a_link)
{
	char path[PATH_MAX], name[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%s/a b:c$d.so", base);
	ck_assert_int_eq(close(creat(path, 0600)), 0);
	ck_assert_int_eq(library_preload_name(path, base, name, sizeof(name)), 0);
	ck_assert_ptr_null(strpbrk(name, " :$"));
	ck_assert_ptr_nonnull(realpath(name, real));
	ck_assert_str_eq(real, path);
	ck_assert_int_eq(library_preload_name("/l/x.so", base, name, sizeof(name)), 0);
	ck_assert_str_eq(name, "/l/x.so");
	ck_assert_int_eq(library_find("/no/such.so", name, sizeof(name)), -ENOENT);
}
END_TEST

static const struct {
	const char *line;
	bool is_map;
	struct image_map map;
} maps[] = {
	{ "7f0000001000-7f0000003000 r-xp 00002000 fe:01 123   /usr/lib/a b.so\n",
	  true,
	  { 0x7f0000001000, 0x7f0000003000, 0x2000, PROT_READ | PROT_EXEC, MAP_PRIVATE,
	    "/usr/lib/a b.so", 123 } },
	{ "00400000-00401000 rw-s 00000000 00:00 0",
	  true,
	  { 0x400000, 0x401000, 0, PROT_READ | PROT_WRITE, MAP_SHARED, "", 0 } },
	{ "7ffd0000-7ffe0000 ---p 00000000 00:00 0                          [stack]",
	  true,
	  { 0x7ffd0000, 0x7ffe0000, 0, 0, MAP_PRIVATE, "[stack]", 0 } },
	{ "", false, { 0 } },
	{ "1000-1000 r--p 0 0:0 0", false, { 0 } },
	{ "zzz-1000 r--p 0 0:0 0", false, { 0 } },
	{ "1000-2000 r-", false, { 0 } },
};

START_TEST(a_line_of_maps_is_read_or_refused)
{
	char line[256];
	struct image_map map;

	snprintf(line, sizeof(line), "%s", maps[_i].line);
	ck_assert_int_eq(image_parse_map(line, &map), maps[_i].is_map);
	if (!maps[_i].is_map)
		return;
	ck_assert_uint_eq(map.start, maps[_i].map.start);
	ck_assert_uint_eq(map.end, maps[_i].map.end);
	ck_assert_uint_eq(map.file_offset, maps[_i].map.file_offset);
	ck_assert_uint_eq(map.prot, maps[_i].map.prot);
	ck_assert_uint_eq(map.flags, maps[_i].map.flags);
	ck_assert_str_eq(map.path, maps[_i].map.path);
	ck_assert_uint_eq(map.inode, maps[_i].map.inode);
}
END_TEST

START_TEST(files_tell_why_they_cannot_be_traced)
{
	static const unsigned char elf32[64] = { 0x7f, 'E', 'L', 'F', 1, 1, 1 };
	char path[PATH_MAX];
	auto_fclose FILE *file = NULL;

	ck_assert_int_eq(image_file_why_not("/bin/sh"), 0);
	snprintf(path, sizeof(path), "%s/mallocs-static", getenv("MEMSIGHT_TEST_VICTIMS"));
	ck_assert_int_eq(image_file_why_not(path), TRACE_NOT_STATIC);
	snprintf(path, sizeof(path), "%s/elf32", base);
	file = fopen(path, "w");
	ck_assert_uint_eq(fwrite(elf32, 1, sizeof(elf32), file), sizeof(elf32));
	fflush(file);
	ck_assert_int_eq(image_file_why_not(path), TRACE_NOT_32BIT);
	snprintf(path, sizeof(path), "%s/none", base);
	ck_assert_int_eq(image_file_why_not(path), 0);
}
END_TEST

static const struct {
	const char *name;
	int result;
} commands[] = {
	{ "sh", 0 },
	{ "/bin/sh", 0 },
	{ "no-such-command", -ENOENT },
	{ "", -ENOENT },
	{ "/no/such", -ENOENT },
	{ "/etc/passwd", -EACCES },
	{ "/etc", -EACCES },
	{ "/etc/passwd/x", -ENOTDIR },
};

START_TEST(a_command_is_found_as_execvp_finds_it)
{
	char path[PATH_MAX];

	ck_assert_int_eq(run_command_find(commands[_i].name, path), commands[_i].result);
	if (commands[_i].result == 0)
		ck_assert_int_eq(access(path, X_OK), 0);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(*(array))))

int main(void)
{
	Suite *suite = suite_create("recording");
	TCase *tcase = tcase_create("recording");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, only_its_user_can_enter_the_folder_and_it_goes_away);
	tcase_add_loop_test(tcase, another_place_is_found_where_the_first_does_not_serve, 0,
			    COUNT(bad_bases));
	tcase_add_test(tcase, what_killed_recordings_left_is_swept_and_nothing_else);
	tcase_add_test(tcase, recorders_that_begin_at_once_do_not_sweep_each_other_away);
	tcase_add_loop_test(tcase, a_program_says_hello_by_either_name_and_gets_a_file, 0, 2);
	tcase_add_loop_test(tcase, a_hello_has_as_much_text_as_it_says, 0, 6);
	tcase_add_test(tcase, what_is_no_hello_is_refused);
	tcase_add_loop_test(tcase, the_users_own_preload_stays_behind_ours, 0, COUNT(preloads));
	tcase_add_test(tcase, a_library_in_an_odd_place_is_named_through_a_link);
	tcase_add_loop_test(tcase, a_line_of_maps_is_read_or_refused, 0, COUNT(maps));
	tcase_add_test(tcase, files_tell_why_they_cannot_be_traced);
	tcase_add_loop_test(tcase, a_command_is_found_as_execvp_finds_it, 0, COUNT(commands));
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
