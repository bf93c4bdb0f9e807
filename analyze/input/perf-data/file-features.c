#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/input/perf-data/file-internal.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/text-stream.h"

/* The events of a perf.data: their attributes in every size and order, and who an id means. */

/* More are damage: a host has some thousand CPUs and a recording a few dozen events. */
#define MAX_EVENTS 65536u
#define MAX_IDS	   (1u << 22)

/* The first version of perf_event_attr, of Linux 2.6.32, in which size could be 0. */
#define ATTR_LEAST_BYTES 64u

void perf_data_events_finish(struct perf_data_events *events)
{
	array_free(events->events, events->n, it, free(it->name));
	free(events->ids);
	*events = (struct perf_data_events){ 0 };
}

/* Bit fields are counted from a byte's other end in the other order; the bytes themselves stay. */
static uint64_t take_flags(struct pmu_cursor *bytes)
{
	const uint8_t *at = pmu_cursor_take(bytes, sizeof(uint64_t));
	uint64_t flags = 0;

	for (unsigned bit = 0; at && bit < 64; bit++) {
		unsigned from = bytes->order == PMU_ORDER_OURS ? bit % 8 : 7 - bit % 8;

		flags |= (uint64_t)(at[bit / 8] >> from & 1) << bit;
	}
	return flags;
}

/* Bits of perf_event_attr behind read_format, from the lowest. */
#define FLAG_EXCLUDE_USER   (UINT64_C(1) << 4)
#define FLAG_EXCLUDE_KERNEL (UINT64_C(1) << 5)
#define FLAG_FREQ	    (UINT64_C(1) << 10)
#define SHIFT_PRECISE_IP    15
#define FLAG_SAMPLE_ID_ALL  (UINT64_C(1) << 18)
#define FLAG_USE_CLOCKID    (UINT64_C(1) << 25)

static void read_flags(struct perf_data_event *event, uint64_t flags, uint64_t period)
{
	event->exclude_user = flags & FLAG_EXCLUDE_USER;
	event->exclude_kernel = flags & FLAG_EXCLUDE_KERNEL;
	event->has_clock_id = flags & FLAG_USE_CLOCKID;
	event->precise = flags >> SHIFT_PRECISE_IP & 3;
	event->format.has_no_trailer = !(flags & FLAG_SAMPLE_ID_ALL);
	if (flags & FLAG_FREQ)
		event->frequency_hz = period;
	else
		event->period = period;
}

/* Fields behind the end of an older attr read as 0, which is what they meant then. */
static void read_attr(struct perf_data_event *event, struct pmu_cursor *attr)
{
	struct pmu_cursor *bytes = attr;

	event->type = pmu_cursor_u32(bytes);
	pmu_cursor_u32(bytes); /* size */
	event->config = pmu_cursor_u64(bytes);
	uint64_t period = pmu_cursor_u64(bytes);
	event->format.sample_type = pmu_cursor_u64(bytes);
	event->format.read_format = pmu_cursor_u64(bytes);
	read_flags(event, take_flags(bytes), period);
	pmu_cursor_u32(bytes); /* wakeup */
	pmu_cursor_u32(bytes); /* bp_type */
	event->config1 = pmu_cursor_u64(bytes);
	event->config2 = pmu_cursor_u64(bytes);
	event->format.branch_sample_type = pmu_cursor_u64(bytes);
	event->format.regs_user = pmu_cursor_u64(bytes);
	event->stack_bytes = pmu_cursor_u32(bytes);
	event->clock_id = (int32_t)pmu_cursor_u32(bytes);
	event->format.regs_intr = pmu_cursor_u64(bytes);
}

int perf_data_events_add(struct perf_data_events *events, struct pmu_cursor attr)
{
	struct pmu_cursor head = attr;
	struct perf_data_event event = { 0 };

	pmu_cursor_u32(&head);
	uint32_t size = pmu_cursor_u32(&head);
	size = size ?: ATTR_LEAST_BYTES;
	if (size < ATTR_LEAST_BYTES || size > (size_t)(attr.end - attr.at) ||
	    events->n >= MAX_EVENTS)
		return -EBADMSG;
	attr.end = attr.at + size;
	read_attr(&event, &attr);

	return array_add(events->events, events->n, events->n_allocated, event);
}

int perf_data_events_add_id(struct perf_data_events *events, uint64_t id, size_t event)
{
	if (events->n_ids >= MAX_IDS)
		return -EBADMSG;
	int r = grow_one(&events->ids, events->n_ids, &events->n_ids_allocated);
	if (r < 0)
		return r;
	events->ids[events->n_ids++] = (struct perf_data_id){ id, (uint32_t)event };
	events->is_sorted = false;
	return 0;
}

