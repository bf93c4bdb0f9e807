#pragma once
/*
 * The columns of an EVENTS frame (schemas/trace-format.h): encode appends events one by one,
 * decode turns a whole body back into events.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "schemas/ring.h"
#include "schemas/trace-format.h"

/* Column buffers of one thread. All zero is empty; trace_columns_finish() frees. */
struct trace_columns {
	uint8_t *next[TRACE_COLUMN_COUNT]; /* where the next value goes */
	uint8_t *start[TRACE_COLUMN_COUNT]; /* inside memory, room for capacity events */
	uint64_t ticks; /* of the event before */
	uint64_t address; /* of the event before */
	uint32_t n_events;
	uint32_t capacity;
	struct trace_events_head head; /* made by trace_columns_parts() */
	uint8_t *memory;
};

/* Make room for so many events (more than there are), keeping what is in. 0 or -ENOMEM. */
int trace_columns_reserve(struct trace_columns *columns, uint32_t capacity);

/* Free the memory; the columns are then empty and can be used again. */
void trace_columns_finish(struct trace_columns *columns);

/* Forget the events, keep the memory. */
void trace_columns_clear(struct trace_columns *columns);

/* Append an event; there must be room (n_events < capacity) and op must be below 16. */
void trace_columns_append(struct trace_columns *columns, const struct trace_event *event);

/* Whether a record of the pool is a malloc or free of one slot, without flags. */
static inline bool trace_is_plain(uint64_t head)
{
	uint8_t op = RING_HEAD_OP(head);

	return (op == TRACE_OP_ALLOC || op == TRACE_OP_FREE) && RING_HEAD_SLOTS(head) == 1 &&
	       RING_HEAD_CALL(head) >> 6 == 0;
}

/* Records of one slot, one behind the other in the pool. */
struct trace_records {
	const struct ring_record *first;
	uint32_t n;
	uint64_t least_ticks; /* that a stamp may have */
	uint64_t most_ticks;
	uint64_t last_ticks; /* of the last one that was taken; stays where none was */
};

/*
 * Append events as the programs' hooks have written them, behind one that is there: as many records
 * from the first on as are whole and plain, have a stamp that they may have, and have room. Each
 * word is read once, as the program may change it meanwhile. Returns how many: the next one is for
 * trace_columns_append(), or is not there yet.
 */
uint32_t trace_columns_append_records(struct trace_columns *columns, struct trace_records *records);

#define TRACE_COLUMNS_PARTS (1 + TRACE_COLUMN_COUNT)

/*
 * The body as parts: the head, then each column. They point into columns until it changes.
 * Returns the sum of their bytes.
 */
size_t trace_columns_parts(struct trace_columns *columns, struct iovec parts[TRACE_COLUMNS_PARTS]);

/*
 * The number of events that a body says it holds, after checking that the columns fill it exactly
 * and that they can hold so many. Returns a count of at most TRACE_FRAME_MAX_EVENTS, or -EBADMSG.
 */
int trace_columns_check(const uint8_t *body, size_t n_bytes);

/*
 * Decode a checked body into room for that many events. TRACE_VARINT_SLACK bytes behind the body
 * must be readable. Returns 0, or -EBADMSG when the columns are not well formed.
 */
int trace_columns_decode(const uint8_t *body, struct trace_event *events);

/* A column while it is read; next may pass end by less than TRACE_VARINT_SLACK. */
struct trace_column_at {
	const uint8_t *next;
	const uint8_t *end;
};

/* How far a body was read. */
struct trace_columns_place {
	struct trace_column_at columns[TRACE_COLUMN_COUNT];
	uint64_t ticks; /* of the event before */
	uint64_t address;
	uint32_t n_left; /* events */
};

/* The begin of a checked body, which must stay. */
void trace_columns_begin(const uint8_t *body, struct trace_columns_place *ret_place);

/*
 * Decode at most so many more events. Returns how many, 0 behind the last, or -EBADMSG when the
 * columns are not well formed, which trace_columns_verify() tells beforehand.
 */
int trace_columns_read(struct trace_columns_place *place, struct trace_event *events, size_t max);

/*
 * Whether trace_columns_decode() would take a checked body, in a tenth of its time. Returns 0 or
 * -EBADMSG.
 */
int trace_columns_verify(const uint8_t *body);
