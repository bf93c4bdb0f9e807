/*
 * What stands before the records of a perf.data, and behind them: the header of the file or pipe,
 * the attrs of the events with their ids, and the sections of the features.
 */
#include <errno.h>
#include <string.h>

#include "analyze/input/perf-data/file-internal.h"

#define FILE_HEADER_BYTES 104u
#define PIPE_HEADER_BYTES 16u
#define FEATURE_WORDS	  (PERF_DATA_FEATURES / 64)
#define SECTION_BYTES	  16u
#define ATTR_MOST_BYTES	  4096u

/* Larger is damage: feature sections are read as a whole. */
#define SECTION_MOST_BYTES (UINT64_C(64) << 20)

struct section {
	uint64_t offset;
	uint64_t size;
};

/* Bytes of the file as a whole; -EBADMSG when they are not there. */
static int look(struct perf_data *data, uint64_t offset, uint64_t n_bytes,
		struct pmu_cursor *ret_bytes)
{
	const uint8_t *bytes;

	if (n_bytes > SECTION_MOST_BYTES || offset > data->file_bytes ||
	    n_bytes > data->file_bytes - offset)
		return -EBADMSG;
	ssize_t n = trace_window_look(&data->window, offset, n_bytes, &bytes);
	if (n < 0)
		return (int)n;
	if ((size_t)n < n_bytes)
		return -EBADMSG;
	*ret_bytes = perf_data_cursor(bytes, n_bytes, data->is_swapped);
	return 0;
}

static struct section take_section(struct pmu_cursor *bytes)
{
	uint64_t offset = pmu_cursor_u64(bytes);

	return (struct section){ offset, pmu_cursor_u64(bytes) };
}

static int add_ids(struct perf_data *data, struct section ids, size_t event)
{
	struct pmu_cursor bytes;
	int r = look(data, ids.offset, ids.size, &bytes);

	for (uint64_t i = 0; r == 0 && i < ids.size / sizeof(uint64_t); i++)
		r = perf_data_events_add_id(&data->events, pmu_cursor_u64(&bytes), event);
	return r;
}

/* Each is an attr and the section of its ids. */
static int read_attrs(struct perf_data *data, struct section attrs, uint64_t item_bytes)
{
	int r = 0;

	if (item_bytes < PERF_DATA_ATTR_BYTES + SECTION_BYTES || item_bytes > ATTR_MOST_BYTES)
		return -EBADMSG;
	for (uint64_t i = 0; r == 0 && i < attrs.size / item_bytes; i++) {
		struct pmu_cursor attr;

		r = look(data, attrs.offset + i * item_bytes, item_bytes, &attr);
		if (r < 0)
			break;
		struct pmu_cursor behind = attr;
		attr.end -= SECTION_BYTES;
		behind.at = attr.end;
		struct section ids = take_section(&behind);
		r = perf_data_events_add(&data->events, attr);
		r = r ?: add_ids(data, ids, data->events.n - 1);
	}
	return r;
}

/* A feature that is not there is none: perf may have been killed before it wrote them. */
static int read_feature(struct perf_data *data, unsigned feature, uint64_t at)
{
	struct pmu_cursor bytes = { 0 };
	int r = look(data, at, SECTION_BYTES, &bytes);

	if (r == 0) {
		struct section section = take_section(&bytes);
		r = look(data, section.offset, section.size, &bytes);
	}
	if (r == 0)
		return perf_data_features_add(&data->features, feature, bytes, &data->events);
	data->damage.is_cut |= r == -EBADMSG;
	return r == -EBADMSG ? 0 : r;
}

/* Bits of a word of the host that wrote it, which is of 64 bits. */
static bool has_feature(const struct pmu_cursor *bits, unsigned feature)
{
	struct pmu_cursor word = *bits;

	word.at += feature / 64 * sizeof(uint64_t);
	return pmu_cursor_u64(&word) >> feature % 64 & 1;
}

static int read_features(struct perf_data *data, const uint8_t bits[], uint64_t at)
{
	const struct pmu_cursor words =
		perf_data_cursor(bits, FEATURE_WORDS * sizeof(uint64_t), data->is_swapped);
	int r = 0;

	for (unsigned feature = 0; r == 0 && feature < PERF_DATA_FEATURES; feature++) {
		if (!has_feature(&words, feature))
			continue;
		r = read_feature(data, feature, at);
		at += SECTION_BYTES;
	}
	return r;
}

/* The section of a file's records; 0 bytes: perf was killed, and all that follows are records. */
static int set_records(struct perf_data *data, struct section records)
{
	if (records.offset > data->file_bytes)
		return -EBADMSG;
	uint64_t room = data->file_bytes - records.offset;

	data->offset = records.offset;
	data->damage.is_cut = records.size == 0 || records.size > room;
	data->end = records.offset + (data->damage.is_cut ? room : records.size);
	return 0;
}

static int read_file_header(struct perf_data *data, struct pmu_cursor header)
{
	uint8_t bits[FEATURE_WORDS * sizeof(uint64_t)];
	uint64_t attr_bytes = pmu_cursor_u64(&header);
	struct section attrs = take_section(&header);
	struct section records = take_section(&header);

	take_section(&header); /* event types: no more written since Linux 3.9 */
	memcpy(bits, header.at, sizeof(bits));
	int r = set_records(data, records) ?: read_attrs(data, attrs, attr_bytes);
	if (r == 0 && data->events.n == 0)
		r = -EBADMSG;
	return r < 0 || data->damage.is_cut ? r : read_features(data, bits, data->end);
}

int perf_data_read_header(struct perf_data *data)
{
	struct perf_data_info *info = &data->features.info;
	struct pmu_cursor header;
	int r = look(data, 0, PIPE_HEADER_BYTES, &header);

	if (r < 0)
		return r;
	const char *magic = pmu_cursor_take(&header, sizeof(uint64_t));
	info->is_swapped = memcmp(magic, PERF_DATA_MAGIC_SWAPPED, 8) == 0;
	if (!info->is_swapped && memcmp(magic, PERF_DATA_MAGIC, 8) != 0)
		return -EBADMSG;
	data->is_swapped = info->is_swapped;
	header.order = info->is_swapped ? PMU_ORDER_OTHER : PMU_ORDER_OURS;
	uint64_t size = pmu_cursor_u64(&header);
	if (size == PIPE_HEADER_BYTES) {
		info->is_pipe = true;
		data->offset = PIPE_HEADER_BYTES;
		data->end = data->file_bytes;
		return 0;
	}
	if (size != FILE_HEADER_BYTES)
		return -EBADMSG;
	r = look(data, 0, FILE_HEADER_BYTES, &header);
	pmu_cursor_take(&header, PIPE_HEADER_BYTES);
	return r < 0 ? r : read_file_header(data, header);
}