DEFINE_ORDER(compare_ids, struct perf_data_id, BY(id) ?: BY(event));

/* The first of that id or behind it. */
static size_t position_of(const struct perf_data_events *events, uint64_t id)
{
	return array_n_while(events->ids, events->n_ids, it, it->id < id);
}

bool perf_data_events_find(struct perf_data_events *events, uint64_t id, uint32_t *ret_event)
{
	if (!events->is_sorted && events->n_ids) {
		if (!perf_data_may_sort(&events->n_sorted_in_all, events->n_ids))
			return false;
		qsort(events->ids, events->n_ids, sizeof(*events->ids), compare_ids);
		events->is_sorted = true;
		events->last = events->ids[0];
	}
	if (events->n_ids == 0)
		return false;
	if (events->last.id != id) {
		size_t at = position_of(events, id);

		if (at == events->n_ids || events->ids[at].id != id)
			return false;
		events->last = events->ids[at];
	}
	*ret_event = events->last.event;
	return true;
}

int perf_data_events_name(struct perf_data_events *events, size_t event, const char *name, size_t n)
{
	char *copy = strndup(name, n);

	if (!copy)
		return -ENOMEM;
	free(events->events[event].name);
	events->events[event].name = copy;
	return 0;
}

/* Where an id lies in a SAMPLE, from its start; 0: it has none. */
static size_t sample_id_at(const struct pmu_format *format)
{
	uint64_t before = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;

	if (format->sample_type & PERF_SAMPLE_IDENTIFIER)
		return sizeof(struct perf_event_header);
	if (!(format->sample_type & PERF_SAMPLE_ID))
		return 0;
	return sizeof(struct perf_event_header) +
	       sizeof(uint64_t) * (size_t)__builtin_popcountll(format->sample_type & before);
}

/* And in other records, from their end. */
static size_t trailer_id_at(const struct pmu_format *format)
{
	uint64_t behind = PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU;

	if (format->has_no_trailer)
		return 0;
	if (format->sample_type & PERF_SAMPLE_IDENTIFIER)
		return sizeof(uint64_t);
	if (!(format->sample_type & PERF_SAMPLE_ID))
		return 0;
	return sizeof(uint64_t) * (1 + (size_t)__builtin_popcountll(format->sample_type & behind));
}

/*
 * Where perf puts what it knew before it began to record, it leaves the id out: the first event's.
 */
bool perf_data_events_of(struct perf_data_events *events, const struct perf_event_header *head,
			 const void *record, bool is_swapped, uint32_t *ret_event)
{
	const struct pmu_format *format = events->n ? &events->events[0].format : NULL;
	bool is_sample = head->type == PERF_RECORD_SAMPLE;
	uint64_t id;

	if (!format)
		return false;
	*ret_event = 0;
	if (events->n == 1)
		return true;
	size_t at = is_sample ? sample_id_at(format) : trailer_id_at(format);
	if (at == 0)
		return true;
	if ((is_sample ? at + sizeof(id) : at) > head->size)
		return false;
	memcpy(&id, (const uint8_t *)record + (is_sample ? at : head->size - at), sizeof(id));
	id = is_swapped ? __builtin_bswap64(id) : id;
	return (id == 0 && !is_sample) || perf_data_events_find(events, id, ret_event);
}

/* What a perf.data tells of host and recording. Each feature is read by one function of a table. */

/* Numbers of enum in tools/perf/util/header.h. */
enum feature {
	FEATURE_BUILD_ID = 2,
	FEATURE_HOSTNAME = 3,
	FEATURE_OSRELEASE = 4,
	FEATURE_VERSION = 5,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CPUDESC = 8,
	FEATURE_CPUID = 9,
	FEATURE_TOTAL_MEM = 10,
	FEATURE_CMDLINE = 11,
	FEATURE_EVENT_DESC = 12,
	FEATURE_NUMA_TOPOLOGY = 14,
	FEATURE_PMU_MAPPINGS = 16,
	FEATURE_SAMPLE_TIME = 21,
	FEATURE_CLOCK_DATA = 29,
};

#define MAX_PMUS   4096u
#define MAX_NODES  1024u
#define MAX_BUILDS (1u << 20)

/*
 * Of struct perf_record_header_build_id: behind 20 bytes comes their number, when the bit is set.
 */
#define BUILD_ID_ROOM	   24u
#define MISC_BUILD_ID_SIZE (1u << 15)

