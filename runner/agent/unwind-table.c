#include "runner/agent/unwind-table.h"

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"

#define HEAD_BYTES  12u
#define EXTENDED    UINT32_MAX /* a length of 64 bits follows, which nobody uses in .eh_frame */
#define PC_RELATIVE (DW_EH_PE_pcrel | DW_EH_PE_sdata4)

/* .eh_frame of the file. */
struct frames {
	const uint8_t *bytes;
	size_t n_bytes;
	uint64_t address;
};

struct row {
	uint64_t start; /* of the code */
	uint64_t entry; /* of its rules */
};

struct rows {
	struct row *items;
	size_t n;
	size_t n_allocated;
};

static uint32_t word_at(const struct frames *frames, size_t at)
{
	uint32_t word;

	memcpy(&word, frames->bytes + at, sizeof(word));
	return word;
}

/*
 * Are addresses of the entries of this CIE relative to themselves, in 4 bytes? So compilers for
 * x86-64 write them. Its augmentation says so: "zR", perhaps with others before.
 */
static bool is_usual(const struct frames *frames, size_t cie)
{
	const char *letters = (const char *)frames->bytes + cie + 9;
	size_t n = cie + 9 < frames->n_bytes ? strnlen(letters, frames->n_bytes - cie - 9) : 0;
	size_t at = cie + 9 + n + 1;

	/* Then: two factors, the register and the length of what follows, each of one byte. */
	if (n < 2 || letters[0] != 'z' || at + 5 > frames->n_bytes)
		return false;
	at += 4;
	for (const char *letter = letters + 1; *letter && at < frames->n_bytes; letter++) {
		if (*letter == 'R')
			return frames->bytes[at] == PC_RELATIVE;
		if (*letter == 'L')
			at += 1;
		else if (*letter == 'P') /* its encoding; the address of a routine, of 4 or 8 */
			at += 1 + ((frames->bytes[at] & 0x0f) == DW_EH_PE_absptr ? 8 : 4);
		else if (*letter != 'S')
			return false;
	}
	return false;
}

/* One entry of n bytes behind its length. */
static int add_entry(const struct frames *frames, size_t at, size_t n, struct rows *rows)
{
	uint32_t back = word_at(frames, at + 4);
	struct row *row;

	if (back == 0 || n < 12 || back > at + 4 || !is_usual(frames, at + 4 - back))
		return 0;
	if (grow_array(&rows->items, rows->n, &rows->n_allocated, sizeof(*rows->items)) < 0)
		return -ENOMEM;
	row = &rows->items[rows->n++];
	row->entry = frames->address + at;
	row->start = frames->address + at + 8 + (uint64_t)(int64_t)(int32_t)word_at(frames, at + 8);
	return 0;
}

static int list_rows(const struct frames *frames, struct rows *rows)
{
	size_t at = 0;
	int r = 0;

	while (r == 0 && at + 8 <= frames->n_bytes) {
		uint32_t n = word_at(frames, at);

		if (n == 0 || n == EXTENDED || n < 4 || n > frames->n_bytes - at - 4)
			break;
		r = add_entry(frames, at, n, rows);
		at += 4 + n;
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static bool find_frames(Elf *elf, struct frames *ret_frames)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name;
		Elf_Data *data;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		if (!name || strcmp(name, ".eh_frame") != 0)
			continue;
		data = elf_rawdata(section, NULL);
		if (!data || !data->d_buf)
			return false;
		*ret_frames = (struct frames){ data->d_buf, data->d_size, header.sh_addr };
		return true;
	}
	return false;
}

static bool has_table(Elf *elf)
{
	GElf_Phdr header;
	size_t n = 0;

	elf_getphdrnum(elf, &n);
	for (size_t i = 0; i < n; i++)
		if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_GNU_EH_FRAME)
			return true;
	return false;
}

static int write_table(const struct rows *rows, int64_t move, uint8_t **ret_bytes, size_t *ret_n)
{
	/* Where .eh_frame begins nobody asks. */
	const uint8_t head[HEAD_BYTES] = { 1, PC_RELATIVE, DW_EH_PE_udata4,
					   DW_EH_PE_datarel | DW_EH_PE_sdata4 };
	size_t n_bytes = sizeof(head) + rows->n * 8;
	auto_free uint8_t *bytes = malloc(n_bytes);
	uint32_t n = (uint32_t)rows->n;

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, head, sizeof(head));
	memcpy(bytes + sizeof(head) - sizeof(n), &n, sizeof(n));
	for (size_t i = 0; i < rows->n; i++) {
		int64_t start = (int64_t)rows->items[i].start + move;
		int64_t entry = (int64_t)rows->items[i].entry + move;
		int32_t words[2] = { (int32_t)start, (int32_t)entry };

		if (words[0] != start || words[1] != entry)
			return -ERANGE;
		memcpy(bytes + sizeof(head) + i * 8, words, sizeof(words));
	}
	*ret_bytes = steal_ptr(&bytes);
	*ret_n = n_bytes;
	return 0;
}

int unwind_table_make(const char *path, uint64_t bias, uint64_t to, uint8_t **ret_bytes,
		      size_t *ret_n)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct frames frames = { 0 };
	struct rows rows = { 0 };
	Elf *elf;
	int r;

	if (fd < 0)
		return -errno;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	*ret_bytes = NULL;
	*ret_n = 0;
	if (!elf || has_table(elf) || !find_frames(elf, &frames)) {
		elf_end(elf);
		return 0;
	}
	r = list_rows(&frames, &rows);
	if (r == 0 && rows.n > 0) {
		qsort(rows.items, rows.n, sizeof(*rows.items), compare);
		r = write_table(&rows, (int64_t)(bias - to), ret_bytes, ret_n);
	}
	free(rows.items);
	elf_end(elf);
	return r;
}
