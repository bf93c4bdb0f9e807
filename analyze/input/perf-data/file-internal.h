#pragma once
/* Shared by perf-data*.c. */
#include <linux/perf_event.h>
#include <string.h>

#include "analyze/input/perf-data/file.h"
#include "perf/cursor.h"
#include "trace/window.h"

/* Bytes of a file, whose numbers may be of the other byte order. */
static inline struct pmu_cursor perf_data_cursor(const void *bytes, size_t n_bytes, bool is_swapped)
{
	return (struct pmu_cursor){ .at = bytes,
				    .end = (const uint8_t *)bytes + n_bytes,
				    .order = is_swapped ? PMU_ORDER_OTHER : PMU_ORDER_OURS };
}

/* The head of a record, in our byte order. */
static inline struct perf_event_header perf_data_head(const void *bytes, bool is_swapped)
{
	struct perf_event_header head;

	memcpy(&head, bytes, sizeof(head));
	if (is_swapped)
		head = (struct perf_event_header){ __builtin_bswap32(head.type),
						   __builtin_bswap16(head.misc),
						   __builtin_bswap16(head.size) };
	return head;
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
int perf_data_events_add(struct perf_data_events *events, struct pmu_cursor attr);

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
bool perf_data_events_of(struct perf_data_events *events, const struct perf_event_header *head,
			 const void *record, bool is_swapped, uint32_t *ret_event);

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
			   struct pmu_cursor bytes, struct perf_data_events *events);

/* The body of a record of type BUILD_ID, behind its head. 0 or -ENOMEM. */
int perf_data_features_build_id(struct perf_data_features *features, uint16_t misc,
				struct pmu_cursor bytes);

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
