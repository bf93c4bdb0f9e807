#include "copy/copy-note.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "schemas/copy.h"

/* The string at *at, which then is what follows it; NULL: it does not end before end. */
static const char *take_string(const char **at, const char *end)
{
	const char *string = *at;
	const char *nul = string < end ? memchr(string, '\0', (size_t)(end - string)) : NULL;

	if (nul)
		*at = nul + 1;
	return nul ? string : NULL;
}

int copy_note_parse(const void *bytes, size_t n_bytes, struct copy_note *ret_note)
{
	static const char name[12] = COPY_NOTE_NAME;
	struct copy_head head;
	Elf64_Nhdr note;
	const char *at = bytes;

	if (n_bytes < sizeof(note) + sizeof(name))
		return -ENOENT;
	memcpy(&note, at, sizeof(note));
	at += sizeof(note);
	if (note.n_namesz != sizeof(COPY_NOTE_NAME) || note.n_type != COPY_NOTE_TYPE ||
	    memcmp(at, name, sizeof(name)) != 0)
		return -ENOENT;
	at += sizeof(name);
	n_bytes -= sizeof(note) + sizeof(name);
	if (note.n_descsz > n_bytes || note.n_descsz < sizeof(head))
		return -EBADMSG;
	const char *end = at + note.n_descsz;
	memcpy(&head, at, sizeof(head));
	at += sizeof(head);
	if (head.version != COPY_VERSION)
		return -EBADMSG;
	ret_note->memsight = take_string(&at, end);
	ret_note->original = take_string(&at, end);
	ret_note->build_id = take_string(&at, end);
	if (!ret_note->memsight || !ret_note->original || !ret_note->build_id)
		return -EBADMSG;
	ret_note->words = at;
	ret_note->n_words = head.n_words;
	for (uint32_t i = 0; i < head.n_words; i++) {
		if (!take_string(&at, end))
			return -EBADMSG;
	}
	return 0;
}

const char *copy_note_next(const char *word)
{
	return word + strlen(word) + 1;
}