void perf_data_features_finish(struct perf_data_features *features)
{
	struct perf_data_info *info = &features->info;

	free_all(info->host_name, info->kernel, info->perf_version, info->arch, info->cpu_model,
		 info->cpu_id, info->command, info->numa);
	for (size_t i = 0; i < features->n_pmus; i++)
		free(features->pmus[i].name);
	for (size_t i = 0; i < features->n_builds; i++)
		free(features->builds[i].path);
	free_all(features->pmus, features->builds);
	*features = (struct perf_data_features){ 0 };
}

/* What a reader works on. */
struct reading {
	struct perf_data_features *features;
	struct perf_data_events *events;
	struct pmu_cursor bytes;
};

/* A string with its length before it, padded with NULs. Not more than its bytes: *ret_n. */
static const char *take_string(struct pmu_cursor *bytes, size_t *ret_n)
{
	uint32_t n = pmu_cursor_u32(bytes);
	const char *text = pmu_cursor_take(bytes, n);

	*ret_n = text ? strnlen(text, n) : 0;
	return text ? text : "";
}

/* Keep a string instead of what was there. */
static int keep_string(struct pmu_cursor *bytes, char **text)
{
	size_t n;
	const char *from = take_string(bytes, &n);
	char *copy = strndup(from, n);

	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

#define STRING_FEATURE(name, target)                                                               \
	static int read_##name(struct reading *reading)                                            \
	{                                                                                          \
		return keep_string(&reading->bytes, &reading->features->info.target);              \
	}

STRING_FEATURE(host_name, host_name)
STRING_FEATURE(kernel, kernel)
STRING_FEATURE(version, perf_version)
STRING_FEATURE(arch, arch)
STRING_FEATURE(cpu_model, cpu_model)
STRING_FEATURE(cpu_id, cpu_id)

static int read_n_cpus(struct reading *reading)
{
	pmu_cursor_u32(&reading->bytes); /* configured */
	reading->features->info.n_cpus = pmu_cursor_u32(&reading->bytes);
	return 0;
}

static int read_memory(struct reading *reading)
{
	reading->features->info.memory_bytes = pmu_cursor_u64(&reading->bytes) * 1024;
	return 0;
}

static int read_command(struct reading *reading)
{
	struct perf_data_info *info = &reading->features->info;
	struct pmu_cursor *bytes = &reading->bytes;
	uint32_t n = pmu_cursor_u32(bytes);
	char *command = malloc((size_t)(bytes->end - bytes->at) + 1);
	size_t n_command = 0;

	if (!command)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && !bytes->is_short; i++) {
		size_t n_word;
		const char *word = take_string(bytes, &n_word);

		if (bytes->is_short)
			break;
		memcpy(command + n_command, word, n_word);
		n_command += n_word;
		command[n_command++] = '\0'; /* the length before it gave room for this */
	}
	free(info->command);
	info->command = command;
	info->command_bytes = n_command;
	return 0;
}

/* struct perf_event_attr, ids and name of each event. */
static int read_events(struct reading *reading)
{
	struct pmu_cursor *bytes = &reading->bytes;
	uint32_t n = pmu_cursor_u32(bytes);
	uint32_t attr_bytes = pmu_cursor_u32(bytes);
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n && !bytes->is_short; i++) {
		pmu_cursor_take(bytes, attr_bytes);
		uint32_t n_ids = pmu_cursor_u32(bytes);
		size_t n_name;
		const char *name = take_string(bytes, &n_name);

		pmu_cursor_take(bytes, n_ids * sizeof(uint64_t));
		if (!bytes->is_short && i < reading->events->n)
			r = perf_data_events_name(reading->events, i, name, n_name);
	}
	return r;
}

static void print_node(FILE *out, struct pmu_cursor *bytes, bool is_first)
{
	uint32_t node = pmu_cursor_u32(bytes);
	uint64_t kib = pmu_cursor_u64(bytes);
	size_t n_cpus;

	pmu_cursor_u64(bytes); /* free */
	const char *cpus = take_string(bytes, &n_cpus);
	if (!bytes->is_short)
		fprintf(out, "%s%u: %llu MiB, cpus %.*s", is_first ? "" : "; ", node,
			(unsigned long long)kib / 1024, (int)n_cpus, cpus);
}

static int read_numa(struct reading *reading)
{
	struct pmu_cursor *bytes = &reading->bytes;
	uint32_t n = pmu_cursor_u32(bytes);
	char *text = NULL;
	size_t n_text = 0;
	FILE *out = text_stream_open(&text, &n_text);

	if (!out)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && i < MAX_NODES && !bytes->is_short; i++)
		print_node(out, bytes, i == 0);
	if (text_stream_close(out, &text) < 0)
		return -ENOMEM;
	free(reading->features->info.numa);
	reading->features->info.numa = text;
	return 0;
}

