#include "trace/columns.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "trace/varint.h"

/* The most bytes that one event can take in a column. */
static const uint8_t column_width[TRACE_COLUMN_COUNT] = {
	[TRACE_COLUMN_CONTROL] = 1, [TRACE_COLUMN_CALL] = 1,  [TRACE_COLUMN_TICKS] = 10,
	[TRACE_COLUMN_ADDRESS] = 9, [TRACE_COLUMN_SIZE] = 10, [TRACE_COLUMN_STACK] = 5,
	[TRACE_COLUMN_EXTRA] = 45, /* mask, low, flags of 3, four numbers of 10 */
};

static size_t n_column_bytes(const struct trace_columns *columns, unsigned column)
{
	return (size_t)(columns->next[column] - columns->start[column]);
}

int trace_columns_reserve(struct trace_columns *columns, uint32_t capacity)
{
	size_t bytes = 0;
	for (unsigned i = 0; i < TRACE_COLUMN_COUNT; i++)
		bytes += (size_t)capacity * column_width[i] + TRACE_VARINT_SLACK;

	/*
	 * Never touched as a whole: large ones come from mmap, and most values are one or two
	 * bytes.
	 */
	uint8_t *memory = malloc(bytes);
	if (!memory)
		return -ENOMEM;

	uint8_t *start = memory;
	for (unsigned i = 0; i < TRACE_COLUMN_COUNT; i++) {
		size_t used = columns->memory ? n_column_bytes(columns, i) : 0;
		if (used > 0)
			memcpy(start, columns->start[i], used);
		columns->start[i] = start;
		columns->next[i] = start + used;
		start += (size_t)capacity * column_width[i] + TRACE_VARINT_SLACK;
	}
	free(columns->memory);
	columns->memory = memory;
	columns->capacity = capacity;
	return 0;
}

void trace_columns_finish(struct trace_columns *columns)
{
	free(columns->memory);
	*columns = (struct trace_columns){ 0 };
}

void trace_columns_clear(struct trace_columns *columns)
{
	memcpy(columns->next, columns->start, sizeof(columns->next));
	columns->n_events = 0;
	columns->ticks = 0;
	columns->address = 0;
}

/* The rare fields, behind a byte that says which there are. */
static uint8_t *put_extra(uint8_t *out, const struct trace_event *event, uint8_t low)
{
	uint8_t *mask = out++;

	*mask = 0;
	if (low) {
		*mask |= TRACE_EXTRA_LOW;
		*out++ = low;
	}
	if (event->flags) {
		*mask |= TRACE_EXTRA_FLAGS;
		out = trace_varint_put_slow(out, event->flags);
	}
	if (event->begin_ticks != event->ticks) {
		*mask |= TRACE_EXTRA_BEGIN;
		out = trace_varint_put_slow(out, event->ticks - event->begin_ticks);
	}
	if (event->old_address) {
		int64_t delta = (int64_t)(event->old_address - event->address);
		*mask |= TRACE_EXTRA_OLD_ADDRESS;
		out = trace_varint_put_slow(out, trace_zigzag(delta));
	}
	if (event->old_size) {
		*mask |= TRACE_EXTRA_OLD_SIZE;
		out = trace_varint_put_slow(out, event->old_size);
	}
	if (event->detail) {
		*mask |= TRACE_EXTRA_DETAIL;
		out = trace_varint_put_slow(out, event->detail);
	}
	return out;
}

