/* When a perf.data begins, and what tells it from others: found out before it is read. */
#include <elf.h>
#include <linux/perf_event.h>
#include <string.h>

#include "analyze/input/perf-data/input-internal.h"
#include "schemas/ring.h"

/* A file without rounds is looked through so far for its first time. */
#define PROBE_RECORDS 200000u

uint64_t perf_record_time(const struct perf_data *data, const struct perf_data_item *item)
{
	const struct pmu_format *format = &perf_data_event(data, item->event)->format;
	struct pmu_record record;

	if (item->type == PERF_RECORD_SAMPLE)
		return perf_records_sample_time(format, item->bytes, item->n_bytes);
	if (pmu_record_parse(format, item->bytes, item->n_bytes, &record) <= 0 || !record.is_known)
		return 0;
	return record.origin.time_ns;
}

int perf_start_find(const char *path, uint64_t *ret_start_ns)
{
	auto_perf_data struct perf_data *data = NULL;
	struct perf_data_item item;
	size_t n = 0;
	int r = perf_data_open(path, &data);

	if (r < 0)
		return r;
	while (n < PROBE_RECORDS && (r = perf_data_next(data, &item)) > 0) {
		if (item.kind == PERF_DATA_ROUND && *ret_start_ns)
			break;
		if (item.kind != PERF_DATA_RECORD)
			continue;
		uint64_t time_ns = perf_record_time(data, &item);
		if (time_ns && (!*ret_start_ns || time_ns < *ret_start_ns))
			*ret_start_ns = time_ns;
		n++;
	}
	return r < 0 ? r : 0;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* FNV-1a of what tells one recording from another: its host, command and first times. */
static void identify(struct perf_feed *feed)
{
	const struct perf_data_info *info = perf_data_info(feed->data);
	uint64_t hash[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };

	for (size_t i = 0; i < 2; i++) {
		hash[i] = mix(hash[i], &feed->start_ns, sizeof(feed->start_ns));
		hash[i] = mix(hash[i], &info->first_sample_ns, 2 * sizeof(uint64_t));
		hash[i] = mix(hash[i], &info->wall_ns, sizeof(info->wall_ns));
		hash[i] = mix(hash[i], info->command, info->command_bytes);
		if (info->host_name)
			hash[i] = mix(hash[i], info->host_name, strlen(info->host_name));
	}
	memcpy(feed->header.recording_id, hash, sizeof(hash));
}

void perf_start_header(struct perf_feed *feed)
{
	uint16_t machine = perf_run_machine(feed->data);

	feed->header = (struct trace_file_header){
		.version_major = TRACE_VERSION_MAJOR,
		.version_minor = TRACE_VERSION_MINOR,
		.header_bytes = sizeof(feed->header),
		.machine = machine ? machine : EM_X86_64,
		.clock = RING_CLOCK_RAW,
		.ticks_per_second = 1000000000,
		.start_ticks = feed->start_ns,
	};
	memcpy(feed->header.magic, TRACE_FILE_MAGIC, sizeof(feed->header.magic));
	identify(feed);
}
