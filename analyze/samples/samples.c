#include "analyze/samples/samples.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/samples/samples-internal.h"
#include "analyze/samples/source-ledger.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "trace/reader.h"

static int settle(void *user, struct pending_sample *item)
{
	return sample_finish_item(user, item);
}

static int create_decoder(struct samples *samples)
{
	const struct decode_memory memory = {
		.code = code_store_code,
		.constant = code_store_constant,
		.data = code_store_data,
		.version = code_store_version,
		.begin = code_store_begin,
		.user = samples->code,
	};
	int r = decode_create(samples->context.machine, &memory, 0, &samples->decoder);

	if (r == 0)
		decode_set_guessing(samples->decoder, true);
	if (r == 0 && samples->context.estimators)
		decode_set_estimators(samples->decoder, samples->context.estimators);
	return r == -EOPNOTSUPP ? 0 : r;
}

int samples_create(const struct sample_context *context, struct samples **ret_samples)
{
	auto_samples struct samples *samples = calloc(1, sizeof(*samples));

	if (!samples)
		return -ENOMEM;
	samples->context = *context;
	sample_queue_init(&samples->queue);
	samples->waiting.owners = context->owners;
	samples->waiting.settle = settle;
	samples->waiting.user = samples;
	samples->window = calloc(1, sizeof(*samples->window));
	samples->item = calloc(1, sizeof(*samples->item) +
					  SAMPLE_MAX_ACCESSES * sizeof(struct sample_access));
	samples->codes = calloc(SAMPLE_CODES, sizeof(*samples->codes));
	if (!samples->window || !samples->item || !samples->codes)
		return -ENOMEM;

	int r = code_store_create(context, &samples->code);
	r = r ?: create_decoder(samples);
	r = r ?: watch_log_create(context->tasks, &samples->watch_log);
	r = r ?: sample_rows_create(&samples->context, &samples->rows);
	if (r < 0)
		return r;
	*ret_samples = samples;
	samples = NULL;
	return 0;
}

struct samples *samples_destroy(struct samples *samples)
{
	if (!samples)
		return NULL;
	decode_destroy(samples->decoder);
	code_store_destroy(samples->code);
	sample_rows_destroy(samples->rows);
	sample_queue_finish(&samples->queue);
	sample_waiting_finish(&samples->waiting);
	key_map_finish(&samples->nodes);
	watch_log_destroy(samples->watch_log);
	early_maps_finish(&samples->early_maps);
	for (size_t i = 0; i < samples->n_sources; i++) {
		merge_clock_finish(&samples->sources[i].clock);
		sample_turns_finish(&samples->sources[i].turns);
		free(samples->sources[i].name);
	}
	merge_clock_finish(&samples->clock);
	sample_streams_finish(samples);
	free_all(samples->sources, samples->window, samples->codes);
	instruction_owners_finish(&samples->instructions);
	sample_loops_finish(&samples->loops);
	free_all(samples->item, samples);
	return NULL;
}

int samples_watched(struct samples *samples, const struct trace_watch *record)
{
	const struct sample_clock *clock = &samples->context.clock;

	return watch_log_record(samples->watch_log, record,
				clock->from_ticks(clock->user, record->ticks));
}

/* Two processes may fault at the same moment, on the same address. */
static uint64_t node_key(uint32_t pid, uint64_t address)
{
	return address / 4096 ^ (uint64_t)pid << 40;
}

int samples_page_nodes(struct samples *samples, const struct trace_page_nodes *record)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(&record->head, 0, &n_bytes);
	struct trace_page_node item;
	int r = 0;

	for (size_t at = 0; r == 0 && at + sizeof(item) <= n_bytes; at += sizeof(item)) {
		memcpy(&item, bytes + at, sizeof(item));
		if (item.node < UINT32_MAX)
			r = key_map_put(&samples->nodes, item.time_ns,
					node_key(record->pid, item.address), item.node + 1);
	}
	return r;
}

void samples_note_cut(struct samples *samples)
{
	samples->is_cut = true;
}

void samples_end_segment(struct samples *samples)
{
	key_map_finish(&samples->nodes);
}

