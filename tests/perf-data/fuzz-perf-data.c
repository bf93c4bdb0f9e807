/*
 * Reads whatever bytes as a perf.data, and parses every record that comes out.
 *
 *	clang -g -O1 -std=gnu17 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -I. \
 *		-DFUZZ_WITH_LIBFUZZER -o fuzz-perf-data tests/perf-data/fuzz-perf-data.c pmu/perf-data*.c \
 *		pmu/pmu-record.c common/trace-window.c common/io.c -lzstd	(libclang-rt-14-dev)
 *	make-corpus.py FOLDER && fuzz-perf-data -max_len=6500 FOLDER
 *
 * As an ordinary test it replays the files and folders that it is given: whole, cut at every multiple of 8,
 * and with every byte flipped.
 */
#include <dirent.h>
#include <err.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "pmu/perf-data.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static uint64_t sum(const void *bytes, size_t n_bytes)
{
	uint64_t total = 0;

	for (size_t i = 0; bytes && i < n_bytes; i++)
		total += ((const uint8_t *)bytes)[i];
	return total;
}

static uint64_t touch(struct perf_data *data, const struct perf_data_item *item)
{
	const struct perf_data_event *event = perf_data_event(data, item->event);
	uint64_t total = sum(item->bytes, item->n_bytes);
	const uint8_t *build_id;
	struct pmu_record record;

	if (item->kind != PERF_DATA_RECORD ||
	    pmu_record_parse(&event->format, item->bytes, item->n_bytes, &record) < 0)
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

#ifndef FUZZ_WITH_LIBFUZZER
static size_t n_replayed;

static void replay(const char *path)
{
	auto_free char *bytes = NULL;
	size_t n_bytes;

	if (io_read_file(path, 1u << 20, &bytes, &n_bytes) < 0)
		errx(1, "cannot read %s", path);
	uint8_t *own = (uint8_t *)bytes;
	LLVMFuzzerTestOneInput(own, n_bytes);
	for (size_t cut = 0; cut < n_bytes; cut += 8)
		LLVMFuzzerTestOneInput(own, cut);
	for (size_t at = 0; at < n_bytes; at++) {
		static const uint8_t flips[] = { 0xff, 0x01, 0x80 };

		for (size_t i = 0; i < sizeof(flips); i++) {
			own[at] ^= flips[i];
			LLVMFuzzerTestOneInput(own, n_bytes);
			own[at] ^= flips[i];
		}
	}
	n_replayed++;
}

static void replay_folder(const char *folder)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	char path[4096];

	if (!entries)
		err(1, "%s", folder);
	while ((entry = readdir(entries))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (entry->d_name[0] != '.')
			replay(path);
	}
	closedir(entries);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay_folder(argv[i]);
	printf("%zu files\n", n_replayed);
	return n_replayed == 0;
}
#endif
