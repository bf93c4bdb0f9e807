/* Reads whatever bytes as a perf.data, and parses every record that comes out. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/input/perf-data/file.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "tests/robust/fuzz/fuzz.h"

static uint64_t sum(const void *bytes, size_t n_bytes)
{
	uint64_t total = 0;

	for (size_t i = 0; bytes && i < n_bytes; i++)
		total += ((const uint8_t *)bytes)[i];
	return total;
}

static uint64_t touch(struct perf_data *data, const struct perf_data_item *item)
{
	uint64_t total = sum(item->bytes, item->n_bytes);
	const uint8_t *build_id;
	struct pmu_record record;

	if (item->kind != PERF_DATA_RECORD)
		return total;
	const struct perf_data_event *event = perf_data_event(data, item->event);
	if (pmu_record_parse(&event->format, item->bytes, item->n_bytes, &record) < 0)
		return total;
	if (record.is_known && record.type == PERF_RECORD_MMAP2)
		total += perf_data_build_id(data, record.map.path, &build_id);
	if (record.is_known && record.type == PERF_RECORD_SAMPLE)
		total += sum(record.sample.raw, record.sample.raw_bytes);
	return total;
}

/* All that a reader was told is there to be read. */
static uint64_t touch_told(const struct perf_data *data)
{
	const struct perf_data_info *info = perf_data_info(data);
	uint64_t total = sum(info->command, info->command_bytes);

	for (size_t i = 0; i < perf_data_n_events(data); i++) {
		const struct perf_data_event *event = perf_data_event(data, i);
		const char *pmu = perf_data_pmu(data, event->type);

		total += event->name ? strlen(event->name) : 0;
		total += pmu ? strlen(pmu) : 0;
	}
	return total + (info->numa ? strlen(info->numa) : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static volatile uint64_t keep; /* the reads must not be left out */
	auto_perf_data struct perf_data *data = NULL;
	auto_close int fd = memfd_create("fuzz-perf-data", MFD_CLOEXEC);
	struct perf_data_item item;
	char path[64];

	if (fd < 0 || io_write_all(fd, bytes, n_bytes) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (perf_data_open(path, &data) < 0)
		return 0;
	while (perf_data_next(data, &item) > 0)
		keep = keep + touch(data, &item);
	keep = keep + touch_told(data);
	return 0;
}
