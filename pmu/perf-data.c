#include "pmu/perf-data.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "pmu/perf-data-internal.h"

/* Types of records that perf itself writes, enum perf_user_event_type. */
enum {
	TYPE_FIRST_OF_PERF = 64,
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

#define FILE_HEADER_BYTES 104u
#define PIPE_HEADER_BYTES 16u
#define FEATURE_WORDS	  4u
#define N_FEATURES	  (64 * FEATURE_WORDS)
#define SECTION_BYTES	  16u
#define ATTR_LEAST_BYTES  64u
#define ATTR_MOST_BYTES	  4096u

/* Larger is damage: feature sections and pieces of AUX are read as a whole. */
#define SECTION_MOST_BYTES (UINT64_C(64) << 20)
#define AUX_PIECE_BYTES	   (1u << 20)

#define EVENT_UPDATE_NAME 2u

struct section {
	uint64_t offset;
	uint64_t size;
};

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

/* ---- Opening ---- */

/* Bytes of the file as a whole; -EBADMSG when they are not there. */
static int look(struct perf_data *data, uint64_t offset, uint64_t n_bytes,
		struct perf_bytes *ret_bytes)
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
	*ret_bytes = (struct perf_bytes){ bytes, bytes + n_bytes, data->is_swapped, false };
	return 0;
}

static struct section take_section(struct perf_bytes *bytes)
{
	uint64_t offset = perf_bytes_u64(bytes);

	return (struct section){ offset, perf_bytes_u64(bytes) };
}

static int add_ids(struct perf_data *data, struct section ids, size_t event)
{
	struct perf_bytes bytes;
	int r = look(data, ids.offset, ids.size, &bytes);

	for (uint64_t i = 0; r == 0 && i < ids.size / sizeof(uint64_t); i++)
		r = perf_data_events_add_id(&data->events, perf_bytes_u64(&bytes), event);
	return r;
}

/* Each is an attr and the section of its ids. */
static int read_attrs(struct perf_data *data, struct section attrs, uint64_t item_bytes)
{
	int r = 0;

	if (item_bytes < ATTR_LEAST_BYTES + SECTION_BYTES || item_bytes > ATTR_MOST_BYTES)
		return -EBADMSG;
	for (uint64_t i = 0; r == 0 && i < attrs.size / item_bytes; i++) {
		struct perf_bytes attr;

		r = look(data, attrs.offset + i * item_bytes, item_bytes, &attr);
		if (r < 0)
			break;
		struct perf_bytes behind = attr;
		attr.end -= SECTION_BYTES;
		behind.at = attr.end;
		struct section ids = take_section(&behind);
		r = perf_data_events_add(&data->events, attr);
		if (r == 0)
			r = add_ids(data, ids, data->events.n - 1);
	}
	return r;
}