static bool has_nodes(const struct samples *samples, const struct sample_source *source)
{
	return samples->nodes.n > 0 && source->kind == SAMPLE_FAULT;
}

static uint32_t node_number_of(const struct samples *samples, const struct sample_source *source,
			       const struct pmu_record *record)
{
	if (!has_nodes(samples, source) || record->type != PERF_RECORD_SAMPLE)
		return 0;
	return (uint32_t)key_map_get(&samples->nodes, record->origin.time_ns,
				     node_key(record->origin.pid, record->sample.address));
}

/*
 * At once, not in its turn: what comes later says of code that was read later whether it is of now.
 */
static int take_code_map(struct samples *samples, struct sample_source *source,
			 const struct pmu_record *record)
{
	const struct code_map map = {
		.pid = record->origin.pid,
		.is_file = record->map.path[0] == '/',
		.is_fixed = !(record->map.prot & PROT_WRITE) && !(record->map.flags & MAP_SHARED),
		.start = record->map.address,
		.size = record->map.size,
		.time_ns = samples_time_of(samples, source, record->origin.time_ns),
	};

	if (!(record->map.prot & PROT_EXEC))
		return 0;
	return code_store_map(samples->code, &map);
}

int samples_perf(struct samples *samples, uint32_t source, const void *records, size_t n_bytes)
{
	struct sample_source *own = samples_source_of_frame(samples, source);
	struct record_buffer *buffer = own ? record_buffer_create(records, n_bytes) : NULL;
	int r = 0;

	if (!own)
		return 0;
	if (!buffer)
		return -ENOMEM;
	buffer->source = (uint32_t)(own - samples->sources);
	/* Whether the rest of a sample is damaged is seen and counted when its turn comes. */
	const bool is_whole = has_nodes(samples, own);
	for (size_t at = 0; r >= 0 && at < n_bytes; at += (size_t)r) {
		struct pmu_record record;

		r = (is_whole ? pmu_record_parse : pmu_record_parse_head)(
			&own->format, buffer->bytes + at, n_bytes - at, &record);
		own->losses[SAMPLE_LOSS_BAD_RECORD] += r < 0;
		if (r < 0 && r != -EILSEQ)
			break; /* no telling where the next one starts */
		bool is_used = r > 0 && record.is_known;
		if (is_used && record.type == PERF_RECORD_MMAP2 &&
		    take_code_map(samples, own, &record) < 0)
			return record_buffer_settle(buffer), -ENOMEM;
		r = record.bytes;
		struct queued_sample entry = {
			.time_ns = samples_time_of(samples, own, record.origin.time_ns),
			.buffer = buffer,
			.offset = (uint32_t)at,
			.n_bytes = record.bytes,
			.node_number = is_used ? node_number_of(samples, own, &record) : 0,
		};
		if (is_used && sample_queue_add(&samples->queue, &entry) < 0)
			r = -ENOMEM;
	}
	record_buffer_settle(buffer);
	return r == -ENOMEM ? r : 0;
}

int samples_accesses(struct samples *samples, uint32_t source, const struct trace_access *accesses,
		     size_t n)
{
	struct sample_source *own = samples_source_of_frame(samples, source);
	struct record_buffer *buffer =
		own ? record_buffer_create(accesses, n * sizeof(*accesses)) : NULL;
	int r = 0;

	if (!own)
		return 0;
	if (!buffer)
		return -ENOMEM;
	buffer->source = (uint32_t)(own - samples->sources);
	buffer->kind = QUEUED_PRIVATE;
	for (size_t first = 0, behind; r == 0 && first < n; first = behind) {
		behind = first + 1;
		while (behind < n && accesses[behind].sample == accesses[first].sample)
			behind++;
		const struct queued_sample entry = {
			.time_ns = samples_time_of(samples, own, accesses[first].raw_ns),
			.buffer = buffer,
			.offset = (uint32_t)(first * sizeof(*accesses)),
			.n_bytes = (uint32_t)((behind - first) * sizeof(*accesses)),
		};
		r = sample_queue_add(&samples->queue, &entry);
	}
	record_buffer_settle(buffer);
	return r;
}

