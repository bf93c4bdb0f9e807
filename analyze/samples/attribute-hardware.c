/* Accesses that hardware sampled: PEBS and its like, IBS, SPE. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/samples-internal.h"
#include "common/array.h"
#include "decode/hardware/hardware.h"
#include "perf/data-source.h"

/* Where user memory ends on all our machines: what is above belongs to the kernel. */
#define FIRST_KERNEL_ADDRESS (UINT64_C(1) << 63)

/* A record of SPE is some 64 bytes: what begins in one piece of AUX and ends nowhere is damage. */
#define MOST_KEPT_BYTES 4096u

/* Words seen, to be told once each; a hostile file has no end of them. */
#define MOST_WORDS 65536u

static int note_word(struct samples *samples, uint64_t word)
{
	if (word == samples->last_word || !word)
		return 0;
	samples->last_word = word;
	if (samples->words.n >= MOST_WORDS || key_map_get(&samples->words, word, 1))
		return 0;
	return key_map_put(&samples->words, word, 1, 1);
}

/* The source's event decides where it can: kernels before August 2022 call some stores loads. */
static int8_t is_write(const struct sample_source *source, uint64_t word)
{
	if (source->direction == TRACE_DIRECTION_LOADS)
		return 0;
	return source->direction == TRACE_DIRECTION_STORES ? 1 : data_source_is_write(word);
}

static int sample_add_hardware(struct samples *samples, struct sample_source *source,
			       const struct hardware_access *hardware)
{
	struct pending_sample *item = samples->item;
	bool is_kernel = hardware->address >= FIRST_KERNEL_ADDRESS;
	struct sample_access access = {
		.role = TRACE_ROLE_EXACT,
		.share = 1,
		.address = hardware->address,
		.size = hardware->size ? hardware->size : -1,
		.is_write = is_write(source, hardware->data_src),
		.is_resolved = true,
		.ip = hardware->ip,
		.data_src = (int64_t)hardware->data_src,
	};
	int r = note_word(samples, hardware->data_src);

	if (r < 0)
		return r;
	if (!hardware->is_memory) { /* no access: the sample stands for itself */
		source->losses[SAMPLE_LOSS_NO_MEMORY]++;
		return 0;
	}
	item->is_access = true;
	if (hardware->has_address && hardware->address && !is_kernel) {
		r = sample_find_owner(samples, item, &access);
	} else {
		source->losses[is_kernel ? SAMPLE_LOSS_ADDRESS_KERNEL : SAMPLE_LOSS_ADDRESS_ZERO]++;
		access.is_resolved = is_kernel;
		access.owner.kind = is_kernel ? OWNER_kernel : OWNER_unknown;
	}
	if (r == 0)
		sample_add_access(item, &access);
	return r;
}

/* perf's own fields; where the raw registers of IBS are there, they tell. */
static void read_perf(const struct sample_source *source, const struct pmu_sample *sample,
		      struct hardware_access *hardware)
{
	if (source->kind == SAMPLE_IBS && sample->raw &&
	    ibs_decode_op(sample->raw, sample->raw_bytes, hardware) == 0) {
		hardware->ip = sample->ip; /* as the kernel has put it right */
		return;
	}
	*hardware = (struct hardware_access){
		.ip = sample->ip,
		.address = sample->address,
		.physical_address = sample->physical_address,
		.data_src = sample->data_src,
		.latency = (uint32_t)sample->weight,
		/* An event of loads or stores samples nothing else. */
		.is_memory = sample->address || source->direction != TRACE_DIRECTION_EACH ||
			     data_source_is_known(sample->data_src),
		.has_address = sample->address != 0,
		.has_physical_address = sample->physical_address != 0,
	};
}

int sample_add_hardware_record(struct samples *samples, struct sample_source *source,
			       const struct pmu_sample *sample)
{
	struct pending_sample *item = samples->item;
	struct hardware_access hardware;

	read_perf(source, sample, &hardware);
	item->detail = (struct sample_detail){
		.latency = hardware.latency,
		.latency_2 = sample->weight_var2,
		.latency_3 = sample->weight_var3,
		.physical_address = hardware.physical_address,
		.page_bytes = sample->data_page_bytes,
	};
	return sample_add_hardware(samples, source, &hardware);
}

/* ---- SPE ---- */

/* What is left of a CPU's stream: a record that ends in the next piece. */
struct sample_stream {
	uint32_t source;
	uint32_t cpu;
	size_t n_bytes;
	uint8_t bytes[MOST_KEPT_BYTES];
};

void sample_streams_finish(struct samples *samples)
{
	array_free(samples->streams, samples->n_streams, it, free(*it));
	key_map_finish(&samples->words);
}

static struct sample_stream *stream_of(struct samples *samples, uint32_t source, uint32_t cpu)
{
	for (size_t i = 0; i < samples->n_streams; i++) {
		if (samples->streams[i]->source == source && samples->streams[i]->cpu == cpu)
			return samples->streams[i];
	}
	struct sample_stream *stream = calloc(1, sizeof(*stream));

