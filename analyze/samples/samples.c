#include "analyze/samples/samples.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/samples/samples-internal.h"
#include "analyze/samples/source-ledger.h"
#include "common/array.h"
#include "store/database.h"
#include "trace/reader.h"

int sample_finish_item(struct samples *samples, const struct sample_item *item)
{
	int r = sample_loops_mix(&samples->loops, item);

	return r < 0 ? r : sample_rows_touches(samples->rows, item);
}

static int settle(void *user, const struct sample_item *item)
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
		.user = samples->code,
	};
	int r = decode_create(samples->context.machine, &memory, 0, &samples->decoder);

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
	if (r == 0)
		r = create_decoder(samples);
	if (r == 0)
		r = watch_log_create(context->tasks, &samples->watch_log);
	if (r == 0)
		r = sample_rows_create(&samples->context, &samples->rows);
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
	free(samples->sources);
	free(samples->window);
	free(samples->codes);
	instruction_owners_finish(&samples->instructions);
	sample_loops_finish(&samples->loops);
	free(samples->item);
	free(samples);
	return NULL;
}

static struct sample_source *source_of(struct samples *samples, uint32_t number)
{
	for (size_t i = 0; i < samples->n_sources; i++) {
		if (samples->sources[i].number == number)
			return &samples->sources[i];
	}
	return NULL;
}

struct sample_source *samples_source_of_frame(struct samples *samples, uint32_t number)
{
	struct sample_source *source = source_of(samples, number);

	samples->n_orphans += !source;
	return source;
}

static enum sample_kind kind_of(const struct trace_source *record)
{
	if (record->perf_type == PERF_TYPE_SOFTWARE &&
	    (record->perf_config == PERF_COUNT_SW_PAGE_FAULTS ||
	     record->perf_config == PERF_COUNT_SW_PAGE_FAULTS_MIN ||
	     record->perf_config == PERF_COUNT_SW_PAGE_FAULTS_MAJ))
		return SAMPLE_FAULT;
	if (record->perf_type == PERF_TYPE_BREAKPOINT)
		return SAMPLE_WATCH;
	if (record->sample_type & PERF_SAMPLE_REGS_USER)
		return SAMPLE_CLOCK;
	return record->sample_type & PERF_SAMPLE_ADDR ? SAMPLE_ADDRESS : SAMPLE_TIME;
}

int samples_source(struct samples *samples, const struct trace_source *record)
{
	size_t n_name;
	const char *name = trace_record_string(&record->head, 0, &n_name);

	if (source_of(samples, record->source_id))
		return 0;
	if (grow_array(&samples->sources, samples->n_sources, &samples->n_sources_allocated,
		       sizeof(*samples->sources)) < 0)
		return -ENOMEM;

	int row = sample_rows_source(samples->rows, record);
	if (row < 0)
		return row;
	samples->sources[samples->n_sources] = (struct sample_source){
		.number = record->source_id,
		.row = row,
		.kind = kind_of(record),
		.period = record->period ? (int64_t)record->period : 1,
		.has_run = record->error == 0,
		.stack_bytes = record->stack_bytes,
		.has_own_clock = record->clock_id == UINT32_MAX,
		.format = { .sample_type = record->sample_type, .regs_user = record->regs_user },
		.name = strndup(name, n_name),
	};
	return samples->sources[samples->n_sources++].name ? 0 : -ENOMEM;
}

/* Of enum trace_sample_kind; a kind that is not here: as without a detail. */
static const struct {
	uint16_t told;
	enum sample_kind kind;
} told_kinds[] = {
	{ TRACE_SAMPLE_TIME, SAMPLE_TIME },   { TRACE_SAMPLE_REGISTERS, SAMPLE_CLOCK },
	{ TRACE_SAMPLE_FAULT, SAMPLE_FAULT }, { TRACE_SAMPLE_ACCESS, SAMPLE_ADDRESS },
	{ TRACE_SAMPLE_IBS, SAMPLE_IBS },     { TRACE_SAMPLE_SPE, SAMPLE_SPE },
	{ TRACE_SAMPLE_WATCH, SAMPLE_WATCH }, { TRACE_SAMPLE_TASKS, SAMPLE_TIME },
};