int samples_code(struct samples *samples, uint32_t process, const struct trace_code *head,
		 const void *bytes)
{
	return code_store_add(samples->code, process, head, bytes);
}

void samples_damaged(struct samples *samples)
{
	code_store_damaged(samples->code);
}

int64_t samples_wait_ns(const struct samples *samples, int64_t read_ns)
{
	return code_store_wait_ns(samples->code, read_ns);
}

const int64_t *samples_next_ns(const struct samples *samples)
{
	return &samples->queue.next_ns;
}

/* Of samples that tell where they accessed; 0: not of this one. */
static uint64_t address_of(const struct sample_source *source, const struct pmu_record *record)
{
	bool has_address = source->kind == SAMPLE_FAULT || source->kind == SAMPLE_ADDRESS;

	return has_address && record->type == PERF_RECORD_SAMPLE ? record->sample.address : 0;
}

/*
 * What will be looked up is fetched into the cache, for all of one process at once, and of its
 * image at that time in most cases.
 */
static void fetch_blocks(struct samples *samples, uint64_t *addresses, size_t n)
{
	const struct tasks *tasks = samples->context.tasks;
	uint64_t of_one[SAMPLES_COMING];

	for (size_t i = 0; i < n; i++) {
		uint32_t pid = samples->coming[i].origin.pid;
		size_t n_of_one = 0;

		if (!addresses[i])
			continue;
		for (size_t k = i; k < n; k++) {
			if (addresses[k] && samples->coming[k].origin.pid == pid) {
				of_one[n_of_one++] = addresses[k];
				addresses[k] = 0;
			}
		}
		owners_fetch(samples->context.owners, tasks_process_at(tasks, pid, INT64_MAX),
			     of_one, n_of_one);
	}
}

/* Parse what comes next, perf records only. */
static void look_ahead(struct samples *samples)
{
	uint64_t addresses[SAMPLES_COMING] = { 0 };
	size_t n;
	const struct queued_sample *entries =
		sample_queue_look(&samples->queue, SAMPLES_COMING, &n);

	for (size_t i = 0; i < n; i++) {
		const struct record_buffer *buffer = entries[i].buffer;
		const struct sample_source *source = &samples->sources[buffer->source];
		struct pmu_record *record = &samples->coming[i];

		if (buffer->kind != QUEUED_PERF)
			continue;
		if (pmu_record_parse(&source->format, buffer->bytes + entries[i].offset,
				     entries[i].n_bytes, record) > 0)
			addresses[i] = address_of(source, record);
		else
			record->is_known = false;
	}
	samples->n_coming = n;
	fetch_blocks(samples, addresses, n);
}

static int take_perf(struct samples *samples, struct sample_source *source,
		     const struct queued_sample *entry)
{
	const struct pmu_record *record =
		&samples->coming[samples->n_coming - samples->queue.n_looked];

	if (!record->is_known) {
		source->losses[SAMPLE_LOSS_BAD_RECORD]++;
		return 0;
	}
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		return sample_attribute(samples, source, record, entry->time_ns,
					entry->node_number);
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		source->losses[SAMPLE_LOSS_LOST] += record->lost.count;
		return 0;
	default:
		return sample_task(samples, record, entry->time_ns);
	}
}

static int take(struct samples *samples, const struct queued_sample *entry)
{
	struct sample_source *source = &samples->sources[entry->buffer->source];
	const void *bytes = entry->buffer->bytes + entry->offset;

	if (samples->queue.n_looked == 0)
		look_ahead(samples);
	switch (entry->buffer->kind) {
	case QUEUED_HARDWARE:
		return sample_attribute_hardware(samples, source, bytes, entry->time_ns);
	case QUEUED_PRIVATE:
		return sample_attribute_private(samples, source, bytes,
						entry->n_bytes / sizeof(struct trace_access),
						entry->time_ns);
	default:
		return take_perf(samples, source, entry);
	}
}

int samples_advance(struct samples *samples, int64_t time_ns)
{
	const struct queued_sample *entry;
	int r = sample_report_early_maps(samples);

	while (r == 0 && (entry = sample_queue_peek(&samples->queue, time_ns))) {
		r = take(samples, entry);
		sample_queue_drop(&samples->queue);
	}
	return r;
}