/* A feature that is not there is none: perf may have been killed before it wrote them. */
static int read_feature(struct perf_data *data, unsigned feature, uint64_t at)
{
	struct perf_bytes bytes = { 0 };
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
static bool has_feature(const struct perf_bytes *bits, unsigned feature)
{
	struct perf_bytes word = *bits;

	word.at += feature / 64 * sizeof(uint64_t);
	return perf_bytes_u64(&word) >> feature % 64 & 1;
}

static int read_features(struct perf_data *data, const uint8_t bits[], uint64_t at)
{
	const struct perf_bytes words = { bits, bits + FEATURE_WORDS * sizeof(uint64_t),
					  data->is_swapped, false };
	int r = 0;

	for (unsigned feature = 0; r == 0 && feature < N_FEATURES; feature++) {
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

static int read_file_header(struct perf_data *data, struct perf_bytes header)
{
	uint8_t bits[FEATURE_WORDS * sizeof(uint64_t)];
	uint64_t attr_bytes = perf_bytes_u64(&header);
	struct section attrs = take_section(&header);
	struct section records = take_section(&header);

	take_section(&header); /* event types: no more written since Linux 3.9 */
	memcpy(bits, header.at, sizeof(bits));
	int r = set_records(data, records);
	if (r == 0)
		r = read_attrs(data, attrs, attr_bytes);
	if (r == 0 && data->events.n == 0)
		r = -EBADMSG;
	return r < 0 || data->damage.is_cut ? r : read_features(data, bits, data->end);
}

static int read_header(struct perf_data *data)
{
	struct perf_data_info *info = &data->features.info;
	struct perf_bytes header;
	int r = look(data, 0, PIPE_HEADER_BYTES, &header);

	if (r < 0)
		return r;
	const char *magic = perf_bytes_take(&header, sizeof(uint64_t));
	info->is_swapped = memcmp(magic, PERF_DATA_MAGIC_SWAPPED, 8) == 0;
	if (!info->is_swapped && memcmp(magic, PERF_DATA_MAGIC, 8) != 0)
		return -EBADMSG;
	data->is_swapped = header.is_swapped = info->is_swapped;
	uint64_t size = perf_bytes_u64(&header);
	if (size == PIPE_HEADER_BYTES) {
		info->is_pipe = true;
		data->offset = PIPE_HEADER_BYTES;
		data->end = data->file_bytes;
		return 0;
	}
	if (size != FILE_HEADER_BYTES)
		return -EBADMSG;
	r = look(data, 0, FILE_HEADER_BYTES, &header);
	perf_bytes_take(&header, PIPE_HEADER_BYTES);
	return r < 0 ? r : read_file_header(data, header);
}

int perf_data_open(const char *path, struct perf_data **ret_data)
{
	auto_perf_data struct perf_data *data = calloc(1, sizeof(*data));
	struct stat st;

	if (!data)
		return -ENOMEM;
	data->window.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (data->window.fd < 0 || fstat(data->window.fd, &st) < 0)
		return -errno;
	data->file_bytes = (uint64_t)st.st_size;
	data->copy = malloc(UINT16_MAX + 1);
	if (!data->copy)
		return -ENOMEM;
	int r = perf_data_unzip_create(&data->unzip);
	if (r == 0)
		r = read_header(data);
	if (r < 0)
		return r;
	*ret_data = data;
	data = NULL;
	return 0;
}

struct perf_data *perf_data_close(struct perf_data *data)
{
	if (!data)
		return NULL;
	if (data->window.fd >= 0)
		close(data->window.fd);
	trace_window_finish(&data->window);
	perf_data_unzip_destroy(data->unzip);
	perf_data_events_finish(&data->events);
	perf_data_features_finish(&data->features);
	free(data->copy);
	free(data);
	return NULL;
}

/* ---- What was told ---- */

size_t perf_data_n_events(const struct perf_data *data)
{
	return data->events.n;
}

const struct perf_data_event *perf_data_event(const struct perf_data *data, size_t index)
{
	return &data->events.events[index];
}

const struct perf_data_info *perf_data_info(const struct perf_data *data)
{
	return &data->features.info;
}

const struct perf_data_damage *perf_data_damage(const struct perf_data *data)
{
	return &data->damage;
}

uint64_t perf_data_offset(const struct perf_data *data)
{
	return data->offset;
}

const char *perf_data_pmu(const struct perf_data *data, uint32_t type)
{
	for (size_t i = 0; i < data->features.n_pmus; i++) {
		if (data->features.pmus[i].type == type)
			return data->features.pmus[i].name;
	}
	return NULL;
}

static int compare_builds(const void *a, const void *b)
{
	return strcmp(((const struct perf_data_build *)a)->path,
		      ((const struct perf_data_build *)b)->path);
}

size_t perf_data_build_id(struct perf_data *data, const char *path, const uint8_t **ret_build_id)
{
	struct perf_data_features *features = &data->features;
	const struct perf_data_build key = { .path = (char *)(uintptr_t)path };

	if (features->n_builds == 0)
		return 0;
	if (!features->is_sorted &&
	    !perf_data_may_sort(&features->n_sorted_in_all, features->n_builds)) {
		data->damage.n_damaged_records++;
		return 0;
	}
	if (!features->is_sorted)
		qsort(features->builds, features->n_builds, sizeof(key), compare_builds);
	features->is_sorted = true;
	const struct perf_data_build *build =
		bsearch(&key, features->builds, features->n_builds, sizeof(key), compare_builds);
	if (!build)
		return 0;
	*ret_build_id = build->id;
	return build->n_bytes;
}

/* ---- Records of perf itself: 0 or a negative errno ---- */

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
	ids.at = body.at + (size ? size : ATTR_LEAST_BYTES);
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

	if (body.is_short || feature >= N_FEATURES)
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

/* A record that perf wrote. Returns 1 with an item, 0 without, or a negative errno. */
static int take_own(struct perf_data *data, const struct perf_event_header *head,
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

/* ---- Records ---- */

/* A record where it can be read: in our byte order, at a multiple of 8. NULL: it is damaged. */
static const uint8_t *settle(struct perf_data *data, const struct perf_event_header *head,
			     const uint8_t *record, uint32_t event)
{
	const struct pmu_format *format = &data->events.events[event].format;

	if (!data->is_swapped && (uintptr_t)record % sizeof(uint64_t) == 0)
		return record;
	memcpy(data->copy, record, head->size);
	if (data->is_swapped) {
		memcpy(data->copy, head, sizeof(*head));
		if (!perf_data_swap_body(format, data->copy, head->size))
			return NULL;
	}
	return data->copy;
}

/* A record of the kernel. Returns 1 with an item, or 0 without. */
static int take_record(struct perf_data *data, const struct perf_event_header *head,
		       const uint8_t *record, struct perf_data_item *ret_item)
{
	uint32_t event;

	if (!perf_data_events_of(&data->events, head, record, data->is_swapped, &event)) {
		data->damage.n_nameless_records++;
		return 0;
	}
	record = settle(data, head, record, event);
	if (!record) {
		data->damage.n_damaged_records++;
		return 0;
	}
	*ret_item = (struct perf_data_item){ .kind = PERF_DATA_RECORD,
					     .type = head->type,
					     .event = event,
					     .bytes = record,
					     .n_bytes = head->size };
	return 1;
}

/* One that was found. Returns 1 with an item, 0 without, or a negative errno. */
static int take_any(struct perf_data *data, const struct perf_event_header *head,
		    const uint8_t *record, struct perf_data_item *ret_item)
{
	if (head->type >= TYPE_FIRST_OF_PERF)
		return take_own(data, head, record, ret_item);
	if (head->size % sizeof(uint64_t)) {
		data->damage.n_damaged_records++;
		return 0;
	}
	return take_record(data, head, record, ret_item);
}

static struct perf_event_header read_head(const struct perf_data *data, const uint8_t *bytes)
{
	struct perf_event_header head;

	memcpy(&head, bytes, sizeof(head));
	if (data->is_swapped)
		perf_data_swap_head(&head);
	return head;
}

/* No telling where the next one begins. */
static int give_up(struct perf_data *data)
{
	data->damage.n_unread_bytes += data->end - data->offset;
	data->damage.is_cut = true;
	data->offset = data->end;
	return 0;
}

/* The next record of the file itself. Returns as take_own(). */
static int next_of_file(struct perf_data *data, struct perf_data_item *ret_item)
{
	const uint8_t *bytes;
	uint64_t left = data->end - data->offset;
	size_t n_wanted = left < UINT16_MAX ? (size_t)left : UINT16_MAX;
	ssize_t n = trace_window_look(&data->window, data->offset, n_wanted, &bytes);

	if (n < 0)
		return (int)n;
	if ((size_t)n < sizeof(struct perf_event_header))
		return give_up(data);
	struct perf_event_header head = read_head(data, bytes);
	if (head.size < sizeof(head) || head.size > (size_t)n)
		return give_up(data);
	data->offset += head.size;
	return take_any(data, &head, bytes, ret_item);
}

/* The next record of what is compressed. Returns as take_own(). */
static int next_of_unzip(struct perf_data *data, struct perf_data_item *ret_item)
{
	struct perf_event_header head = { .size = sizeof(head) };
	const uint8_t *bytes;
	size_t n;
	int r = perf_data_unzip_look(data->unzip, sizeof(head), &bytes, &n);

	if (r == 0 && n >= sizeof(head)) {
		head = read_head(data, bytes);
		r = head.size < sizeof(head)
			    ? -EBADMSG
			    : perf_data_unzip_look(data->unzip, head.size, &bytes, &n);
	}
	if (r == -EBADMSG) {
		data->damage.n_damaged_blocks++;
		perf_data_unzip_reset(data->unzip);
		data->is_unzipping = false;
		return 0;
	}
	if (r < 0)
		return r;
	if (n < head.size) { /* the rest of it is in the next block */
		data->is_unzipping = false;
		return 0;
	}
	r = take_any(data, &head, bytes, ret_item);
	perf_data_unzip_drop(data->unzip, head.size);
	return r;
}

/* A piece of an AUX area. Returns as take_own(). */
static int next_of_aux(struct perf_data *data, struct perf_data_item *ret_item)
{
	const uint8_t *bytes;
	size_t n_wanted = data->aux_left < AUX_PIECE_BYTES ? data->aux_left : AUX_PIECE_BYTES;
	uint64_t left = data->end - data->offset;
	ssize_t n = trace_window_look(&data->window, data->offset,
				      n_wanted < left ? n_wanted : left, &bytes);

	if (n < 0)
		return (int)n;
	if (n == 0) {
		data->damage.n_unread_bytes += data->aux_left;
		data->damage.is_cut = true;
		data->aux_left = 0;
		return 0;
	}
	*ret_item = data->aux;
	ret_item->bytes = bytes;
	ret_item->n_bytes = (size_t)n;
	data->aux.offset += (uint64_t)n;
	data->aux_left -= (uint64_t)n;
	data->offset += (uint64_t)n;
	return 1;
}

int perf_data_next(struct perf_data *data, struct perf_data_item *ret_item)
{
	int r = 0;

	while (r == 0) {
		if (data->aux_left)
			r = next_of_aux(data, ret_item);
		else if (data->is_unzipping)
			r = next_of_unzip(data, ret_item);
		else if (data->offset < data->end)
			r = next_of_file(data, ret_item);
		else
			break;
	}
	return r;
}
