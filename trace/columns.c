#include "trace/columns.h"

#include <errno.h>
#include <stdatomic.h>
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

/* One of four varints that are short: its four bytes are always stored. */
static inline void put_short(uint8_t **next, uint32_t varint, uint32_t n_bytes)
{
	memcpy(*next, &varint, sizeof(varint));
	*next += n_bytes;
}

/* The four numbers that nearly each event has; size and stack are left out when they are 0. */
static inline void put_numbers(uint8_t **next, uint64_t ticks, uint64_t address, uint64_t size,
			       uint32_t stack_id)
{
	if (__builtin_expect((ticks | address | size | stack_id) >> 28 == 0, 1)) {
		trace_varint_four varints, n;

		varints = trace_varint_encode_four((trace_varint_four){ (uint32_t)ticks,
									(uint32_t)address,
									(uint32_t)size, stack_id },
						   (trace_varint_four){ ~0u, ~0u, 0, 0 }, &n);
		put_short(&next[TRACE_COLUMN_TICKS], varints[0], n[0]);
		put_short(&next[TRACE_COLUMN_ADDRESS], varints[1], n[1]);
		put_short(&next[TRACE_COLUMN_SIZE], varints[2], n[2]);
		put_short(&next[TRACE_COLUMN_STACK], varints[3], n[3]);
		return;
	}
	next[TRACE_COLUMN_TICKS] = trace_varint_put(next[TRACE_COLUMN_TICKS], ticks);
	next[TRACE_COLUMN_ADDRESS] = trace_varint_put(next[TRACE_COLUMN_ADDRESS], address);
	next[TRACE_COLUMN_SIZE] = trace_varint_put_if(next[TRACE_COLUMN_SIZE], size, size != 0);
	next[TRACE_COLUMN_STACK] =
		trace_varint_put_if(next[TRACE_COLUMN_STACK], stack_id, stack_id != 0);
}

void trace_columns_append(struct trace_columns *columns, const struct trace_event *restrict event)
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
	put_numbers(next, ticks, trace_zigzag(delta >> 4), event->size, event->stack_id);
	if (__builtin_expect(extra, 0))
		next[TRACE_COLUMN_EXTRA] = put_extra(next[TRACE_COLUMN_EXTRA], event, low);
}

/*
 * Records come from another core's cache, faster than the processor guesses. Never more than there
 * are: what the program writes next must stay its own.
 */
#define RECORDS_AHEAD 48u

