#include "tracealloc/stack/cfi-entry.h"

#include <errno.h>

/* Pointer encodings: low half the format, then what it is relative to. */
enum encoding {
	ENCODING_ABSOLUTE = 0x00,
	ENCODING_UDATA4 = 0x03,
	ENCODING_SDATA4 = 0x0b,
	ENCODING_SDATA8 = 0x0c,
	ENCODING_UDATA8 = 0x04,
	ENCODING_PCREL = 0x10,
	ENCODING_TABLE = 0x3b, /* of the binary search table: sdata4, relative to its start */
};

/* A number in the format of an encoding; without what it is relative to. */
static uint64_t read_format(struct ta_cfi_cursor *cursor, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case ENCODING_UDATA4:
		return ta_cfi_bytes(cursor, 4);
	case ENCODING_SDATA4:
		return (uint64_t)(int64_t)(int32_t)ta_cfi_bytes(cursor, 4);
	case ENCODING_ABSOLUTE:
	case ENCODING_UDATA8:
	case ENCODING_SDATA8:
		return ta_cfi_bytes(cursor, 8);
	default:
		cursor->failed = true;
		return 0;
	}
}

uint64_t ta_cfi_pointer(struct ta_cfi_cursor *cursor, uint8_t encoding)
{
	uint64_t here = (uintptr_t)cursor->at;
	uint64_t value = read_format(cursor, encoding);

	switch (encoding & 0x70) {
	case 0:
		return value;
	case ENCODING_PCREL:
		return value + here;
	default:
		cursor->failed = true;
		return 0;
	}
}

/* The body of the entry (CIE or FDE) at address; false when it does not lie inside the module. */
static bool open_entry(const struct ta_module *module, uintptr_t address,
		       struct ta_cfi_cursor *ret_body)
{
	struct ta_cfi_cursor cursor = { (const uint8_t *)address, (const uint8_t *)module->end,
					false };

	if (address < module->start || address >= module->end)
		return false;
	uint64_t length = ta_cfi_bytes(&cursor, 4);
	if (length < 4 || length > (size_t)(cursor.end - cursor.at))
		return false;
	cursor.end = cursor.at + length;
	*ret_body = cursor;
	return true;
}

/* The letters of the augmentation behind 'z' say what its data hold. */
static void read_augmentation(struct ta_cfi_cursor *body, const char *letters,
			      struct ta_cfi_cie *cie)
{
	for (; *letters; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->encoding = (uint8_t)ta_cfi_bytes(body, 1);
			break;
		case 'L':
			ta_cfi_bytes(body, 1);
			break;
		case 'P':
			encoding = (uint8_t)ta_cfi_bytes(body, 1);
			read_format(body, encoding);
			break;
		case 'S':
			cie->is_signal_frame = true;
			break;
		default: /* 'B': no data */
			break;
		}
	}
}

static bool read_cie(const struct ta_module *module, uintptr_t address, struct ta_cfi_cie *ret_cie)
{
	struct ta_cfi_cie cie = { .encoding = ENCODING_ABSOLUTE };
	struct ta_cfi_cursor body;

	if (!open_entry(module, address, &body) || ta_cfi_bytes(&body, 4) != 0)
		return false;
	uint64_t version = ta_cfi_bytes(&body, 1);
	const char *letters = (const char *)body.at;
	while (ta_cfi_bytes(&body, 1))
		;
	cie.code_factor = ta_cfi_uleb(&body);
	cie.data_factor = ta_cfi_sleb(&body);
	if (version == 1)
		ta_cfi_bytes(&body, 1);
	else
		ta_cfi_uleb(&body);
	if (!body.failed && letters[0] == 'z') {
		uint64_t n_bytes = ta_cfi_uleb(&body);
		struct ta_cfi_cursor data = body;

		cie.has_augmentation = true;
		read_augmentation(&data, letters + 1, &cie);
		ta_cfi_skip(&body, n_bytes);
	}
	cie.instructions = body;
	*ret_cie = cie;
	return !body.failed;
}

/* The address of the FDE that begins last at or below pc; 0: none. By the search table. */
static uintptr_t search(const struct ta_module *module, uintptr_t pc)
{
	uintptr_t base = module->eh_frame_hdr;
	struct ta_cfi_cursor cursor = { (const uint8_t *)base,
					(const uint8_t *)module->eh_frame_hdr_end, false };
	uint64_t low = 0;

	if (base == 0 || base >= module->eh_frame_hdr_end)
		return 0;
	uint64_t head = ta_cfi_bytes(&cursor, 4);
	/* Version 1; .eh_frame's address (not needed), udata4 count, the usual table. */
	if ((head & 0xff) != 1 || (head >> 16 & 0xff) != ENCODING_UDATA4 ||
	    head >> 24 != ENCODING_TABLE)
		return 0;
	read_format(&cursor, (uint8_t)(head >> 8));
	uint64_t n = ta_cfi_bytes(&cursor, 4);
	if (cursor.failed || n > (size_t)(cursor.end - cursor.at) / 8)
		return 0;
	for (uint64_t high = n; low < high;) {
		uint64_t middle = (low + high) / 2;
		int32_t start;

		memcpy(&start, cursor.at + middle * 8, sizeof(start));
		if (base + (uintptr_t)(intptr_t)start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	ta_cfi_skip(&cursor, (low - 1) * 8 + 4);
	return base + (uintptr_t)(intptr_t)(int32_t)ta_cfi_bytes(&cursor, 4);
}

int ta_cfi_entry_find(const struct ta_module *module, uintptr_t pc, struct ta_cfi_entry *ret_entry)
{
	uintptr_t fde = search(module, pc);
	struct ta_cfi_cursor body;
	struct ta_cfi_entry entry;

	if (!fde)
		return -ENOENT;
	if (!open_entry(module, fde, &body))
		return -EBADMSG;
	uintptr_t cie_address = (uintptr_t)body.at;
	cie_address -= ta_cfi_bytes(&body, 4);
	if (!read_cie(module, cie_address, &entry.cie))
		return -EBADMSG;
	entry.start = ta_cfi_pointer(&body, entry.cie.encoding);
	uint64_t range = read_format(&body, entry.cie.encoding & 0x0f);
	if (pc < entry.start || pc - entry.start >= range)
		return -ENOENT;
	if (entry.cie.has_augmentation)
		ta_cfi_skip(&body, ta_cfi_uleb(&body));
	if (body.failed)
		return -EBADMSG;
	entry.instructions = body;
	*ret_entry = entry;
	return 0;
}
