#include "common/unwind-table.h"

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
