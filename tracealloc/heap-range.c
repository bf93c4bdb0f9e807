/*
 * What libtracealloc_heap.so, which lies below us, tells: the memory of the heap of this image.
 * size 0: it has none, and place says why.
 */
#include <string.h>

#include "tracealloc/environment.h"
#include "tracealloc/hooks/hook.h"

TA_EXPORT void memsight_1_heap_range(uint64_t start, uint64_t size, const char *kind,
				     const char *place);

/* Its own: whether this thread is inside memkind. */
TA_EXPORT _Thread_local unsigned memsight_1_heap_depth __attribute__((tls_model("initial-exec")));

#define MAX_TEXT_BYTES 1024u

static void write_range(const struct ta_hook *hook, const struct ring_heap_range *head,
			const char *kind, const char *place)
{
	uint32_t n_bytes =
		(sizeof(*head) + head->kind_bytes + head->place_bytes + RING_RECORD_BYTES - 1) &
		-(uint32_t)RING_RECORD_BYTES;
	struct ring_heap_range *record = ta_record_reserve_big(hook->thread, n_bytes);

	if (!record) {
		ta_chunk_count_dropped();
		return;
	}
	record->ticks = ta_ticks_begin();
	record->start = head->start;
	record->size = head->size;
	record->kind_bytes = head->kind_bytes;
	record->place_bytes = head->place_bytes;
	memcpy(record->bytes, kind, head->kind_bytes);
	memcpy(record->bytes + head->kind_bytes, place, head->place_bytes);
	ta_record_commit(&record->head,
			 RING_HEAD(TRACE_OP_HEAP_RANGE, 0, n_bytes / RING_RECORD_BYTES, 0));
}

TA_EXPORT void memsight_1_heap_range(uint64_t start, uint64_t size, const char *kind,
				     const char *place)
{
	struct ring_heap_range head = {
		.start = start,
		.size = size,
		.kind_bytes = (uint16_t)strnlen(kind, MAX_TEXT_BYTES),
		.place_bytes = (uint16_t)strnlen(place, MAX_TEXT_BYTES),
	};
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, TA_FRAME(), TA_EVENTS_ALWAYS))
		return;
	if (hook.bits)
		ta_chunk_count_nested();
	else
		write_range(&hook, &head, kind, place);
	ta_hook_leave(&hook);
}

void ta_heap_range_start(void)
{
	if (ta_environment_lacks_heap())
		memsight_1_heap_range(0, 0, "none",
				      "no heap: its C library is not glibc, which the heap needs");
}
