#include "analyze/input/perf-data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/input/perf-data/file-internal.h"

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
	int r = perf_data_unzip_create(&data->unzip);
	if (r == 0)
		r = perf_data_read_header(data);
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
	if (head->type >= FIRST_TYPE_OF_PERF)
		return perf_data_take_own(data, head, record, ret_item);
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

/* The next record of the file itself. Returns as perf_data_take_own(). */
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

/* The next record of what is compressed. Returns as perf_data_take_own(). */
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

/* A piece of an AUX area. Returns as perf_data_take_own(). */
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
