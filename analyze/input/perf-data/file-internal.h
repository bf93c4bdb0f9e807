#pragma once
/* Shared by perf-data*.c. */
#include <string.h>

#include "analyze/input/perf-data/file.h"
#include "trace/window.h"

/*
 * Bytes of the file's byte order, walked through. Behind the end all reads as 0, is_short stays
 * set.
 */
struct perf_bytes {
	const uint8_t *at;
	const uint8_t *end;
	bool is_swapped;
	bool is_short;
};

static inline const void *perf_bytes_take(struct perf_bytes *bytes, uint64_t n_bytes)
{
	const void *at = bytes->at;

	if (bytes->is_short || n_bytes > (uint64_t)(bytes->end - bytes->at)) {
		bytes->is_short = true;
		return NULL;
	}
	bytes->at += n_bytes;
	return at;
}

static inline uint64_t perf_bytes_u64(struct perf_bytes *bytes)
{
	const void *at = perf_bytes_take(bytes, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return bytes->is_swapped ? __builtin_bswap64(value) : value;
}

static inline uint32_t perf_bytes_u32(struct perf_bytes *bytes)
{
	const void *at = perf_bytes_take(bytes, sizeof(uint32_t));
	uint32_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return bytes->is_swapped ? __builtin_bswap32(value) : value;
}

/*
 * May n more items be sorted? perf tells what it sorts before it is asked for, or nearly; a file
 * that tells one more before each question would have all of them sorted as often.
 */
static inline bool perf_data_may_sort(uint64_t *n_in_all, size_t n)
{
	*n_in_all += n;
	return *n_in_all <= UINT64_C(1) << 26;
}

/* ---- file-features.c ---- */

struct perf_data_id {
	uint64_t id;
	uint32_t event;
};

struct perf_data_events {
	struct perf_data_event *events;
	size_t n;
	size_t n_allocated;
	struct perf_data_id *ids; /* by id, once sorted */
	size_t n_ids;
	size_t n_ids_allocated;
	bool is_sorted;
	uint64_t n_sorted_in_all; /* see perf_data_may_sort() */
	struct perf_data_id last; /* the last answer, often the next one's */
};

void perf_data_events_finish(struct perf_data_events *events);

/* Add an event from its perf_event_attr as it lies in the file. 0, -EBADMSG or -ENOMEM. */
int perf_data_events_add(struct perf_data_events *events, struct perf_bytes attr);

/* The id is one of an event's. Unlimited numbers are refused: -EBADMSG. */
int perf_data_events_add_id(struct perf_data_events *events, uint64_t id, size_t event);

/* The event of an id; false: none. */
bool perf_data_events_find(struct perf_data_events *events, uint64_t id, uint32_t *ret_event);

/* Call an event by a name of n bytes. 0 or -ENOMEM. */
int perf_data_events_name(struct perf_data_events *events, size_t event, const char *name,
			  size_t n);

/*
 * The event of a record; head is its own in our byte order, the rest of it may be swapped. Returns
 * false when the file has none for it.
 */
struct perf_event_header;
bool perf_data_events_of(struct perf_data_events *events, const struct perf_event_header *head,
			 const void *record, bool is_swapped, uint32_t *ret_event);

/* ---- file-byte-order.c ---- */

/*
 * Put the head (type, misc, size) of a record into our byte order, or the body of one whose head
 * is. false: its fields do not fit into it.
 */
void perf_data_swap_head(void *record);
bool perf_data_swap_body(const struct pmu_format *format, void *record, size_t n_bytes);

/*
 * Where an id lies in a SAMPLE, from its start, and in other records, from their end; the same in
 * both orders. 0: it has none.
 */
size_t perf_data_sample_id_at(const struct pmu_format *format);
size_t perf_data_trailer_id_at(const struct pmu_format *format);

/* ---- file-features.c ---- */

struct perf_data_pmu {
	uint32_t type;
	char *name;
};

struct perf_data_build {
	char *path;
	uint8_t n_bytes;
	uint8_t id[20];
};

struct perf_data_features {
	struct perf_data_info info;
	struct perf_data_pmu *pmus;
	size_t n_pmus;
	struct perf_data_build *builds; /* by path, once sorted */
	size_t n_builds;
	size_t n_builds_allocated;
	bool is_sorted;
	uint64_t n_sorted_in_all;
};

void perf_data_features_finish(struct perf_data_features *features);

/* A feature's contents; what is damaged or unknown is left out. 0 or -ENOMEM. */
int perf_data_features_add(struct perf_data_features *features, unsigned feature,
			   struct perf_bytes bytes, struct perf_data_events *events);

/* The body of a record of type BUILD_ID, behind its head. 0 or -ENOMEM. */
int perf_data_features_build_id(struct perf_data_features *features, uint16_t misc,
				struct perf_bytes bytes);

/* ---- file.c ---- */

struct perf_data_unzip;

struct perf_data {
	struct trace_window window;
	uint64_t file_bytes;
	uint64_t offset; /* of the next record */
	uint64_t end; /* of the records */
	uint64_t aux_left; /* bytes of the AUXTRACE at hand */
	struct perf_data_item aux; /* what they belong to */
	bool is_swapped;
	bool is_unzipping; /* records come out of unzip until it has none */
	struct perf_data_unzip *unzip;
	uint8_t *copy; /* 64 KiB: a record that is not aligned or swapped */
	struct perf_data_events events;
	struct perf_data_features features;
	struct perf_data_damage damage;
};

/* ---- file-header.c ---- */

#define PERF_DATA_ATTR_BYTES 64u /* of the first perf_event_attr: what an attr has at least */
#define PERF_DATA_FEATURES   256u

/*
 * Read the header of a file or of a pipe, up to its first record. 0, -EBADMSG: it is none, or
 * errno.
 */
int perf_data_read_header(struct perf_data *data);

/* ---- file.c: what perf itself adds to a file ---- */

/*
 * Take a record that perf itself wrote; head is its own in our byte order. Returns 1 with an item,
 * 0 without, or a negative errno.
 */
int perf_data_take_own(struct perf_data *data, const struct perf_event_header *head,
		       const uint8_t *record, struct perf_data_item *ret_item);
