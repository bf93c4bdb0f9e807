#pragma once
/*
 * A copy of a program or library that needs one library more, and has a note: schemas/copy.h.
 *
 * All that the original has stays where it is: code, data, sections, debug data, symbol versions,
 * RUNPATH. One segment is added behind the others. It has the note and the dynamic strings, which
 * are the old ones and the name of the library. One entry of the dynamic section is added in front,
 * so that the library is looked through before all others. Layouts: the ELF specification, and
 * elf(5).
 */
#include <stddef.h>
#include <stdint.h>

struct copy_note;

#define COPY_MESSAGE_BYTES 200

/* What the file becomes: the old bytes, changed in some places, and more of them further on. */
struct elf_copy {
	uint8_t *bytes; /* n_bytes, from the beginning of the file */
	size_t n_bytes;
	uint8_t *more; /* n_more bytes, from more_at on; what lies between is zero */
	size_t n_more;
	uint64_t more_at;
};

/* What a copy is made of. */
struct elf_original {
	uint8_t *bytes; /* the whole file, from malloc() */
	size_t n_bytes;
	const char *library; /* that it is to need: an absolute path */
	const void *note; /* a whole ELF note */
	size_t n_note_bytes;
};

#define ELF_COPY_EMPTY ((struct elf_copy){ .n_bytes = 0 })

/*
 * Make the copy of a file of 64 bits of this machine's kind. ret_copy takes over original->bytes,
 * also on failure: free it with elf_copy_free(). Reads and writes nothing else; the bytes may be
 * anything. Returns 0; -EINVAL with the reason in message, which reads as what follows the file's
 * name; -ENOMEM.
 */
int elf_copy_make(const struct elf_original *original, struct elf_copy *ret_copy,
		  char message[static COPY_MESSAGE_BYTES]);

void elf_copy_free(struct elf_copy *copy);

/*
 * Read the note of the copy at path. *ret_bytes holds what ret_note points into; the caller frees
 * it. Returns 0, a negative errno of open(2), -ENOENT: it is no copy, -EBADMSG: the note is
 * damaged.
 */
int copy_note_read(const char *path, void **ret_bytes, struct copy_note *ret_note);