/* The four numbers that nearly each event has; size and stack are left out when they are 0. */
static inline void put_numbers(uint8_t **next, const struct trace_event *event, uint64_t ticks,
			       uint64_t address)
{
	uint8_t *at[] = { next[TRACE_COLUMN_TICKS], next[TRACE_COLUMN_ADDRESS],
			  next[TRACE_COLUMN_SIZE], next[TRACE_COLUMN_STACK] };
	uint64_t size = event->size;
	uint32_t stack_id = event->stack_id;

	if (__builtin_expect((ticks | address | size | stack_id) >> 28 == 0, 1)) {
		at[0] = trace_varint_put_short(at[0], (uint32_t)ticks, 1);
		at[1] = trace_varint_put_short(at[1], (uint32_t)address, 1);
		at[2] = trace_varint_put_short(at[2], (uint32_t)size, size != 0);
		at[3] = trace_varint_put_short(at[3], stack_id, stack_id != 0);
	} else {
		at[0] = trace_varint_put(at[0], ticks);
		at[1] = trace_varint_put(at[1], address);
		at[2] = trace_varint_put_if(at[2], size, size != 0);
		at[3] = trace_varint_put_if(at[3], stack_id, stack_id != 0);
	}
	next[TRACE_COLUMN_TICKS] = at[0];
	next[TRACE_COLUMN_ADDRESS] = at[1];
	next[TRACE_COLUMN_SIZE] = at[2];
	next[TRACE_COLUMN_STACK] = at[3];
}

void trace_columns_append(struct trace_columns *columns, const struct trace_event *event)
{
	uint8_t **next = columns->next;

	if (columns->n_events == 0)
		columns->ticks = columns->head.base_ticks = event->ticks;

	int64_t delta = (int64_t)(event->address - columns->address);
	uint64_t ticks = event->ticks - columns->ticks;
	uint8_t low = (uint8_t)(delta & 15);
	bool odd_call = event->call != trace_usual_call(event->op);
	bool extra = (low | event->flags | (event->begin_ticks ^ event->ticks) |
		      event->old_address | event->old_size | event->detail) != 0;
	bool has_stack = event->stack_id != 0;
	bool has_size = event->size != 0;

	columns->address = event->address;
	columns->ticks = event->ticks;
	columns->n_events++;
	*next[TRACE_COLUMN_CONTROL]++ =
		(uint8_t)(event->op | odd_call * TRACE_CONTROL_CALL | extra * TRACE_CONTROL_EXTRA |
			  has_stack * TRACE_CONTROL_STACK | has_size * TRACE_CONTROL_SIZE);
	*next[TRACE_COLUMN_CALL] = event->call;
	next[TRACE_COLUMN_CALL] += odd_call;
	put_numbers(next, event, ticks, trace_zigzag(delta >> 4));
	if (__builtin_expect(extra, 0))
		next[TRACE_COLUMN_EXTRA] = put_extra(next[TRACE_COLUMN_EXTRA], event, low);
}

size_t trace_columns_parts(struct trace_columns *columns, struct iovec parts[TRACE_COLUMNS_PARTS])
{
	size_t total = sizeof(columns->head);

	columns->head.n_events = columns->n_events;
	parts[0] = (struct iovec){ &columns->head, sizeof(columns->head) };
	for (unsigned i = 0; i < TRACE_COLUMN_COUNT; i++) {
		size_t n_bytes = n_column_bytes(columns, i);
		columns->head.column_bytes[i] = (uint32_t)n_bytes;
		parts[1 + i] = (struct iovec){ columns->start[i], n_bytes };
		total += n_bytes;
	}
	return total;
}

int trace_columns_check(const uint8_t *body, size_t n_bytes)
{
	struct trace_events_head head;

	if (n_bytes < sizeof(head))
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));

	uint64_t sum = sizeof(head);
	for (unsigned i = 0; i < TRACE_COLUMN_COUNT; i++)
		sum += head.column_bytes[i];
	if (sum != n_bytes || head.n_events > TRACE_FRAME_MAX_EVENTS ||
	    head.n_events != head.column_bytes[TRACE_COLUMN_CONTROL])
		return -EBADMSG;
	return (int)head.n_events;
}

/* A column while it is read; next may pass end by less than TRACE_VARINT_SLACK. */
struct cursor {
	const uint8_t *next;
	const uint8_t *end;
};

static bool get(struct cursor *cursor, uint64_t *ret_value)
{
	const uint8_t *next = trace_varint_get(cursor->next, ret_value);

	if (!next || next > cursor->end)
		return false;
	cursor->next = next;
	return true;
}

static bool get_byte(struct cursor *cursor, uint8_t *ret_value)
{
	if (cursor->next >= cursor->end)
		return false;
	*ret_value = *cursor->next++;
	return true;
}

