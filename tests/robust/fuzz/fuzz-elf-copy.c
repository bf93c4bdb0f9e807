/* Makes a copy of whatever bytes as of a program, and reads the note of what comes out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "copy/copy-note.h"
#include "copy/elf-copy.h"
#include "schemas/copy.h"
#include "tests/robust/fuzz/fuzz.h"

static const struct {
	uint32_t head[3];
	char name[12];
	struct copy_head copy;
	char text[8];
} note = {
	.head = { 9, sizeof(struct copy_head) + 8, COPY_NOTE_TYPE },
	.name = COPY_NOTE_NAME,
	.copy = { COPY_VERSION, 1 },
	.text = "m\0o\0\0-q",
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	char message[COPY_MESSAGE_BYTES];
	struct elf_copy copy;
	struct copy_note found;
	uint8_t *own = malloc(n_bytes + 1);

	if (!own)
		return 0;
	memcpy(own, bytes, n_bytes);
	const struct elf_original original = { own, n_bytes, "/" COPY_LIBRARY, &note,
					       sizeof(note) };
	int r = elf_copy_make(&original, &copy, message);
	FUZZ_REQUIRE(r == 0 || (r == -EINVAL && message[0]));
	if (r == 0)
		FUZZ_REQUIRE(copy.more_at >= n_bytes &&
			     copy_note_parse(copy.more, copy.n_more, &found) == 0);
	elf_copy_free(&copy);
	copy_note_parse(bytes, n_bytes, &found);
	return 0;
}
