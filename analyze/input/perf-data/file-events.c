/* The events of a perf.data: their attributes in every size and order, and who an id means. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>

#include "analyze/input/perf-data/file-internal.h"

/* More are damage: a host has some thousand CPUs and a recording a few dozen events. */
#define MAX_EVENTS 65536u
#define MAX_IDS	   (1u << 22)

/* The first version of perf_event_attr, of Linux 2.6.32, in which size could be 0. */
#define ATTR_LEAST_BYTES 64u

void perf_data_events_finish(struct perf_data_events *events)
{
	for (size_t i = 0; i < events->n; i++)
		free(events->events[i].name);
	free(events->events);
	free(events->ids);
	*events = (struct perf_data_events){ 0 };
}

/* Room for one more. */
static int grow(void *array, size_t n, size_t *n_allocated, size_t item_bytes)
{
	void **items = array;

	if (n < *n_allocated)
		return 0;
	void *grown = reallocarray(*items, 2 * n + 16, item_bytes);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	*n_allocated = 2 * n + 16;
	return 0;
}

/* Bit fields are counted from a byte's other end in the other order; the bytes themselves stay. */
static uint64_t take_flags(struct perf_bytes *bytes)
{
	const uint8_t *at = perf_bytes_take(bytes, sizeof(uint64_t));
	uint64_t flags = 0;

	for (unsigned bit = 0; at && bit < 64; bit++) {
		unsigned from = bytes->is_swapped ? 7 - bit % 8 : bit % 8;

		flags |= (uint64_t)(at[bit / 8] >> from & 1) << bit;
	}
	return flags;
}

/* Bits of perf_event_attr behind read_format, from the lowest. */
#define FLAG_EXCLUDE_USER   (UINT64_C(1) << 4)
#define FLAG_EXCLUDE_KERNEL (UINT64_C(1) << 5)
#define FLAG_FREQ	    (UINT64_C(1) << 10)
#define SHIFT_PRECISE_IP    15
#define FLAG_SAMPLE_ID_ALL  (UINT64_C(1) << 18)
#define FLAG_USE_CLOCKID    (UINT64_C(1) << 25)

static void read_flags(struct perf_data_event *event, uint64_t flags, uint64_t period)
{
	event->exclude_user = flags & FLAG_EXCLUDE_USER;
	event->exclude_kernel = flags & FLAG_EXCLUDE_KERNEL;
	event->has_clock_id = flags & FLAG_USE_CLOCKID;
	event->precise = flags >> SHIFT_PRECISE_IP & 3;
	event->format.has_no_trailer = !(flags & FLAG_SAMPLE_ID_ALL);
	if (flags & FLAG_FREQ)
		event->frequency_hz = period;
	else
		event->period = period;
}

/* Fields behind the end of an older attr read as 0, which is what they meant then. */
static void read_attr(struct perf_data_event *event, struct perf_bytes *attr)
{
	struct perf_bytes *bytes = attr;

	event->type = perf_bytes_u32(bytes);
	perf_bytes_u32(bytes); /* size */
	event->config = perf_bytes_u64(bytes);
	uint64_t period = perf_bytes_u64(bytes);
	event->format.sample_type = perf_bytes_u64(bytes);
	event->format.read_format = perf_bytes_u64(bytes);
	read_flags(event, take_flags(bytes), period);
	perf_bytes_u32(bytes); /* wakeup */
	perf_bytes_u32(bytes); /* bp_type */
	event->config1 = perf_bytes_u64(bytes);
	event->config2 = perf_bytes_u64(bytes);
	event->format.branch_sample_type = perf_bytes_u64(bytes);
	event->format.regs_user = perf_bytes_u64(bytes);
	event->stack_bytes = perf_bytes_u32(bytes);
	event->clock_id = (int32_t)perf_bytes_u32(bytes);
	event->format.regs_intr = perf_bytes_u64(bytes);
}

int perf_data_events_add(struct perf_data_events *events, struct perf_bytes attr)
{
	struct perf_bytes head = attr;
	struct perf_data_event event = { 0 };

	perf_bytes_u32(&head);
	uint32_t size = perf_bytes_u32(&head);
	if (size == 0)
		size = ATTR_LEAST_BYTES;
	if (size < ATTR_LEAST_BYTES || size > (size_t)(attr.end - attr.at) ||
	    events->n >= MAX_EVENTS)
		return -EBADMSG;
	attr.end = attr.at + size;
	read_attr(&event, &attr);

	int r = grow(&events->events, events->n, &events->n_allocated, sizeof(event));
	if (r == 0)
		events->events[events->n++] = event;
	return r;
}

int perf_data_events_add_id(struct perf_data_events *events, uint64_t id, size_t event)
{
	if (events->n_ids >= MAX_IDS)
		return -EBADMSG;
	int r = grow(&events->ids, events->n_ids, &events->n_ids_allocated, sizeof(*events->ids));
	if (r < 0)
		return r;
	events->ids[events->n_ids++] = (struct perf_data_id){ id, (uint32_t)event };
	events->is_sorted = false;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	const struct perf_data_id *left = a;
	const struct perf_data_id *right = b;

	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	return left->event < right->event ? -1 : left->event > right->event;
}

/* The first of that id or behind it. */
static size_t position_of(const struct perf_data_events *events, uint64_t id)
{
	size_t low = 0;
	size_t high = events->n_ids;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (events->ids[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool perf_data_events_find(struct perf_data_events *events, uint64_t id, uint32_t *ret_event)
{
	if (!events->is_sorted && events->n_ids) {
		if (!perf_data_may_sort(&events->n_sorted_in_all, events->n_ids))
			return false;
		qsort(events->ids, events->n_ids, sizeof(*events->ids), compare_ids);
		events->is_sorted = true;
		events->last = events->ids[0];
	}
	if (events->n_ids == 0)
		return false;
	if (events->last.id != id) {
		size_t at = position_of(events, id);

		if (at == events->n_ids || events->ids[at].id != id)
			return false;
		events->last = events->ids[at];
	}
	*ret_event = events->last.event;
	return true;
}

int perf_data_events_name(struct perf_data_events *events, size_t event, const char *name, size_t n)
{
	char *copy = strndup(name, n);

	if (!copy)
		return -ENOMEM;
	free(events->events[event].name);
	events->events[event].name = copy;
	return 0;
}

/*
 * Where perf puts what it knew before it began to record, it leaves the id out: the first event's.
 */
bool perf_data_events_of(struct perf_data_events *events, const struct perf_event_header *head,
			 const void *record, bool is_swapped, uint32_t *ret_event)
{
	const struct pmu_format *format = events->n ? &events->events[0].format : NULL;
	bool is_sample = head->type == PERF_RECORD_SAMPLE;
	uint64_t id;

	if (!format)
		return false;
	*ret_event = 0;
	if (events->n == 1)
		return true;
	size_t at = is_sample ? perf_data_sample_id_at(format) : perf_data_trailer_id_at(format);
	if (at == 0)
		return true;
	if ((is_sample ? at + sizeof(id) : at) > head->size)
		return false;
	memcpy(&id, (const uint8_t *)record + (is_sample ? at : head->size - at), sizeof(id));
	id = is_swapped ? __builtin_bswap64(id) : id;
	return (id == 0 && !is_sample) || perf_data_events_find(events, id, ret_event);
}
