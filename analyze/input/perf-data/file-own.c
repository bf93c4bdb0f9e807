/*
 * Records that perf itself writes between those of the kernel: what a pipe tells instead of a
 * header, blocks of compressed records, and what has bytes behind it.
 */
#include <errno.h>
#include <linux/perf_event.h>

#include "analyze/input/perf-data/file-internal.h"

/* Types of records that perf itself writes, enum perf_user_event_type. */
enum {
	TYPE_HEADER_ATTR = 64,
	TYPE_TRACING_DATA = 66,
	TYPE_BUILD_ID = 67,
	TYPE_FINISHED_ROUND = 68,
	TYPE_AUXTRACE_INFO = 70,
	TYPE_AUXTRACE = 71,
	TYPE_EVENT_UPDATE = 78,
	TYPE_TIME_CONV = 79,
	TYPE_HEADER_FEATURE = 80,
	TYPE_COMPRESSED = 81,
	TYPE_COMPRESSED2 = 83,
	TYPE_LAST_KNOWN = 84, /* BPF_METADATA */
};

#define EVENT_UPDATE_NAME 2u

/* A record's body in the file's byte order. */
static struct perf_bytes body_of(const struct perf_data *data, const uint8_t *record,
				 size_t n_bytes)
{
	return (struct perf_bytes){ record + sizeof(struct perf_event_header), record + n_bytes,
				    data->is_swapped, false };
}

static int take_attr(struct perf_data *data, struct perf_bytes body)
{
	struct perf_bytes ids = body;

	perf_bytes_u32(&ids);
	uint32_t size = perf_bytes_u32(&ids);
	int r = perf_data_events_add(&data->events, body);

	if (r < 0)
		return r;
	ids.at = body.at + (size ? size : PERF_DATA_ATTR_BYTES);
	while (r == 0 && (size_t)(ids.end - ids.at) >= sizeof(uint64_t))
		r = perf_data_events_add_id(&data->events, perf_bytes_u64(&ids),
					    data->events.n - 1);
	return r;
}

static int take_update(struct perf_data *data, struct perf_bytes body)
{
	uint64_t what = perf_bytes_u64(&body);
	uint64_t id = perf_bytes_u64(&body);
	uint32_t event;

	if (body.is_short || what != EVENT_UPDATE_NAME ||
	    !perf_data_events_find(&data->events, id, &event))
		return 0;
	return perf_data_events_name(&data->events, event, (const char *)body.at,
				     (size_t)(body.end - body.at));
}

static int take_feature(struct perf_data *data, struct perf_bytes body)
{
	uint64_t feature = perf_bytes_u64(&body);

	if (body.is_short || feature >= PERF_DATA_FEATURES)
		return 0;
	return perf_data_features_add(&data->features, (unsigned)feature, body, &data->events);
}

static int take_time_conversion(struct perf_data *data, struct perf_bytes body)
{
	struct perf_data_info *info = &data->features.info;

	info->time_shift = perf_bytes_u64(&body);
	info->time_mult = perf_bytes_u64(&body);
	info->time_zero = perf_bytes_u64(&body);
	info->has_time_conversion = !body.is_short && info->time_mult && info->time_shift < 64;
	return 0;
}

static int take_aux_info(struct perf_data *data, struct perf_bytes body)
{
	data->features.info.aux_type = perf_bytes_u32(&body);
	return 0;
}

static int take_compressed(struct perf_data *data, struct perf_bytes body)
{
	data->is_unzipping = true;
	return perf_data_unzip_push(data->unzip, body.at, (size_t)(body.end - body.at));
}

static int take_compressed2(struct perf_data *data, struct perf_bytes body)
{
	uint64_t n = perf_bytes_u64(&body);

	if (n > (uint64_t)(body.end - body.at))
		return -EBADMSG;
	body.end = body.at + n;
	return take_compressed(data, body);
}

static const struct {
	uint32_t type;
	int (*take)(struct perf_data *data, struct perf_bytes body);
} takers[] = {
	{ TYPE_HEADER_ATTR, take_attr },	{ TYPE_EVENT_UPDATE, take_update },
	{ TYPE_HEADER_FEATURE, take_feature },	{ TYPE_TIME_CONV, take_time_conversion },
	{ TYPE_AUXTRACE_INFO, take_aux_info },	{ TYPE_COMPRESSED, take_compressed },
	{ TYPE_COMPRESSED2, take_compressed2 },
};

/* What has bytes behind it that its size does not count. */
static void take_aux(struct perf_data *data, struct perf_bytes body)
{
	uint64_t size = perf_bytes_u64(&body);

	data->aux = (struct perf_data_item){ .kind = PERF_DATA_AUX };
	data->aux.offset = perf_bytes_u64(&body);
	perf_bytes_u64(&body); /* reference */
	perf_bytes_u32(&body); /* idx */
	data->aux.tid = perf_bytes_u32(&body);
	data->aux.cpu = perf_bytes_u32(&body);
	if (body.is_short)
		data->damage.n_damaged_records++;
	else
		data->aux_left = size;
}

static void skip_tracing_data(struct perf_data *data, struct perf_bytes body)
{
	uint64_t n = ((uint64_t)perf_bytes_u32(&body) + 7) / 8 * 8;
	uint64_t left = data->end - data->offset;

	data->offset += n < left ? n : left;
}

int perf_data_take_own(struct perf_data *data, const struct perf_event_header *head,
		       const uint8_t *record, struct perf_data_item *ret_item)
{
	struct perf_bytes body = body_of(data, record, head->size);
	int r = 0;

	if (head->type == TYPE_FINISHED_ROUND) {
		*ret_item = (struct perf_data_item){ .kind = PERF_DATA_ROUND };
		return 1;
	}
	if (head->type == TYPE_AUXTRACE && !data->is_unzipping)
		take_aux(data, body);
	if (head->type == TYPE_TRACING_DATA && !data->is_unzipping)
		skip_tracing_data(data, body);
	if (head->type == TYPE_BUILD_ID)
		return perf_data_features_build_id(&data->features, head->misc, body);
	for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]); i++) {
		/* Nothing compressed lies in what is decompressed. */
		bool is_deeper = data->is_unzipping && takers[i].take != take_update;

		if (takers[i].type == head->type && !is_deeper)
			r = takers[i].take(data, body);
	}
	data->damage.n_damaged_records += r == -EBADMSG;
	data->damage.n_unknown_records += head->type > TYPE_LAST_KNOWN;
	return r == -EBADMSG ? 0 : r;
}