int samples_source_detail(struct samples *samples, const struct trace_source_detail *record)
{
	struct sample_source *source = source_of(samples, record->source_id);

	if (!source)
		return -EBADMSG;
	for (size_t i = 0; i < sizeof(told_kinds) / sizeof(told_kinds[0]); i++) {
		if (told_kinds[i].told == record->kind)
			source->kind = told_kinds[i].kind;
	}
	source->direction = record->direction;
	source->format.read_format = record->read_format;
	source->format.regs_intr = record->regs_intr;
	source->format.branch_sample_type = record->branch_sample_type;
	return sample_rows_detail(samples->rows, (uint32_t)source->row, record);
}

int samples_source_ledger(struct samples *samples, const struct trace_source_ledger *record)
{
	struct sample_source *source = source_of(samples, record->source_id);

	if (!source)
		return -EBADMSG;
	source->ledger = *record;
	return 0;
}

int samples_watched(struct samples *samples, const struct trace_watch *record)
{
	const struct sample_clock *clock = &samples->context.clock;

	return watch_log_record(samples->watch_log, record,
				clock->from_ticks(clock->user, record->ticks));
}

int samples_perf_clock(struct samples *samples, const struct trace_perf_clock *record)
{
	struct sample_source *source = source_of(samples, record->source_id);
	struct merge_clock *clock = source ? &source->clock : &samples->clock;
	const struct trace_clock pair = {
		.ticks = record->perf_ns,
		.raw_ns = record->raw_ns,
		.error_ns = record->error_ns,
	};

	if (clock->n == 0)
		merge_clock_init(clock, record->perf_ns, 0);
	return merge_clock_add(clock, &pair);
}

int samples_period(struct samples *samples, const struct trace_period *record)
{
	struct sample_source *source = source_of(samples, record->source_id);

	return source ? sample_turns_add(&source->turns, record) : -EBADMSG;
}

uint64_t samples_clock_error(const struct samples *samples)
{
	uint64_t error_ns = 0;

	for (size_t i = 0; i < samples->n_sources; i++) {
		const struct sample_source *source = &samples->sources[i];
		const struct merge_clock *clock =
			source->clock.n ? &source->clock : &samples->clock;

		if (source->has_own_clock && clock->error_ns > error_ns)
			error_ns = clock->error_ns;
	}
	return error_ns;
}

int64_t samples_time_of(struct samples *samples, struct sample_source *source, uint64_t time_ns)
{
	const struct sample_clock *to = &samples->context.clock;
	struct merge_clock *clock = source->clock.n ? &source->clock : &samples->clock;

	if (!source->has_own_clock)
		return to->from_raw(to->user, time_ns);
	source->losses[SAMPLE_LOSS_NO_CLOCK] += clock->n == 0;
	if (clock->n == 0)
		return 0;
	return to->from_raw(to->user,
			    clock->start_raw_ns + (uint64_t)merge_clock_of_ticks(clock, time_ns));
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

void samples_end_segment(struct samples *samples)
{
	key_map_finish(&samples->nodes);
}

static uint32_t node_number_of(const struct samples *samples, const struct sample_source *source,
			       const struct pmu_record *record)
{
	if (samples->nodes.n == 0 || source->kind != SAMPLE_FAULT ||
	    record->type != PERF_RECORD_SAMPLE)
		return 0;
	return (uint32_t)key_map_get(&samples->nodes, record->origin.time_ns,
				     node_key(record->origin.pid, record->sample.address));
}

/* At once, not in its turn: what comes later says of code that was read later whether it is of now. */
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
	struct sample_block *block = own ? sample_block_create(records, n_bytes) : NULL;
	int r = 0;

	if (!own)
		return 0;
	if (!block)
		return -ENOMEM;
	for (size_t at = 0; r >= 0 && at < n_bytes; at += (size_t)r) {
		struct pmu_record record;

		r = pmu_record_parse(&own->format, block->bytes + at, n_bytes - at, &record);
		own->losses[SAMPLE_LOSS_BAD_RECORD] += r < 0;
		if (r < 0 && r != -EILSEQ)
			break; /* no telling where the next one starts */
		bool is_used = r > 0 && record.is_known;
		if (is_used && record.type == PERF_RECORD_MMAP2 &&
		    take_code_map(samples, own, &record) < 0)
			return sample_block_settle(block), -ENOMEM;
		r = record.bytes;
		struct sample_entry entry = {
			.time_ns = samples_time_of(samples, own, record.origin.time_ns),
			.block = block,
			.offset = (uint32_t)at,
			.n_bytes = record.bytes,
			.source = (uint32_t)(own - samples->sources),
			.node_number = is_used ? node_number_of(samples, own, &record) : 0,
		};
		if (is_used && sample_queue_add(&samples->queue, &entry) < 0)
			r = -ENOMEM;
	}
	sample_block_settle(block);
	return r == -ENOMEM ? r : 0;
}

