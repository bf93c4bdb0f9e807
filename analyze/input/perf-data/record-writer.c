#include "analyze/input/perf-data/record-writer.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"

/*
 * A path is at most 4096 bytes; what a hostile file calls one must still leave room for the rest.
 */
#define MOST_TEXT_BYTES 8192u

void perf_records_finish(struct perf_records *records)
{
	free(records->bytes);
	*records = (struct perf_records){ 0 };
}

int perf_records_add(struct perf_records *records, const void *bytes, size_t n_bytes)
{
	if (grow_array_by(&records->bytes, records->n_bytes, n_bytes, &records->n_allocated, 1) < 0)
		return -ENOMEM;
	memcpy(records->bytes + records->n_bytes, bytes, n_bytes);
	records->n_bytes += n_bytes;
	return 0;
}

uint64_t perf_records_sample_time(const struct pmu_format *format, const void *bytes,
				  size_t n_bytes)
{
	uint64_t before = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID;
	size_t at = sizeof(struct perf_event_header) +
		    sizeof(uint64_t) * (size_t)__builtin_popcountll(format->sample_type & before);
	uint64_t time_ns;

	if (!(format->sample_type & PERF_SAMPLE_TIME) || at + sizeof(time_ns) > n_bytes)
		return 0;
	memcpy(&time_ns, (const uint8_t *)bytes + at, sizeof(time_ns));
	return time_ns;
}

/* A record in the making: never more than 65535 bytes. */
struct making {
	size_t n_bytes;
	uint8_t bytes[MOST_TEXT_BYTES + 256];
};

static void put(struct making *making, const void *bytes, size_t n_bytes)
{
	memcpy(making->bytes + making->n_bytes, bytes, n_bytes);
	making->n_bytes += n_bytes;
}

static void put_u32(struct making *making, uint32_t value)
{
	put(making, &value, sizeof(value));
}

static void put_u64(struct making *making, uint64_t value)
{
	put(making, &value, sizeof(value));
}

/* Padded with NULs, one of them at least. */
static bool put_text(struct making *making, const char *text)
{
	size_t n_bytes = strlen(text) + 1;
	size_t n_padded = (n_bytes + 7) / 8 * 8;

	if (n_padded > MOST_TEXT_BYTES)
		return false;
	memset(making->bytes + making->n_bytes, 0, n_padded);
	put(making, text, n_bytes);
	making->n_bytes += n_padded - n_bytes;
	return true;
}

/* As the kernel's perf_event__output_id_sample(). */
static void put_trailer(struct making *making, const struct pmu_format *format,
			const struct pmu_origin *origin)
{
	uint64_t has = format->sample_type;

	if (has & PERF_SAMPLE_TID) {
		put_u32(making, origin->pid);
		put_u32(making, origin->tid);
	}
	if (has & PERF_SAMPLE_TIME)
		put_u64(making, origin->time_ns);
	if (has & PERF_SAMPLE_ID)
		put_u64(making, origin->id);
	if (has & PERF_SAMPLE_STREAM_ID)
		put_u64(making, origin->stream_id);
	if (has & PERF_SAMPLE_CPU)
		put_u64(making, origin->cpu);
	if (has & PERF_SAMPLE_IDENTIFIER)
		put_u64(making, origin->id);
}

static bool make_map(struct making *making, const struct pmu_map *map, const uint8_t *build_id,
		     size_t n_build_id)
{
	bool is_old = map->flags == 0 && map->prot == PROT_EXEC; /* MMAP tells no more */
	uint8_t identity[24] = { (uint8_t)n_build_id };

	put_u32(making, map->pid);
	put_u32(making, map->tid);
	put_u64(making, map->address);
	put_u64(making, map->size);
	put_u64(making, map->file_offset);
	if (n_build_id > 0)
		memcpy(identity + 4, build_id, n_build_id);
	put(making, identity, sizeof(identity));
	put_u32(making, is_old ? PROT_READ | PROT_EXEC : map->prot);
	put_u32(making, map->flags ? map->flags : MAP_PRIVATE);
	return put_text(making, map->path);
}

int perf_records_add_task(struct perf_records *records, const struct pmu_format *format,
			  const struct pmu_record *record, const uint8_t *build_id,
			  size_t n_build_id)
{
	struct making making = { .n_bytes = sizeof(struct perf_event_header) };
	struct perf_event_header head = { .type = record->type, .misc = record->misc };
	bool is_map = record->type == PERF_RECORD_MMAP || record->type == PERF_RECORD_MMAP2;
	bool is_good = true;

	if (is_map) {
		head.type = PERF_RECORD_MMAP2;
		head.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
		is_good = make_map(&making, &record->map,
				   n_build_id ? build_id : record->map.build_id,
				   n_build_id ? n_build_id : record->map.build_id_bytes);
	} else if (record->type == PERF_RECORD_COMM) {
		put_u32(&making, record->comm.pid);
		put_u32(&making, record->comm.tid);
		is_good = put_text(&making, record->comm.name);
	} else if (record->type == PERF_RECORD_FORK || record->type == PERF_RECORD_EXIT) {
		put_u32(&making, record->task.pid);
		put_u32(&making, record->task.parent_pid);
		put_u32(&making, record->task.tid);
		put_u32(&making, record->task.parent_tid);
		put_u64(&making, record->task.time_ns);
	} else {
		is_good = false;
	}
	if (!is_good)
		return 0;
	put_trailer(&making, format, &record->origin);
	head.size = (uint16_t)making.n_bytes;
	memcpy(making.bytes, &head, sizeof(head));
	return perf_records_add(records, making.bytes, making.n_bytes);
}
