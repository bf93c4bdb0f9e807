#pragma once
/*
 * A touch: an address that a sample accessed, with who owned it then; and the sample itself. What
 * the import makes, what rows of the database become again, and what every sum is fed with.
 */
#include <stdbool.h>
#include <stdint.h>

#include "schemas/trace-format.h"
#include "store/source-measures.h"

/* Numbers of owner.def. */
enum owner_kind {
#define OWNER(name, number, meaning) OWNER_##name = number,
#include "schemas/owner.def"
#undef OWNER
};

enum owner_phase {
	OWNER_IN_USE,
	OWNER_ALLOCATING,
	OWNER_FREEING,
	OWNER_IN_KERNEL, /* the kernel ran while an instruction that accesses it was stopped */
};

/* touch.owner_kind, owner_id, phase. id 0: none. */
struct owner {
	enum owner_kind kind;
	enum owner_phase phase;
	int64_t id;
	uint32_t site; /* of heap blocks, named ones too, as owner_block.site; else 0 */
};

/* What a touch is in pictures. */
enum picture_direction {
	PICTURE_READ,
	PICTURE_WRITE,
	PICTURE_UNKNOWN,
	PICTURE_FAULT,
	PICTURE_NOWHERE, /* it has no place there, or another touch of its sample has */
};

/* Which tables show a row of the chunks of touches (compact/compact.h). */
enum touch_shown {
	SHOWN_TOUCH = 1,
	SHOWN_SAMPLE = 2, /* the first of its sample */
	SHOWN_DETAIL = 4,
};

/* From 0 up to below 1, by a number: splitmix64's mixing, as in statistics.c. */
static inline double touch_draw(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/*
 * A sample of CPU time has touches with parts of its time: in pictures it is at one of them, drawn
 * by their shares, or nowhere, where that one has no address. *before: the sum of those before.
 */
static inline bool touch_is_drawn(int64_t sample, double share, double *before)
{
	double drawn = touch_draw((uint64_t)sample * UINT64_C(0x9e3779b97f4a7c15)), from = *before;

	*before += share;
	return from <= drawn && drawn < *before;
}

/*
 * A touch as it is written. share is of the sample's weight. Those of one sample follow each other.
 */
struct touch {
	int64_t sample; /* sample.id */
	int64_t time_ns;
	int64_t weight;
	int64_t process_row; /* 0: not known */
	int64_t thread_row;
	uint64_t address;
	int64_t size; /* < 0: not known */
	int8_t is_write; /* < 0: not known */
	bool is_resolved; /* the address is known */
	int64_t frame; /* of the accessing instruction; 0: not known */
	enum source_measures measures; /* its source */
	enum trace_role role;
	double share;
	struct owner owner;
	bool is_access; /* hardware sampled it: its unit is accesses, not time */
	int64_t source_row;
	int64_t data_src; /* 0: none */
	uint32_t latency; /* cycles; 0: not told */
	uint32_t node_number; /* of a page fault: the page's node + 1; 0: not told */
	enum picture_direction picture;
};

/* A sample as it is written. */
struct sample_event {
	enum source_measures measures; /* its source */
	int64_t time_ns;
	int64_t weight;
	int64_t thread_row; /* 0: not known */
	uint32_t thread; /* number; 0: not known */
	int64_t stack; /* stack.id of its own call stack; 0: none */
};

/* Whether samples of this source.kind are accesses: enum trace_sample_kind. */
static inline bool sample_kind_is_access(int kind)
{
	return kind == TRACE_SAMPLE_ACCESS || kind == TRACE_SAMPLE_IBS || kind == TRACE_SAMPLE_SPE;
}