	if (!stream || grow_array(&samples->streams, samples->n_streams,
				  &samples->n_streams_allocated, sizeof(*samples->streams)) < 0)
		return free(stream), NULL;
	stream->source = source;
	stream->cpu = cpu;
	samples->streams[samples->n_streams++] = stream;
	return stream;
}

/* The accesses of a piece, behind what was left; *ret_n of them, allocated as a block. */
static struct record_buffer *decode_piece(struct sample_source *source,
					  struct sample_stream *stream, const uint8_t *bytes,
					  size_t n_bytes, size_t *ret_n)
{
	struct record_buffer *buffer = NULL;
	size_t n_all = stream->n_bytes + n_bytes, n = 0, n_allocated = 0;
	uint8_t *all = malloc(n_all + 1);
	struct spe_cursor cursor = { all, n_all, 0, 0 };
	struct hardware_access access;

	if (!all)
		return NULL;
	memcpy(all, stream->bytes, stream->n_bytes);
	memcpy(all + stream->n_bytes, bytes, n_bytes);
	while (spe_decode_next(&cursor, &access)) {
		if (grow_array_by(&buffer, 0, sizeof(*buffer) + (n + 1) * sizeof(access),
				  &n_allocated, 1) < 0)
			break;
		memcpy(buffer->bytes + n++ * sizeof(access), &access, sizeof(access));
	}
	source->losses[SAMPLE_LOSS_BAD_PACKET] += cursor.n_damaged;
	stream->n_bytes = n_all - cursor.at;
	if (stream->n_bytes > sizeof(stream->bytes)) { /* no end of it in sight */
		source->losses[SAMPLE_LOSS_BAD_PACKET] += stream->n_bytes;
		stream->n_bytes = 0;
	}
	memcpy(stream->bytes, all + cursor.at, stream->n_bytes);
	free(all);
	*ret_n = n;
	return buffer ? buffer : record_buffer_create("", 0);
}

int samples_aux(struct samples *samples, uint32_t source, const struct trace_aux *head,
		const void *bytes)
{
	struct sample_source *own = samples_source_of_frame(samples, source);
	struct sample_stream *stream = NULL;
	size_t n = 0;
	int r = 0;

	if (!own)
		return 0;
	if (own->kind != SAMPLE_SPE) {
		own->losses[SAMPLE_LOSS_AUX]++;
		return 0;
	}
	stream = stream_of(samples, source, head->cpu);
	struct record_buffer *buffer =
		stream ? decode_piece(own, stream, bytes, head->n_bytes, &n) : NULL;
	if (!buffer)
		return -ENOMEM;
	buffer->n_entries = 0;
	buffer->source = (uint32_t)(own - samples->sources);
	buffer->kind = QUEUED_HARDWARE;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct queued_sample entry = {
			.time_ns = samples_time_of(samples, own, head->raw_ns),
			.buffer = buffer,
			.offset = (uint32_t)(i * sizeof(struct hardware_access)),
			.n_bytes = sizeof(struct hardware_access),
		};
		r = sample_queue_add(&samples->queue, &entry);
	}
	record_buffer_settle(buffer);
	return r;
}

int sample_attribute_hardware(struct samples *samples, struct sample_source *source,
			      const struct hardware_access *hardware, int64_t time_ns)
{
	struct tasks *tasks = samples->context.tasks;
	const struct sample_location place = {
		.pid = hardware->context ? tasks_pid_of(tasks, hardware->context, time_ns)
					 : tasks_only_pid(tasks),
		.tid = hardware->context ? hardware->context : tasks_only_pid(tasks),
		.ip = hardware->ip,
		.weight = source->period,
		.is_kernel = hardware->is_kernel,
	};
	int r = sample_begin(samples, source, &place, time_ns);

	if (r <= 0)
		return r;
	samples->item->detail = (struct sample_detail){
		.latency = hardware->latency,
		.latency_2 = hardware->total_latency,
		.physical_address = hardware->physical_address,
	};
	r = sample_add_hardware(samples, source, hardware);
	return r < 0 ? r : sample_end(samples);
}

/* ---- The words' meaning ---- */

static const char *or_none(const char *text)
{
	return *text ? text : NULL;
}

int sample_write_words(struct samples *samples)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < samples->words.capacity; i++) {
		uint64_t word = samples->words.entries[i].value ? samples->words.entries[i].a : 0;
		struct data_source told;

		if (!word)
			continue;
		data_source_decode(word, &told);
		r = db_run(samples->context.db,
			   "INSERT OR IGNORE INTO data_source(data_src, op, level, hit, snoop, tlb,"
			   " is_locked, is_remote, hops, blocked)"
			   " VALUES(?1, ?2, ?3, ?4, ?5, ?6, nullif(?7, -1), nullif(?8, -1),"
			   " nullif(?9, -1), ?10)",
			   "ntttttnnnt", (int64_t)word, or_none(told.op), or_none(told.level),
			   or_none(told.hit), or_none(told.snoop), or_none(told.tlb),
			   (int64_t)told.is_locked, (int64_t)told.is_remote, (int64_t)told.hops,
			   or_none(told.blocked));
	}
	return r;
}
