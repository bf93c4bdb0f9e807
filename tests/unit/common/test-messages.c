/* Messages through a socket, and descriptors beside them. */
#include "common/io.h"

#include <check.h>
#include <dirent.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/suite.h"

static int ends[2];

static void set_up(void)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
}

static void tear_down(void)
{
	close(ends[0]);
	close(ends[1]);
}

static unsigned n_open(void)
{
	auto_folder DIR *folder = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(folder);
	while (io_next_number(folder))
		n++;
	return n;
}

static void send_fds(size_t n_fds)
{
	const uint32_t word = 7;

	ck_assert_int_eq(
		io_send(ends[0], &(struct io_message){ &word, sizeof(word), { 1, 2 }, n_fds }, 0),
		0);
}

START_TEST(a_descriptor_comes_with_its_message)
{
	uint32_t word = 0;
	int fd;

	send_fds(1);
	ck_assert_int_eq(io_receive(ends[1], &word, sizeof(word), 0, &fd), sizeof(word));
	ck_assert_uint_eq(word, 7);
	ck_assert_int_ge(fd, 3);
	close(fd);
	send_fds(0);
	ck_assert_int_eq(io_receive(ends[1], &word, sizeof(word), 0, &fd), sizeof(word));
	ck_assert_int_eq(fd, -1);
}
END_TEST

/* Whoever is traced may send what it likes: nothing of it stays in the recorder. */
START_TEST(of_two_descriptors_the_second_one_does_not_stay_open)
{
	unsigned before = n_open();
	uint32_t word;
	int fd;

	send_fds(2);
	ck_assert_int_eq(io_receive(ends[1], &word, sizeof(word), 0, &fd), sizeof(word));
	close(fd);
	ck_assert_uint_eq(n_open(), before);
	send_fds(2);
	ck_assert_int_eq(io_receive(ends[1], &word, sizeof(word), 0, NULL), sizeof(word));
	ck_assert_uint_eq(n_open(), before);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("messages");
	TCase *tests = tcase_create("messages");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_descriptor_comes_with_its_message);
	tcase_add_test(tests, of_two_descriptors_the_second_one_does_not_stay_open);
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
