#pragma once
/*
 * Shared by cfi.c and cfi-entry.c: the entries of an .eh_frame, and the bytes in them. As cfi.h:
 * reads only the module's mapped bytes, allocates nothing, signal safe.
 */
#include <string.h>

#include "tracealloc/stack/cfi.h"

/* Bytes that are read in order; reading past the end gives zeros and sets failed. */
struct ta_cfi_cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

static inline uint64_t ta_cfi_bytes(struct ta_cfi_cursor *cursor, unsigned n_bytes)
{
	uint64_t value = 0;

	if ((size_t)(cursor->end - cursor->at) < n_bytes) {
		cursor->failed = true;
		cursor->at = cursor->end;
		return 0;
	}
	memcpy(&value, cursor->at, n_bytes);
	cursor->at += n_bytes;
	return value;
}

/* LEB128; ret_sign: the bits above those that it has, where the highest of them is set. */
static inline uint64_t ta_cfi_leb(struct ta_cfi_cursor *cursor, uint64_t *ret_sign)
{
	uint64_t value = 0;
	uint64_t byte;
	unsigned shift = 0;

	do {
		byte = ta_cfi_bytes(cursor, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	*ret_sign = shift < 64 && (byte & 0x40) ? ~UINT64_C(0) << shift : 0;
	return value;
}

static inline uint64_t ta_cfi_uleb(struct ta_cfi_cursor *cursor)
{
	uint64_t sign;

	return ta_cfi_leb(cursor, &sign);
}

static inline int64_t ta_cfi_sleb(struct ta_cfi_cursor *cursor)
{
	uint64_t sign;
	uint64_t value = ta_cfi_leb(cursor, &sign);

	return (int64_t)(value | sign);
}

static inline void ta_cfi_skip(struct ta_cfi_cursor *cursor, uint64_t n_bytes)
{
	if (n_bytes > (size_t)(cursor->end - cursor->at)) {
		cursor->failed = true;
		cursor->at = cursor->end;
		return;
	}
	cursor->at += n_bytes;
}

/* What the FDEs of a function's compiler have in common. */
struct ta_cfi_cie {
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t encoding; /* of addresses in its FDEs */
	bool has_augmentation;
	bool is_signal_frame;
	struct ta_cfi_cursor instructions;
};

/* What an FDE says: of code from start on, and how. */
struct ta_cfi_entry {
	struct ta_cfi_cie cie;
	uintptr_t start;
	struct ta_cfi_cursor instructions;
};

/* An address in an encoding (DW_EH_PE_*); one that is not understood gives 0 and sets failed. */
uint64_t ta_cfi_pointer(struct ta_cfi_cursor *cursor, uint8_t encoding);

/*
 * The entry for the code at pc. 0, -ENOENT when the module says nothing about pc, -EBADMSG when
 * what it says cannot be read.
 */
int ta_cfi_entry_find(const struct ta_module *module, uintptr_t pc, struct ta_cfi_entry *ret_entry);
