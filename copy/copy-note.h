#pragma once
/* Reading the note of an instrumented copy: schemas/copy.h. Also linked into programs of others. */
#include <stddef.h>
#include <stdint.h>

/* Strings within the bytes that were parsed. */
struct copy_note {
	const char *memsight; /* the absolute path of the program that records */
	const char *original; /* absolute path */
	const char *build_id; /* of the original, hex; "": it has none */
	const char *words; /* the first option; copy_note_next() for the others */
	uint32_t n_words;
};

/*
 * Parse a note at the beginning of n_bytes. Nothing is copied, allocated or called. Returns 0,
 * -ENOENT: another note, or none; -EBADMSG: cut off, or of another version.
 */
int copy_note_parse(const void *bytes, size_t n_bytes, struct copy_note *ret_note);

/* The word behind this one; valid n_words - 1 times. */
const char *copy_note_next(const char *word);
