#include "analyze/input/perf-data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "analyze/input/perf-data/file-internal.h"
#include "common/array.h"
#include "common/cleanup.h"

/*
 * The bytes of records of type COMPRESSED and COMPRESSED2: one zstd stream over all of them, in
 * which a record may begin in one and end in the next.
 */

/* As much as is decompressed at once, and a record that began before it. */
#define ROOM_BYTES ((256u << 10) + (64u << 10))

/*
 * perf's records become a tenth or so; more than this of what was read is made to exhaust a reader.
 */
#define MOST_TIMES    2000u
#define ALLOWED_BYTES (UINT64_C(64) << 20)

struct perf_data_unzip {
	ZSTD_DCtx *zstd;
	uint8_t *in;
	size_t n_in;
	size_t in_at;
	size_t in_room;
	uint8_t *out; /* ROOM_BYTES, 8-byte aligned */
	size_t n_out;
	size_t out_at;
	uint64_t n_in_all;
	uint64_t n_out_all;
	bool may_have_more; /* the last output filled its room */
};

static struct perf_data_unzip *perf_data_unzip_destroy(struct perf_data_unzip *unzip)
{
	if (!unzip)
		return NULL;
	ZSTD_freeDCtx(unzip->zstd);
	free_all(unzip->in, unzip->out, unzip);
	return NULL;
}

static int perf_data_unzip_create(struct perf_data_unzip **ret_unzip)
{
	struct perf_data_unzip *unzip = calloc(1, sizeof(*unzip));

	if (!unzip)
		return -ENOMEM;
	unzip->zstd = ZSTD_createDCtx();
	unzip->out = malloc(ROOM_BYTES);
	if (!unzip->zstd || !unzip->out)
		return perf_data_unzip_destroy(unzip), -ENOMEM;
	*ret_unzip = unzip;
	return 0;
}

/* Compressed bytes; read on with perf_data_unzip_look() until it gives nothing. They are copied. */
static int perf_data_unzip_push(struct perf_data_unzip *unzip, const void *bytes, size_t n_bytes)
{
	if (grow_array_by(&unzip->in, 0, n_bytes, &unzip->in_room, 1) < 0)
		return -ENOMEM;
	if (n_bytes)
		memcpy(unzip->in, bytes, n_bytes);
	unzip->n_in = n_bytes;
	unzip->in_at = 0;
	unzip->n_in_all += n_bytes;
	return 0;
}

/*
 * Move what is left to the front: records then begin at multiples of 8 for as long as they are
 * such.
 */
static void make_room(struct perf_data_unzip *unzip)
{
	memmove(unzip->out, unzip->out + unzip->out_at, unzip->n_out - unzip->out_at);
	unzip->n_out -= unzip->out_at;
	unzip->out_at = 0;
}

static int decompress(struct perf_data_unzip *unzip)
{
	make_room(unzip);
	ZSTD_inBuffer in = { unzip->in, unzip->n_in, unzip->in_at };
	ZSTD_outBuffer out = { unzip->out, ROOM_BYTES, unzip->n_out };
	size_t left = ZSTD_decompressStream(unzip->zstd, &out, &in);

	if (ZSTD_isError(left))
		return -EBADMSG;
	bool has_moved = in.pos > unzip->in_at || out.pos > unzip->n_out;
	unzip->n_out_all += out.pos - unzip->n_out;
	unzip->in_at = in.pos;
	unzip->n_out = out.pos;
	unzip->may_have_more = out.pos == ROOM_BYTES;
	if (unzip->n_out_all > ALLOWED_BYTES + MOST_TIMES * unzip->n_in_all)
		return -EBADMSG;
	return has_moved || unzip->in_at == unzip->n_in ? 0 : -EBADMSG;
}

/*
 * The decompressed bytes at hand, of which n_used were used since the last call: at least n_wanted
 * when there are so many. *ret_n may be less. 0, -EBADMSG: damaged or absurd, -ENOMEM.
 */
static int perf_data_unzip_look(struct perf_data_unzip *unzip, size_t n_wanted,
				const uint8_t **ret_bytes, size_t *ret_n)
{
	while (unzip->n_out - unzip->out_at < n_wanted &&
	       (unzip->in_at < unzip->n_in || unzip->may_have_more)) {
		int r = decompress(unzip);
		if (r < 0)
			return r;
	}
	*ret_bytes = unzip->out + unzip->out_at;
	*ret_n = unzip->n_out - unzip->out_at;
	return 0;
}

/* Types of records from here on are perf's own, enum perf_user_event_type. */
#define FIRST_TYPE_OF_PERF 64u

/* Pieces of AUX are read as a whole. */
#define AUX_PIECE_BYTES (1u << 20)

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
	int r = perf_data_unzip_create(&data->unzip) ?: perf_data_read_header(data);
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
	free_all(data->copy, data);
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

DEFINE_ORDER(compare_builds, struct perf_data_build, strcmp(a->path, b->path));

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

/*
 * Records that perf itself writes between those of the kernel: what a pipe tells instead of a
 * header, blocks of compressed records, and what has bytes behind it.
 */

/* Types of records that perf itself writes, enum perf_user_event_type. */
enum {
	TYPE_HEADER_ATTR = 64,
	TYPE_TRACING_DATA = 66,
	TYPE_BUILD_ID = 67,
	TYPE_FINISHED_ROUND = 68,
	TYPE_AUXTRACE_INFO = 70,
	TYPE_AUXTRACE = 71,
	TYPE_EVENT_UPDATE = 78,
	TYPE_HEADER_FEATURE = 80,
	TYPE_COMPRESSED = 81,
	TYPE_COMPRESSED2 = 83,
	TYPE_LAST_KNOWN = 84, /* BPF_METADATA */
};

