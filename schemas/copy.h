#pragma once
/*
 * The note that `memsight instrument' puts into a copy of a program or library, and what starts
 * the recording reads. It lies at the beginning of the file's last PT_LOAD segment, and in the
 * section .note.memsight: an ELF note (elf(5)) named COPY_NOTE_NAME of type COPY_NOTE_TYPE. Its
 * content is struct copy_head, then strings that end with NUL: the path of memsight, the path of
 * the original, its build-id in hex ("": it has none), and n_words options of `memsight record'.
 */
#include <stdint.h>

#define COPY_NOTE_NAME	  "memsight" /* 9 bytes with its NUL, filled up to 12 */
#define COPY_NOTE_TYPE	  0x79706f63u /* "copy" */
#define COPY_NOTE_SECTION ".note.memsight"
#define COPY_VERSION	  1u
#define COPY_MAX_BYTES	  (64u << 10) /* of a note */

struct copy_head {
	uint32_t version;
	uint32_t n_words;
};

/* The library that the copy needs, and that starts the recording. */
#define COPY_LIBRARY "libmemsight_copy.so"

/*
 * In the environment of what a copy runs under: it must not start another recording. A user sets
 * it to `off' to have the copy run unrecorded.
 */
#define COPY_ENV     "MEMSIGHT_COPIES"
#define COPY_STARTED "started"
