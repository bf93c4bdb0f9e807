#pragma once
/*
 * A program for the decoder: one piece of code, one of constant data, and one of data that was
 * read.
 */
#include <stdint.h>
#include <string.h>

#include "decode/decode.h"

#define FLAT_CODE_START 0x400000u

struct flat {
	const void *code; /* at FLAT_CODE_START */
	size_t code_bytes;
	uint64_t data_start;
	const void *data;
	size_t data_bytes;
	uint64_t live_start; /* data that may change */
	const void *live;
	size_t live_bytes;
	unsigned n_code_reads;
};

static inline size_t flat_copy(const void *from, size_t from_bytes, uint64_t offset, void *bytes,
			       size_t n_bytes)
{
	if (offset >= from_bytes)
		return 0;
	if (n_bytes > from_bytes - offset)
		n_bytes = from_bytes - offset;
	memcpy(bytes, (const uint8_t *)from + offset, n_bytes);
	return n_bytes;
}

static inline size_t flat_code(void *user, uint32_t process, uint64_t address, uint64_t time,
			       void *bytes, size_t n_bytes)
{
	struct flat *flat = user;

	(void)process;
	(void)time;
	flat->n_code_reads++;
	return flat_copy(flat->code, flat->code_bytes, address - FLAT_CODE_START, bytes, n_bytes);
}

static inline size_t flat_data(void *user, uint32_t process, uint64_t address, uint64_t time,
			       void *bytes, size_t n_bytes)
{
	struct flat *flat = user;

	(void)process;
	(void)time;
	return flat_copy(flat->data, flat->data_bytes, address - flat->data_start, bytes, n_bytes);
}

static inline size_t flat_live(void *user, uint32_t process, uint64_t address, uint64_t time,
			       void *bytes, size_t n_bytes)
{
	struct flat *flat = user;

	(void)process;
	(void)time;
	return flat_copy(flat->live, flat->live_bytes, address - flat->live_start, bytes, n_bytes);
}

static inline struct decode_memory flat_memory(struct flat *flat)
{
	return (struct decode_memory){
		.code = flat_code, .constant = flat_data, .data = flat_live, .user = flat
	};
}
