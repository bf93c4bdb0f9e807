#pragma once
/* The bytes of a compressed column, shared by encode.c and decode.c: a head, and what follows. */
#include <stdint.h>

/*
 * Behind the head: the dictionary (n_dictionary values of 8 bytes, in planes as the codes), then
 * n_planes planes of the codes, from the lowest byte up. A plane is a uint32_t with its compressed
 * size and that many bytes of one zstd frame.
 */
struct chunk_column_head {
	uint32_t checksum; /* trace_checksum() of all that follows it */
	uint32_t n_bytes; /* with the head */
	uint32_t n_rows;
	uint8_t coding; /* enum chunk_coding */
	uint8_t n_planes; /* 0 .. 8; 0: all codes are 0 */
	uint8_t flags;
	uint8_t shift; /* of the codes, to the left */
	uint8_t other; /* RELATIVE: the other column */
	uint8_t zero[5];
	uint16_t n_dictionary; /* not 0 with DICTIONARY */
	uint64_t base; /* added to the codes, but for DICTIONARY */
};
_Static_assert(sizeof(struct chunk_column_head) == 32, "what is on disk stays");

/* Loops over rows that gain from wider vectors, where the processor has them. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                \
	!defined(__SANITIZE_THREAD__)
#define wide __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define wide
#endif

#define CHUNK_HAS_NULL	   1u /* code 0 is NULL, the others are one more */
#define CHUNK_CHECKED_FROM sizeof(uint32_t) /* where the checked bytes begin */
