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
#include "common/unwind-table.h"

#define HEAD_BYTES  12u
#define PC_RELATIVE (DW_EH_PE_pcrel | DW_EH_PE_sdata4)

struct row {
	uint64_t start; /* of the code */
	uint64_t entry; /* of its rules */
};

struct rows {
	struct row *items;
	size_t n;
	size_t n_allocated;
};

static int add_row(void *user, uint64_t begin, uint64_t entry)
{
	struct rows *rows = user;

	return array_add(rows->items, rows->n, rows->n_allocated, (struct row){ begin, entry });
}

DEFINE_ORDER(compare, struct row, BY(start));

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
	struct rows rows = { 0 };

	if (fd < 0)
		return -errno;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	*ret_bytes = NULL;
	*ret_n = 0;
	if (!elf || has_table(elf)) {
		elf_end(elf);
		return 0;
	}
	int r = unwind_each_begin(elf, add_row, &rows);
	if (r == 0 && rows.n > 0) {
		qsort(rows.items, rows.n, sizeof(*rows.items), compare);
		r = write_table(&rows, (int64_t)(bias - to), ret_bytes, ret_n);
	}
	free(rows.items);
	elf_end(elf);
	return r;
}
