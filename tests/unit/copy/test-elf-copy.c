/* Making a copy of a file that may be anything: MEMSIGHT_TEST_VICTIM is a program. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "copy/copy-note.h"
#include "copy/elf-copy.h"
#include "schemas/copy.h"
#include "tests/support/suite.h"

#define LIBRARY "/usr/lib/memsight/" COPY_LIBRARY

static uint8_t *victim;
static size_t n_victim;

/* As `memsight instrument' makes one: two options. */
static const struct {
	Elf64_Nhdr head;
	char name[12];
	struct copy_head copy;
	char text[36];
} note = {
	.head = { 9, sizeof(struct copy_head) + 36, COPY_NOTE_TYPE },
	.name = COPY_NOTE_NAME,
	.copy = { COPY_VERSION, 2 },
	.text = "/m\0/original\0ab01\0--quiet=yes\0-F9",
};

static int make(const uint8_t *bytes, size_t n, struct elf_copy *ret_copy)
{
	char message[COPY_MESSAGE_BYTES] = "";
	uint8_t *own = malloc(n + 1);

	ck_assert_ptr_nonnull(own);
	memcpy(own, bytes, n);
	const struct elf_original original = { own, n, LIBRARY, &note, sizeof(note) };
	int r = elf_copy_make(&original, ret_copy, message);
	ck_assert(r == 0 || r == -EINVAL);
	ck_assert_int_eq(r == 0, message[0] == '\0');
	if (r == 0)
		ck_assert(ret_copy->more_at >= n && ret_copy->n_more >= sizeof(note));
	return r;
}

START_TEST(a_copy_has_the_code_of_its_original_and_a_note)
{
	struct elf_copy copy;
	struct copy_note found;
	size_t n_changed = 0;

	ck_assert_int_eq(make(victim, n_victim, &copy), 0);
	ck_assert_int_eq(copy_note_parse(copy.more, copy.n_more, &found), 0);
	ck_assert_str_eq(found.memsight, "/m");
	ck_assert_str_eq(found.original, "/original");
	ck_assert_str_eq(found.build_id, "ab01");
	ck_assert_uint_eq(found.n_words, 2);
	ck_assert_str_eq(found.words, "--quiet=yes");
	ck_assert_str_eq(copy_note_next(found.words), "-F9");
	/* The head, the table of segments with what made room, and the dynamic section. */
	for (size_t i = 0; i < n_victim; i++)
		n_changed += copy.bytes[i] != victim[i];
	ck_assert_uint_gt(n_changed, 0);
	ck_assert_uint_lt(n_changed, 2048);
	elf_copy_free(&copy);
}
END_TEST

START_TEST(a_copy_of_a_copy_is_refused)
{
	struct elf_copy copy, again;

	ck_assert_int_eq(make(victim, n_victim, &copy), 0);
	size_t n = copy.more_at + copy.n_more;
	auto_free uint8_t *whole = calloc(n, 1);
	ck_assert_ptr_nonnull(whole);
	memcpy(whole, copy.bytes, copy.n_bytes);
	memcpy(whole + copy.more_at, copy.more, copy.n_more);
	ck_assert_int_eq(make(whole, n, &again), -EINVAL);
	elf_copy_free(&again);
	elf_copy_free(&copy);
}
END_TEST

START_TEST(a_file_that_is_cut_anywhere_gives_a_copy_or_a_sentence)
{
	size_t n_made = 0;

	for (size_t n = 0; n < n_victim; n += n < 8192 ? 1 : 7) {
		struct elf_copy copy;

		n_made += make(victim, n, &copy) == 0;
		elf_copy_free(&copy);
	}
	/* The table of sections lies at the end: whatever is cut lacks it. */
	ck_assert_uint_eq(n_made, 0);
}
END_TEST

/* A generator of its own: the same everywhere (Knuth's MMIX constants). */
static uint32_t draw(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

/* Where what is read lies: the head and the segments, the dynamic section, the sections. */
static size_t draw_place(uint64_t *state)
{
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	size_t tables[] = { 0, sizeof(head), 0, 0 };

	memcpy(&head, victim, sizeof(head));
	for (unsigned i = 0; i < head.e_phnum; i++) {
		memcpy(&segment, victim + head.e_phoff + i * sizeof(segment), sizeof(segment));
		if (segment.p_type == PT_DYNAMIC)
			tables[2] = segment.p_offset;
	}
	tables[3] = head.e_shoff;
	return tables[draw(state) % 4] + draw(state) % 640;
}

START_TEST(a_damaged_file_gives_a_copy_or_a_sentence)
{
	uint64_t state = 20261127;
	size_t n_made = 0, n_refused = 0;

	for (unsigned round = 0; round < 6000; round++) {
		auto_free uint8_t *bytes = malloc(n_victim);
		struct elf_copy copy;

		ck_assert_ptr_nonnull(bytes);
		memcpy(bytes, victim, n_victim);
		for (unsigned i = draw(&state) % 4 + 1; i > 0; i--) {
			size_t at = draw_place(&state);

			if (at < n_victim)
				bytes[at] = draw(&state) % 3 ? (uint8_t)draw(&state) : 0xff;
		}
		if (make(bytes, n_victim, &copy) == 0)
			n_made++;
		else
			n_refused++;
		elf_copy_free(&copy);
	}
	ck_assert_uint_gt(n_made, 100);
	ck_assert_uint_gt(n_refused, 100);
}
END_TEST

START_TEST(a_note_that_is_cut_or_changed_is_never_read_beyond_its_end)
{
	struct copy_note found;

	for (size_t n = 0; n < sizeof(note); n++) {
		auto_free char *bytes = malloc(n + 1);

		ck_assert_ptr_nonnull(bytes);
		memcpy(bytes, &note, n);
		ck_assert_int_ne(copy_note_parse(bytes, n, &found), 0);
	}
	for (size_t i = 0; i < offsetof(struct copy_head, n_words) + sizeof(note.head) + 12; i++) {
		char bytes[sizeof(note)];

		memcpy(bytes, &note, sizeof(note));
		bytes[i] ^= 0x40;
		ck_assert_int_ne(copy_note_parse(bytes, sizeof(bytes), &found), 0);
	}
}
END_TEST

int main(void)
{
	const char *path = getenv("MEMSIGHT_TEST_VICTIM");
	Suite *suite = suite_create("elf-copy");
	TCase *cases = tcase_create("copies");

	if (!path || io_read_file(path, 64 << 20, (char **)&victim, &n_victim) < 0) {
		fprintf(stderr, "MEMSIGHT_TEST_VICTIM names no file\n");
		return EXIT_FAILURE;
	}
	tcase_add_test(cases, a_copy_has_the_code_of_its_original_and_a_note);
	tcase_add_test(cases, a_copy_of_a_copy_is_refused);
	tcase_add_test(cases, a_file_that_is_cut_anywhere_gives_a_copy_or_a_sentence);
	tcase_add_test(cases, a_damaged_file_gives_a_copy_or_a_sentence);
	tcase_add_test(cases, a_note_that_is_cut_or_changed_is_never_read_beyond_its_end);
	suite_add_tcase(suite, cases);
	int status = suite_run(suite);
	free(victim);
	return status;
}
