/*
 * Parses whatever bytes as records of perf: the masks of struct pmu_format, then records. They are
 * copied to the end of a buffer of exactly their size with a page behind it that cannot be read.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "perf/record.h"
#include "tests/robust/fuzz/fuzz.h"

#define GUARD_BYTES 4096u
#define MAX_BYTES   (1u << 20)
#define HEAD_BYTES  offsetof(struct pmu_format, has_no_trailer)

/* Reads what a view promises, so that a wrong promise is a crash. */
static uint64_t touch(const void *bytes, uint64_t n_bytes)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; bytes && i < n_bytes; i++)
		sum += ((const uint8_t *)bytes)[i];
	return sum;
}

static uint64_t touch_sample(const struct pmu_sample *sample)
{
	uint64_t sum = touch(sample->callchain, sample->n_callchain * sizeof(uint64_t)) +
		       touch(sample->raw, sample->raw_bytes) +
		       touch(sample->stack, sample->stack_bytes);

	for (unsigned reg = 0; reg < 66; reg++) {
		uint64_t value = 0;

		if (pmu_sample_register(sample, reg, &value))
			sum += value;
	}
	return sum;
}

static uint64_t touch_record(const struct pmu_record *record)
{
	switch (record->is_known ? record->type : UINT32_MAX) {
	case PERF_RECORD_SAMPLE:
		return touch_sample(&record->sample);
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return strlen(record->map.path) +
		       touch(record->map.build_id, record->map.build_id_bytes);
	case PERF_RECORD_COMM:
		return strlen(record->comm.name);
	}
	return 0;
}

static uint64_t walk(const struct pmu_format *format, const uint8_t *bytes, size_t n_bytes)
{
	uint64_t sum = 0;
	size_t at = 0;

	while (at < n_bytes) {
		struct pmu_record record;
		struct pmu_origin origin;
		uint64_t ip = 0;
		int length = pmu_record_parse(format, bytes + at, n_bytes - at, &record);

		if (pmu_record_sample_ip(format, bytes + at, n_bytes - at, &origin, &ip))
			sum += ip;
		if (length == -EILSEQ)
			length = record.bytes;
		else if (length > 0)
			sum += touch_record(&record);
		if (length <= 0)
			break;
		at += (size_t)length;
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static volatile uint64_t keep; /* the reads must not be left out */
	static uint8_t *room;
	struct pmu_format format = { 0 };
	uint8_t *start;

	if (!room) {
		room = mmap(NULL, MAX_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (room == MAP_FAILED || mprotect(room + MAX_BYTES, GUARD_BYTES, PROT_NONE) < 0)
			abort();
	}
	if (n_bytes < HEAD_BYTES || n_bytes - HEAD_BYTES > MAX_BYTES)
		return 0;
	memcpy(&format, bytes, HEAD_BYTES);
	n_bytes = (n_bytes - HEAD_BYTES) & ~(size_t)7; /* keeps the start aligned */
	start = room + MAX_BYTES - n_bytes;
	memcpy(start, bytes + HEAD_BYTES, n_bytes);
	keep += walk(&format, start, n_bytes);
	(void)keep; /* clang counts += as no use */
	return 0;
}