int samples_accesses(struct samples *samples, uint32_t source, const struct trace_access *accesses,
		     size_t n)
{
	struct sample_source *own = samples_source_of_frame(samples, source);
	struct sample_block *block =
		own ? sample_block_create(accesses, n * sizeof(*accesses)) : NULL;
	int r = 0;

	if (!own)
		return 0;
	if (!block)
		return -ENOMEM;
	for (size_t first = 0, behind; r == 0 && first < n; first = behind) {
		behind = first + 1;
		while (behind < n && accesses[behind].sample == accesses[first].sample)
			behind++;
		const struct sample_entry entry = {
			.time_ns = samples_time_of(samples, own, accesses[first].raw_ns),
			.block = block,
			.offset = (uint32_t)(first * sizeof(*accesses)),
			.n_bytes = (uint32_t)((behind - first) * sizeof(*accesses)),
			.source = (uint32_t)(own - samples->sources),
			.is_private = true,
		};
		r = sample_queue_add(&samples->queue, &entry);
	}
	sample_block_settle(block);
	return r;
}

int samples_code(struct samples *samples, uint32_t process, const struct trace_code *head,
		 const void *bytes)
{
	const struct sample_clock *clock = &samples->context.clock;

	return code_store_add(samples->code, process, head, bytes,
			      clock->from_ticks(clock->user, head->ticks));
}

const int64_t *samples_next_ns(const struct samples *samples)
{
	return &samples->queue.next_ns;
}

static int take_perf(struct samples *samples, struct sample_source *source,
		     const struct sample_entry *entry)
{
	struct pmu_record record;
	int r = pmu_record_parse(&source->format, entry->block->bytes + entry->offset,
				 entry->n_bytes, &record);

	if (r <= 0)
		return 0; /* counted when it was queued */
	switch (record.type) {
	case PERF_RECORD_SAMPLE:
		return sample_attribute(samples, source, &record, entry->time_ns,
					entry->node_number);
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		source->losses[SAMPLE_LOSS_LOST] += record.lost.count;
		return 0;
	default:
		return sample_task(samples, &record, entry->time_ns);
	}
}

int samples_advance(struct samples *samples, int64_t time_ns)
{
	const struct sample_entry *entry;
	int r = sample_tell_early_maps(samples);

	while (r == 0 && (entry = sample_queue_peek(&samples->queue, time_ns))) {
		struct sample_source *source = &samples->sources[entry->source];

		if (entry->is_hardware) {
			r = sample_attribute_hardware(
				samples, source,
				(const void *)(entry->block->bytes + entry->offset),
				entry->time_ns);
		} else if (entry->is_private) {
			const void *accesses = entry->block->bytes + entry->offset;

			r = sample_attribute_private(samples, source, accesses,
						     entry->n_bytes / sizeof(struct trace_access),
						     entry->time_ns);
		} else {
			r = take_perf(samples, source, entry);
		}
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
	[SAMPLE_LOSS_UNKNOWN_PROCESS] = "of a process that nothing told of",
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

int samples_finish(struct samples *samples, bool has_losses)
{
	int r = samples_advance(samples, INT64_MAX);

	if (r == 0)
		r = sample_tell_early_maps(samples);
	if (r == 0)
		r = sample_waiting_settle(&samples->waiting);
	if (r == 0)
		r = sample_rows_finish(samples->rows);
	if (r == 0)
		r = sample_write_words(samples);
	if (r == 0)
		r = sample_ledger_write(samples);
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
