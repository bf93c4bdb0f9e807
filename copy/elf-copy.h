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

#define COPY_MESSAGE_BYTES 200

/* What the file becomes: the old bytes, changed in some places, and more of them further on. */
struct elf_copy {
	uint8_t *bytes; /* n_bytes, from the beginning of the file */
	size_t n_bytes;
	uint8_t *more; /* n_more bytes, from more_at on; what lies between is zero */
	size_t n_more;
	uint64_t more_at;
};

#define ELF_COPY_EMPTY ((struct elf_copy){ .n_bytes = 0 })

/*
 * Make the copy of a file of 64 bits of this machine's kind. bytes are taken over by ret_copy, also
 * on failure: free it with elf_copy_free(). library is an absolute path, note the whole ELF note.
 * Reads and writes nothing else; bytes may be anything. Returns 0; -EINVAL with the reason in
 * message, which reads as what follows the file's name; -ENOMEM.
 */
int elf_copy_make(uint8_t *bytes, size_t n_bytes, const char *library, const void *note,
		  size_t n_note_bytes, struct elf_copy *ret_copy,
		  char message[static COPY_MESSAGE_BYTES]);

void elf_copy_free(struct elf_copy *copy);

/*
 * Read the note of the copy at path. *ret_bytes holds what ret_note points into; the caller frees
 * it. Returns 0, a negative errno of open(2), -ENOENT: it is no copy, -EBADMSG: the note is
 * damaged.
 */
struct copy_note;
int copy_note_read(const char *path, void **ret_bytes, struct copy_note *ret_note);
