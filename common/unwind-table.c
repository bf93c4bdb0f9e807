#include "common/unwind-table.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdbool.h>
#include <string.h>

#define VERSION	       1
#define COUNT_UDATA4   0x03 /* DW_EH_PE_udata4 */
#define TABLE_DATAREL  0x3b /* DW_EH_PE_datarel | DW_EH_PE_sdata4: from the header on */
#define FORM(encoding) ((encoding)&7) /* of .eh_frame's address, which is not needed */
#define FORM_4	       3
#define FORM_8	       4

struct entry {
	int32_t begin;
	int32_t description;
};

uint64_t unwind_table_begin(uint64_t header, uint64_t address, unwind_read read, void *user)
{
	uint8_t head[4];
	uint32_t n;
	struct entry entry;
	uint64_t low = 0, found = 0;

	if (read(user, header, head, sizeof(head)) < sizeof(head) || head[0] != VERSION ||
	    head[2] != COUNT_UDATA4 || head[3] != TABLE_DATAREL ||
	    (FORM(head[1]) != FORM_4 && FORM(head[1]) != FORM_8))
		return 0;
	uint64_t table = header + sizeof(head) + (FORM(head[1]) == FORM_4 ? 4 : 8);
	if (read(user, table, &n, sizeof(n)) < sizeof(n))
		return 0;
	table += sizeof(n);
	for (uint64_t high = n; low < high;) {
		uint64_t middle = (low + high) / 2;

		if (read(user, table + middle * sizeof(entry), &entry, sizeof(entry)) <
		    sizeof(entry))
			return 0;
		uint64_t begin = header + (uint64_t)(int64_t)entry.begin;
		if (begin > address) {
			high = middle;
			continue;
		}
		low = middle + 1;
		found = begin;
	}
	return found;
}

/* ---- Without that table ---- */

/*
 * How addresses of a CIE's rows are written; DW_EH_PE_omit: it does not say. LSB 5.0, 10.6.1.1:
 * letters of the augmentation say what its data are, of which R is that.
 */
static uint8_t encoding_of(const Dwarf_CFI_Entry *entry)
{
	const char *letter = dwarf_cfi_cie_p(entry) ? entry->cie.augmentation : "";
	const uint8_t *data = entry->cie.augmentation_data;
	size_t n = letter[0] == 'z' ? entry->cie.augmentation_data_size : 0;

	for (letter += letter[0] == 'z'; n > 0 && *letter; letter++) {
		size_t n_bytes = *letter == 'P'	  ? (data[0] & 7) == 3 ? 5 : 9
				 : *letter == 'L' ? 1
						  : 0;

		if (*letter == 'R')
			return data[0];
		if (n_bytes > n)
			break;
		data += n_bytes;
		n -= n_bytes;
	}
	return DW_EH_PE_omit;
}

/* The address that a row begins with, which lies in the file at this address. */
static bool read_begin(const Dwarf_CFI_Entry *entry, uint8_t encoding, uint64_t address,
		       uint64_t *ret_begin)
{
	size_t n = (size_t)(entry->fde.end - entry->fde.start);
	int32_t offset;

	switch (encoding) {
	case DW_EH_PE_absptr:
		if (n < sizeof(*ret_begin))
			return false;
		memcpy(ret_begin, entry->fde.start, sizeof(*ret_begin));
		return true;
	case DW_EH_PE_pcrel | DW_EH_PE_sdata4:
		if (n < sizeof(offset))
			return false;
		memcpy(&offset, entry->fde.start, sizeof(offset));
		*ret_begin = address + (uint64_t)(int64_t)offset;
		return true;
	default:
		return false;
	}
}

static int read_rows(Elf *elf, Elf_Data *data, uint64_t address, unwind_visit_fn visit, void *user)
{
	Dwarf_CFI_Entry entry, parent;
	Dwarf_Off at = 0, next, after;
	GElf_Ehdr head;
	uint64_t begin;
	int r = 0;

	if (!gelf_getehdr(elf, &head))
		return 0;
	for (; r == 0 && dwarf_next_cfi(head.e_ident, data, true, at, &next, &entry) == 0;
	     at = next) {
		if (dwarf_cfi_cie_p(&entry) ||
		    dwarf_next_cfi(head.e_ident, data, true, entry.fde.CIE_pointer, &after,
				   &parent) != 0)
			continue;
		uint64_t where =
			address + (uint64_t)(entry.fde.start - (const uint8_t *)data->d_buf);
		if (read_begin(&entry, encoding_of(&parent), where, &begin))
			r = visit(user, begin, address + at);
	}
	return r;
}

int unwind_each_begin(Elf *elf, unwind_visit_fn visit, void *user)
{
	Elf_Scn *section = NULL;
	size_t names = 0;
	int r = 0;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return 0;
	while (r == 0 && (section = elf_nextscn(elf, section))) {
		GElf_Shdr head;
		const char *name =
			gelf_getshdr(section, &head) ? elf_strptr(elf, names, head.sh_name) : NULL;
		Elf_Data *data =
			name && strcmp(name, ".eh_frame") == 0 && head.sh_type != SHT_NOBITS
				? elf_getdata(section, NULL)
				: NULL;

		if (data && data->d_buf)
			r = read_rows(elf, data, head.sh_addr, visit, user);
	}
	return r;
}