const size_t *samples_n_waiting(const struct samples *samples)
{
	return &samples->waiting.n;
}

bool samples_is_waiting(const struct samples *samples, uint32_t thread)
{
	return sample_waiting_has(&samples->waiting, thread);
}

int samples_event(struct samples *samples, uint32_t thread, enum trace_op op,
		  const struct owner_block *block)
{
	return sample_waiting_event(&samples->waiting, thread, block,
				    block && op == TRACE_OP_REALLOC);
}

static const char *const loss_reasons[SAMPLE_LOSS_COUNT] = {
	[SAMPLE_LOSS_LOST] = "ring overrun",
	[SAMPLE_LOSS_BAD_RECORD] = "damaged perf record",
	[SAMPLE_LOSS_CODE_CHANGED] = "code that changed around them: not attributed",
	[SAMPLE_LOSS_NO_CODE] = "no code bytes: not attributed",
	[SAMPLE_LOSS_NO_REGISTERS] = "no 64-bit user registers: not attributed",
	[SAMPLE_LOSS_UNKNOWN_PROCESS] = "of an unknown process",
	[SAMPLE_LOSS_NO_MEMORY] = "of instructions without memory access",
	[SAMPLE_LOSS_ADDRESS_ZERO] = "address 0: read through null, or not known to the hardware",
	[SAMPLE_LOSS_ADDRESS_KERNEL] = "address in the kernel",
	[SAMPLE_LOSS_BAD_PACKET] = "bytes that are no packet: not decodable",
	[SAMPLE_LOSS_AUX] = "pieces of an AUX area whose format is not known",
	[SAMPLE_LOSS_NO_CLOCK] = "times of perf's own clock, which nothing converts",
};

static int tell_losses(const struct samples *samples, bool has_losses)
{
	const struct sample_sink *sink = &samples->context.sink;
	int r = 0;

	if (!sink->loss)
		return 0;
	for (size_t i = 0; i < samples->n_sources; i++) {
		const struct sample_source *source = &samples->sources[i];

		for (int k = 0; r == 0 && k < SAMPLE_LOSS_COUNT; k++) {
			if (source->losses[k] && !(k == SAMPLE_LOSS_LOST && has_losses))
				r = sink->loss(sink->user, source->name, loss_reasons[k],
					       source->losses[k]);
		}
	}
	if (r == 0 && watch_log_strays(samples->watch_log))
		r = sink->loss(sink->user, "watch", "accesses while it was not armed",
			       watch_log_strays(samples->watch_log));
	if (r == 0 && samples->n_orphans)
		r = sink->loss(sink->user, "analyze", "frames of a source that is not described",
			       samples->n_orphans);
	return r;
}

static int64_t stack_of(void *user, uint32_t site)
{
	const struct sample_sink *sink = &((const struct samples *)user)->context.sink;

	return sink->stack_of ? sink->stack_of(sink->user, site) : 0;
}

int samples_wait(struct samples *samples)
{
	return sample_rows_wait(samples->rows);
}

int samples_finish(struct samples *samples, bool has_losses)
{
	int r = samples_advance(samples, INT64_MAX) ?: sample_report_early_maps(samples);
	r = r ?: sample_waiting_settle(&samples->waiting);
	r = r ?: sample_rows_finish(samples->rows);
	r = r ?: sample_write_words(samples);
	r = r ?: sample_ledger_write(samples);
	if (r == 0)
		r = instruction_owners_write(&samples->instructions, samples->context.db,
					     samples->context.run_id, stack_of, samples);
	if (r == 0)
		r = sample_loops_write(&samples->loops, samples->context.db,
				       samples->context.run_id, stack_of, samples);
	return r < 0 ? r : tell_losses(samples, has_losses);
}

int samples_write_watches(struct samples *samples, int64_t end_ns)
{
	const struct sample_context *context = &samples->context;

	return watch_log_write(samples->watch_log, db_handle(context->db), context->run_id, end_ns);
}