static int read_pmus(struct reading *reading)
{
	struct perf_data_features *features = reading->features;
	struct pmu_cursor *bytes = &reading->bytes;
	uint32_t n = pmu_cursor_u32(bytes);

	if (features->pmus || n > MAX_PMUS)
		return 0;
	features->pmus = calloc(n + 1, sizeof(*features->pmus));
	if (!features->pmus)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && !bytes->is_short; i++) {
		struct perf_data_pmu *pmu = &features->pmus[features->n_pmus];

		pmu->type = pmu_cursor_u32(bytes);
		int r = keep_string(bytes, &pmu->name);
		if (r < 0)
			return r;
		features->n_pmus++;
	}
	return 0;
}

static int read_times(struct reading *reading)
{
	reading->features->info.first_sample_ns = pmu_cursor_u64(&reading->bytes);
	reading->features->info.last_sample_ns = pmu_cursor_u64(&reading->bytes);
	return 0;
}

static int read_clock(struct reading *reading)
{
	struct perf_data_info *info = &reading->features->info;
	uint32_t version = pmu_cursor_u32(&reading->bytes);
	uint32_t clock_id = pmu_cursor_u32(&reading->bytes);
	uint64_t wall_ns = pmu_cursor_u64(&reading->bytes);
	uint64_t clock_ns = pmu_cursor_u64(&reading->bytes);

	if (version != 1 || reading->bytes.is_short)
		return 0;
	info->has_clock_data = true;
	info->clock_id = (int32_t)clock_id;
	info->wall_ns = wall_ns;
	info->clock_ns = clock_ns;
	return 0;
}

int perf_data_features_build_id(struct perf_data_features *features, uint16_t misc,
				struct pmu_cursor bytes)
{
	pmu_cursor_u32(&bytes); /* pid: -1, or of a guest */
	const uint8_t *id = pmu_cursor_take(&bytes, BUILD_ID_ROOM);
	size_t n_path = (size_t)(bytes.end - bytes.at);

	if (bytes.is_short || features->n_builds >= MAX_BUILDS)
		return 0;
	if (grow_one(&features->builds, features->n_builds, &features->n_builds_allocated) < 0)
		return -ENOMEM;
	struct perf_data_build *build = &features->builds[features->n_builds];
	*build = (struct perf_data_build){ .n_bytes = 20 };
	if (misc & MISC_BUILD_ID_SIZE && id[20] >= 1 && id[20] <= 20)
		build->n_bytes = id[20];
	memcpy(build->id, id, 20);
	build->path = strndup((const char *)bytes.at, n_path);
	if (!build->path)
		return -ENOMEM;
	features->n_builds++;
	features->is_sorted = false;
	return 0;
}

/* Records of type BUILD_ID one behind the other. */
static int read_build_ids(struct reading *reading)
{
	struct pmu_cursor *bytes = &reading->bytes;
	int r = 0;

	while (r == 0 && (size_t)(bytes->end - bytes->at) > sizeof(struct perf_event_header)) {
		struct perf_event_header head =
			perf_data_head(pmu_cursor_take(bytes, sizeof(head)), bytes->order);
		if (head.size < sizeof(head))
			break;
		struct pmu_cursor body = *bytes;
		body.end = pmu_cursor_take(bytes, head.size - sizeof(head));
		if (bytes->is_short)
			break;
		body.end = bytes->at;
		r = perf_data_features_build_id(reading->features, head.misc, body);
	}
	return r;
}

static const struct {
	enum feature feature;
	int (*read)(struct reading *reading);
} readers[] = {
	{ FEATURE_BUILD_ID, read_build_ids }, { FEATURE_HOSTNAME, read_host_name },
	{ FEATURE_OSRELEASE, read_kernel },   { FEATURE_VERSION, read_version },
	{ FEATURE_ARCH, read_arch },	      { FEATURE_NRCPUS, read_n_cpus },
	{ FEATURE_CPUDESC, read_cpu_model },  { FEATURE_CPUID, read_cpu_id },
	{ FEATURE_TOTAL_MEM, read_memory },   { FEATURE_CMDLINE, read_command },
	{ FEATURE_EVENT_DESC, read_events },  { FEATURE_NUMA_TOPOLOGY, read_numa },
	{ FEATURE_PMU_MAPPINGS, read_pmus },  { FEATURE_SAMPLE_TIME, read_times },
	{ FEATURE_CLOCK_DATA, read_clock },
};

int perf_data_features_add(struct perf_data_features *features, unsigned feature,
			   struct pmu_cursor bytes, struct perf_data_events *events)
{
	struct reading reading = { features, events, bytes };

	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		if (readers[i].feature == feature)
			return readers[i].read(&reading);
	}
	return 0;
}