#define EVENT_UPDATE_NAME 2u

static int take_attr(struct perf_data *data, struct pmu_cursor body)
{
	struct pmu_cursor ids = body;

	pmu_cursor_u32(&ids);
	uint32_t size = pmu_cursor_u32(&ids);
	int r = perf_data_events_add(&data->events, body);

	if (r < 0)
		return r;
	ids.at = body.at + (size ? size : PERF_DATA_ATTR_BYTES);
	while (r == 0 && (size_t)(ids.end - ids.at) >= sizeof(uint64_t))
		r = perf_data_events_add_id(&data->events, pmu_cursor_u64(&ids),
					    data->events.n - 1);
	return r;
}

static int take_update(struct perf_data *data, struct pmu_cursor body)
{
	uint64_t what = pmu_cursor_u64(&body);
	uint64_t id = pmu_cursor_u64(&body);
	uint32_t event;

	if (body.is_short || what != EVENT_UPDATE_NAME ||
	    !perf_data_events_find(&data->events, id, &event))
		return 0;
	return perf_data_events_name(&data->events, event, (const char *)body.at,
				     (size_t)(body.end - body.at));
}

static int take_feature(struct perf_data *data, struct pmu_cursor body)
{
	uint64_t feature = pmu_cursor_u64(&body);

	if (body.is_short || feature >= PERF_DATA_FEATURES)
		return 0;
	return perf_data_features_add(&data->features, (unsigned)feature, body, &data->events);
}

static int take_aux_info(struct perf_data *data, struct pmu_cursor body)
{
	data->features.info.aux_type = pmu_cursor_u32(&body);
	return 0;
}

static int take_compressed(struct perf_data *data, struct pmu_cursor body)
{
	data->is_unzipping = true;
	return perf_data_unzip_push(data->unzip, body.at, (size_t)(body.end - body.at));
}

static int take_compressed2(struct perf_data *data, struct pmu_cursor body)
{
	uint64_t n = pmu_cursor_u64(&body);

	if (n > (uint64_t)(body.end - body.at))
		return -EBADMSG;
	body.end = body.at + n;
	return take_compressed(data, body);
}

static const struct {
	uint32_t type;
	int (*take)(struct perf_data *data, struct pmu_cursor body);
} takers[] = {
	{ TYPE_HEADER_ATTR, take_attr },       { TYPE_EVENT_UPDATE, take_update },
	{ TYPE_HEADER_FEATURE, take_feature }, { TYPE_AUXTRACE_INFO, take_aux_info },
	{ TYPE_COMPRESSED, take_compressed },  { TYPE_COMPRESSED2, take_compressed2 },
};

/* What has bytes behind it that its size does not count. */
static void take_aux(struct perf_data *data, struct pmu_cursor body)
{
	uint64_t size = pmu_cursor_u64(&body);

	data->aux = (struct perf_data_item){ .kind = PERF_DATA_AUX };
	data->aux.offset = pmu_cursor_u64(&body);
	pmu_cursor_u64(&body); /* reference */
	pmu_cursor_u32(&body); /* idx */
	data->aux.tid = pmu_cursor_u32(&body);
	data->aux.cpu = pmu_cursor_u32(&body);
	if (body.is_short)
		data->damage.n_damaged_records++;
	else
		data->aux_left = size;
}

static void skip_tracing_data(struct perf_data *data, struct pmu_cursor body)
{
	uint64_t n = ((uint64_t)pmu_cursor_u32(&body) + 7) / 8 * 8;
	uint64_t left = data->end - data->offset;

	data->offset += n < left ? n : left;
}

/*
 * Take a record that perf itself wrote; head is its own in our byte order. Returns 1 with an item,
 * 0 without, or a negative errno.
 */
static int take_own(struct perf_data *data, const struct perf_event_header *head,
		    const uint8_t *record, struct perf_data_item *ret_item)
{
	struct pmu_cursor body = perf_data_cursor(record + sizeof(*head),
						  head->size - sizeof(*head), data->is_swapped);
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
		if (pmu_record_turn(format, data->copy, head->size) < 0)
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
	if (head->type >= FIRST_TYPE_OF_PERF)
		return take_own(data, head, record, ret_item);
	if (head->size % sizeof(uint64_t)) {
		data->damage.n_damaged_records++;
		return 0;
	}
	return take_record(data, head, record, ret_item);
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
	struct perf_event_header head = perf_data_head(bytes, data->is_swapped);
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
		head = perf_data_head(bytes, data->is_swapped);
		r = head.size < sizeof(head)
			    ? -EBADMSG
			    : perf_data_unzip_look(data->unzip, head.size, &bytes, &n);
	}
	if (r == -EBADMSG) {
		data->damage.n_damaged_blocks++;
		/* Forget what is there: what follows belongs to another stream. */
		ZSTD_DCtx_reset(data->unzip->zstd, ZSTD_reset_session_only);
		data->unzip->n_in = data->unzip->in_at = 0;
		data->unzip->n_out = data->unzip->out_at = 0;
		data->unzip->may_have_more = false;
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
	data->unzip->out_at += head.size;
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