/* Step over what a newer writer has added. */
static bool skip_more(struct cursor *cursor)
{
	uint64_t n_bytes;

	if (!get(cursor, &n_bytes) || n_bytes > (uint64_t)(cursor->end - cursor->next))
		return false;
	cursor->next += n_bytes;
	return true;
}

static bool get_extra(struct cursor *cursor, struct trace_event *event)
{
	uint64_t flags = 0, begin = 0, old_address = 0;
	uint8_t mask, low = 0;

	if (!get_byte(cursor, &mask) || ((mask & TRACE_EXTRA_LOW) && !get_byte(cursor, &low)) ||
	    ((mask & TRACE_EXTRA_FLAGS) && !get(cursor, &flags)) ||
	    ((mask & TRACE_EXTRA_BEGIN) && !get(cursor, &begin)) ||
	    ((mask & TRACE_EXTRA_OLD_ADDRESS) && !get(cursor, &old_address)) ||
	    ((mask & TRACE_EXTRA_OLD_SIZE) && !get(cursor, &event->old_size)) ||
	    ((mask & TRACE_EXTRA_DETAIL) && !get(cursor, &event->detail)) ||
	    ((mask & TRACE_EXTRA_MORE) && !skip_more(cursor)) || (mask & 0x40) || low > 15)
		return false;

	event->flags = (uint16_t)flags;
	event->address += low;
	event->begin_ticks = event->ticks - begin;
	if (mask & TRACE_EXTRA_OLD_ADDRESS)
		event->old_address = event->address + (uint64_t)trace_unzigzag(old_address);
	return true;
}

/* One event; `before` has the ticks and the address that the deltas count from. */
static bool get_event(struct cursor cursors[TRACE_COLUMN_COUNT], const struct trace_event *before,
		      struct trace_event *event)
{
	uint64_t ticks, address, stack_id = 0;
	uint8_t control = *cursors[TRACE_COLUMN_CONTROL].next++;

	if (!get(&cursors[TRACE_COLUMN_TICKS], &ticks) ||
	    !get(&cursors[TRACE_COLUMN_ADDRESS], &address))
		return false;

	*event = (struct trace_event){ .op = control & TRACE_CONTROL_OP,
				       .ticks = before->ticks + ticks };
	event->call = trace_usual_call(event->op);
	event->address = before->address + ((uint64_t)trace_unzigzag(address) << 4);
	event->begin_ticks = event->ticks;
	if ((control & TRACE_CONTROL_SIZE) && !get(&cursors[TRACE_COLUMN_SIZE], &event->size))
		return false;
	if ((control & TRACE_CONTROL_STACK) && !get(&cursors[TRACE_COLUMN_STACK], &stack_id))
		return false;
	event->stack_id = (uint32_t)stack_id;
	if ((control & TRACE_CONTROL_CALL) && !get_byte(&cursors[TRACE_COLUMN_CALL], &event->call))
		return false;
	return !(control & TRACE_CONTROL_EXTRA) || get_extra(&cursors[TRACE_COLUMN_EXTRA], event);
}

int trace_columns_decode(const uint8_t *body, struct trace_event *events)
{
	struct trace_events_head head;
	struct cursor cursors[TRACE_COLUMN_COUNT];

	memcpy(&head, body, sizeof(head));
	body += sizeof(head);
	for (unsigned i = 0; i < TRACE_COLUMN_COUNT; i++) {
		cursors[i] = (struct cursor){ body, body + head.column_bytes[i] };
		body += head.column_bytes[i];
	}

	struct trace_event first = { .ticks = head.base_ticks };
	for (uint32_t i = 0; i < head.n_events; i++) {
		if (!get_event(cursors, i > 0 ? &events[i - 1] : &first, &events[i]))
			return -EBADMSG;
	}
	for (unsigned i = 0; i < TRACE_COLUMN_COUNT; i++) {
		if (cursors[i].next != cursors[i].end)
			return -EBADMSG;
	}
	return 0;
}