uint32_t trace_columns_append_records(struct trace_columns *columns, struct trace_records *records)
{
	uint8_t *next[TRACE_COLUMN_COUNT];
	uint64_t before = columns->ticks, place = columns->address;
	uint32_t i, n = columns->capacity - columns->n_events;

	if (columns->n_events == 0)
		return 0;
	n = n < records->n ? n : records->n;
	memcpy(next, columns->next, sizeof(next));
	for (i = 0; i < n; i++) {
		const volatile struct ring_record *record = &records->first[i];
		if (i + RECORDS_AHEAD < n)
			__builtin_prefetch(&records->first[i + RECORDS_AHEAD]);
		/* Pairs with the program's commit: the rest of the record is complete. */
		uint64_t head = atomic_load_explicit(&record->head, memory_order_acquire);
		uint64_t ticks = record->ticks, address = record->address, size = record->size;
		int64_t delta = (int64_t)(address - place);
		uint8_t op = RING_HEAD_OP(head), call = RING_HEAD_CALL(head);
		uint32_t stack_id = RING_HEAD_STACK_ID(head);
		bool odd_call = call != trace_usual_call(op);

		if (!trace_is_plain(head) || delta & 15 || ticks < records->least_ticks ||
		    ticks > records->most_ticks)
			break;
		*next[TRACE_COLUMN_CONTROL]++ = (uint8_t)(op | odd_call * TRACE_CONTROL_CALL |
							  (stack_id != 0) * TRACE_CONTROL_STACK |
							  (size != 0) * TRACE_CONTROL_SIZE);
		*next[TRACE_COLUMN_CALL] = call;
		next[TRACE_COLUMN_CALL] += odd_call;
		put_numbers(next, ticks - before, trace_zigzag(delta >> 4), size, stack_id);
		before = ticks;
		place = address;
	}
	memcpy(columns->next, next, sizeof(next));
	columns->ticks = before;
	columns->address = place;
	columns->n_events += i;
	if (i > 0)
		records->last_ticks = before;
	return i;
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

/* ---- Decoding ---- */

static inline bool get(struct trace_column_at *column, uint64_t *ret_value)
{
	const uint8_t *next = trace_varint_get(column->next, ret_value);

	if (!next || next > column->end)
		return false;
	column->next = next;
	return true;
}

static bool get_byte(struct trace_column_at *column, uint8_t *ret_value)
{
	if (column->next >= column->end)
		return false;
	*ret_value = *column->next++;
	return true;
}

/* Step over what a newer writer has added. */
static bool skip_more(struct trace_column_at *column)
{
	uint64_t n_bytes;

	if (!get(column, &n_bytes) || n_bytes > (uint64_t)(column->end - column->next))
		return false;
	column->next += n_bytes;
	return true;
}

static bool get_extra(struct trace_column_at *column, struct trace_event *event)
{
	uint64_t flags = 0, begin = 0, old_address = 0;
	uint8_t mask, low = 0;

	if (!get_byte(column, &mask) || ((mask & TRACE_EXTRA_LOW) && !get_byte(column, &low)) ||
	    ((mask & TRACE_EXTRA_FLAGS) && !get(column, &flags)) ||
	    ((mask & TRACE_EXTRA_BEGIN) && !get(column, &begin)) ||
	    ((mask & TRACE_EXTRA_OLD_ADDRESS) && !get(column, &old_address)) ||
	    ((mask & TRACE_EXTRA_OLD_SIZE) && !get(column, &event->old_size)) ||
	    ((mask & TRACE_EXTRA_DETAIL) && !get(column, &event->detail)) ||
	    ((mask & TRACE_EXTRA_MORE) && !skip_more(column)) || (mask & 0x40) || low > 15)
		return false;

	event->flags = (uint16_t)flags;
	event->address += low;
	event->begin_ticks = event->ticks - begin;
	if (mask & TRACE_EXTRA_OLD_ADDRESS)
		event->old_address = event->address + (uint64_t)trace_unzigzag(old_address);
	return true;
}

/* One event; `before` has the ticks and the address that the deltas count from. */
static inline bool get_event(struct trace_column_at columns[TRACE_COLUMN_COUNT],
			     const struct trace_event *before, struct trace_event *event)
{
	uint64_t ticks, address, stack_id = 0;
	uint8_t control = *columns[TRACE_COLUMN_CONTROL].next++;

	if (!get(&columns[TRACE_COLUMN_TICKS], &ticks) ||
	    !get(&columns[TRACE_COLUMN_ADDRESS], &address))
		return false;

	*event = (struct trace_event){ .op = control & TRACE_CONTROL_OP,
				       .ticks = before->ticks + ticks };
	event->call = trace_usual_call(event->op);
	event->address = before->address + ((uint64_t)trace_unzigzag(address) << 4);
	event->begin_ticks = event->ticks;
	if ((control & TRACE_CONTROL_SIZE) && !get(&columns[TRACE_COLUMN_SIZE], &event->size))
		return false;
	if ((control & TRACE_CONTROL_STACK) && !get(&columns[TRACE_COLUMN_STACK], &stack_id))
		return false;
	event->stack_id = (uint32_t)stack_id;
	if ((control & TRACE_CONTROL_CALL) && !get_byte(&columns[TRACE_COLUMN_CALL], &event->call))
		return false;
	return !(control & TRACE_CONTROL_EXTRA) || get_extra(&columns[TRACE_COLUMN_EXTRA], event);
}

void trace_columns_begin(const uint8_t *body, struct trace_columns_place *ret_place)
{
	struct trace_events_head head;

	memcpy(&head, body, sizeof(head));
	body += sizeof(head);
	for (unsigned i = 0; i < TRACE_COLUMN_COUNT; i++) {
		ret_place->columns[i] =
			(struct trace_column_at){ body, body + head.column_bytes[i] };
		body += head.column_bytes[i];
	}
	ret_place->n_left = head.n_events;
	ret_place->ticks = head.base_ticks;
	ret_place->address = 0;
}

int trace_columns_read(struct trace_columns_place *place, struct trace_event *events, size_t max)
{
	size_t n = place->n_left < max ? place->n_left : max;
	struct trace_event first = { .ticks = place->ticks, .address = place->address };

	for (size_t i = 0; i < n; i++) {
		if (!get_event(place->columns, i > 0 ? &events[i - 1] : &first, &events[i]))
			return -EBADMSG;
	}
	place->n_left -= (uint32_t)n;
	if (n > 0) {
		place->ticks = events[n - 1].ticks;
		place->address = events[n - 1].address;
	}
	return (int)n;
}

int trace_columns_decode(const uint8_t *body, struct trace_event *events)
{
	struct trace_columns_place place;

	trace_columns_begin(body, &place);
	int n = trace_columns_read(&place, events, place.n_left);
	for (unsigned i = 0; n >= 0 && i < TRACE_COLUMN_COUNT; i++) {
		if (place.columns[i].next != place.columns[i].end)
			n = -EBADMSG;
	}
	return n < 0 ? n : 0;
}

/* ---- Checking without decoding ---- */

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* How many of the eight bytes of a word have their high bit set, when it has no other bits. */
static unsigned n_high(uint64_t bits)
{
	return (unsigned)((bits >> 7) * UINT64_C(0x0101010101010101) >> 56);
}

/* Up to eight bytes of a column; what is behind its end counts as 0. */
static uint64_t word_at(const struct trace_column_at *column, const uint8_t *at)
{
	size_t n_bytes = (size_t)(column->end - at);
	uint64_t word = 0;

	memcpy(&word, at, sizeof(word)); /* the slack behind a body is readable */
	return n_bytes >= sizeof(word) ? word : word & ((UINT64_C(1) << (8 * n_bytes)) - 1);
}

/* Whether a column holds n varints and nothing else: one by one. */
static bool walks(struct trace_column_at column, size_t n)
{
	uint64_t value;

	for (; n > 0; n--) {
		if (!get(&column, &value))
			return false;
	}
	return column.next == column.end;
}

/*
 * The same, eight bytes at a time. A varint ends where a high bit is missing. One that is too long
 * has four bytes of a half of some word that go on: then they are looked at one by one.
 */
static bool holds_varints(const struct trace_column_at *column, size_t n)
{
	size_t n_bytes = (size_t)(column->end - column->next), n_going_on = 0;

	if (n_bytes == 0)
		return n == 0;
	for (const uint8_t *at = column->next; at < column->end; at += sizeof(uint64_t)) {
		uint64_t bits = word_at(column, at) & HIGH_BITS;
		if (bits >> 32 == HIGH_BITS >> 32 || (uint32_t)bits == (uint32_t)HIGH_BITS)
			return walks(*column, n);
		n_going_on += n_high(bits);
	}
	return column->end[-1] < 0x80 && n_bytes - n_going_on == n;
}

/* How many control bytes have a flag. */
static size_t n_with(const struct trace_column_at *control, uint8_t flag)
{
	unsigned shift = (unsigned)__builtin_clz((uint32_t)flag << 24);
	size_t n = 0;

	for (const uint8_t *at = control->next; at < control->end; at += sizeof(uint64_t))
		n += n_high(word_at(control, at) << shift & HIGH_BITS);
	return n;
}

static bool holds_extras(struct trace_column_at column, size_t n)
{
	struct trace_event event = { 0 };

	for (; n > 0; n--) {
		if (!get_extra(&column, &event))
			return false;
	}
	return column.next == column.end;
}

int trace_columns_verify(const uint8_t *body)
{
	struct trace_columns_place place;
	const struct trace_column_at *columns = place.columns;

	trace_columns_begin(body, &place);
	const struct trace_column_at *control = &columns[TRACE_COLUMN_CONTROL];
	const struct trace_column_at *call = &columns[TRACE_COLUMN_CALL];
	bool is_good =
		holds_varints(&columns[TRACE_COLUMN_TICKS], place.n_left) &&
		holds_varints(&columns[TRACE_COLUMN_ADDRESS], place.n_left) &&
		holds_varints(&columns[TRACE_COLUMN_SIZE], n_with(control, TRACE_CONTROL_SIZE)) &&
		holds_varints(&columns[TRACE_COLUMN_STACK], n_with(control, TRACE_CONTROL_STACK)) &&
		(size_t)(call->end - call->next) == n_with(control, TRACE_CONTROL_CALL) &&
		holds_extras(columns[TRACE_COLUMN_EXTRA], n_with(control, TRACE_CONTROL_EXTRA));

	return is_good ? 0 : -EBADMSG;
}
