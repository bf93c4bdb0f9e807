/* What is left of samples, and of what they need, before a cut. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "perf/record.h"
#include "trace/cut-internal.h"

static bool is_behind(const struct cut *cut, uint64_t raw_ns)
{
	return raw_ns >= cut->options->commit.raw_ns;
}

/* ---- Sources ---- */

static struct cut_source *find_source(const struct cut *cut, uint32_t id)
{
	return array_find(cut->sources, cut->n_sources, it, it->id == id);
}

int cut_source(struct cut *cut, const struct trace_source *source)
{
	return array_add(cut->sources, cut->n_sources, cut->n_sources_allocated,
			 (struct cut_source){
				 .id = source->source_id,
				 .has_other_clock = source->clock_id == UINT32_MAX,
				 .sample_type = source->sample_type,
				 .regs_user = source->regs_user,
			 });
}

void cut_source_detail(struct cut *cut, const struct trace_source_detail *detail)
{
	struct cut_source *source = find_source(cut, detail->source_id);

	if (!source)
		return;
	source->regs_intr = detail->regs_intr;
	source->read_format = detail->read_format;
	source->branch_sample_type = detail->branch_sample_type;
}

/* ---- Records of perf ---- */

static int add_perf(struct cut *cut, const void *bytes, const struct cut_perf *perf)
{
	if (grow_one(&cut->perfs, cut->n_perfs, &cut->n_perfs_allocated) < 0)
		return -ENOMEM;
	uint8_t *copy = malloc(perf->n_bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, perf->n_bytes);
	cut->perfs[cut->n_perfs] = *perf;
	cut->perfs[cut->n_perfs++].bytes = copy;
	return 0;
}

/* Samples are of their moment; maps, names, births and ends are kept until it is known whose. */
static int take_perf(struct cut *cut, const struct cut_source *source,
		     const struct pmu_record *record, const void *bytes)
{
	struct cut_perf perf = {
		.n_bytes = record->bytes,
		.source = source->id,
		.type = record->type,
		.pid = record->origin.pid,
		.tid = record->origin.tid,
		.time_ns = record->origin.time_ns,
	};
	bool is_late = !source->has_other_clock && is_behind(cut, record->origin.time_ns);

	perf.is_late = is_late;
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		cut->n_read_samples += !is_late;
		return is_late ? add_perf(cut, bytes, &perf) : 0;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		perf.start = record->map.address;
		perf.end = record->map.address + record->map.size;
		break;
	case PERF_RECORD_COMM:
		perf.pid = record->comm.pid;
		perf.tid = record->comm.tid;
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		perf.pid = record->task.pid;
		perf.tid = record->task.tid;
		break;
	default: /* lost records, throttling */
		return is_late ? add_perf(cut, bytes, &perf) : 0;
	}
	return add_perf(cut, bytes, &perf);
}

int cut_perf(struct cut *cut, const struct trace_item *item)
{
	const struct cut_source *source = find_source(cut, item->stream_id);
	const uint8_t *at = item->perf;
	size_t left = item->n;
	int r = 0;

	if (!source)
		return 0;
	const struct pmu_format format = {
		.sample_type = source->sample_type,
		.regs_user = source->regs_user,
		.regs_intr = source->regs_intr,
		.read_format = source->read_format,
		.branch_sample_type = source->branch_sample_type,
	};
	while (r == 0 && left > 0) {
		struct pmu_record record;
		int n = pmu_record_parse(&format, at, left, &record);

		if (n == -EILSEQ)
			n = record.bytes;
		else if (n > 0 && record.is_known)
			r = take_perf(cut, source, &record, at);
		if (n <= 0)
			break;
		at += n;
		left -= (size_t)n;
	}
	return r;
}

static bool is_map(const struct cut_perf *perf)
{
	return perf->type == PERF_RECORD_MMAP || perf->type == PERF_RECORD_MMAP2;
}

/* When each thread ended last, before the cut. Clocks of their own have times of their own. */
static int find_ends(struct cut *cut, struct key_map *ends)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_perfs; i++) {
		const struct cut_perf *perf = &cut->perfs[i];
		uint64_t clock = find_source(cut, perf->source)->has_other_clock;

		if (!perf->is_late && perf->type == PERF_RECORD_EXIT &&
		    perf->time_ns >= key_map_get(ends, perf->tid, clock))
			r = key_map_put(ends, perf->tid, clock, perf->time_ns);
	}
	return r;
}

static int decide_records(struct cut *cut, const struct key_map *pids, const struct key_map *ends)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_perfs; i++) {
		struct cut_perf *perf = &cut->perfs[i];
		uint64_t process = key_map_get(pids, perf->pid, 0);
		uint64_t clock = find_source(cut, perf->source)->has_other_clock;
		uint64_t end_ns = key_map_get(ends, perf->tid, clock);

		if (perf->is_late) {
			cut_keep_tid(cut, perf->tid);
			continue;
		}
		/* What several CPUs have written is in no order of time. */
		perf->is_dropped = !process || is_map(perf) || perf->type == PERF_RECORD_EXIT ||
				   (end_ns && perf->time_ns <= end_ns);
		if (process && is_map(perf))
			r = cut_seen_map(cut, (uint32_t)process - 1, (uint32_t)i + 1);
	}
	return r;
}

int cut_decide_perf(struct cut *cut)
{
	struct key_map pids = { 0 }, ends = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_processes; i++)
		if (cut->processes[i].is_kept)
			r = key_map_put(&pids, cut->processes[i].pid, 0, i + 1);
	r = r ?: find_ends(cut, &ends) ?: decide_records(cut, &pids, &ends);
	key_map_finish(&pids);
	key_map_finish(&ends);
	return r;
}

int cut_write_perf(struct cut *cut)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_perfs; i++) {
		const struct cut_perf *perf = &cut->perfs[i];

		if (!perf->is_dropped)
			r = trace_writer_perf(cut->writer, perf->source, perf->bytes, perf->n_bytes,
					      perf->type == PERF_RECORD_SAMPLE);
	}
	return r;
}

/* ---- Samples that are decoded, or in bytes of the hardware ---- */

int cut_accesses(struct cut *cut, const struct trace_item *item)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < item->n; i++) {
		if (!is_behind(cut, item->accesses[i].raw_ns)) {
			cut->n_read_samples++;
			continue;
		}
		cut_keep_tid(cut, item->accesses[i].tid);
		r = trace_writer_accesses(cut->writer, item->stream_id, &item->accesses[i], 1);
	}
	return r;
}

int cut_aux(struct cut *cut, const struct trace_item *item)
{
	if (is_behind(cut, item->aux.head->raw_ns))
		return trace_writer_aux(cut->writer, item->stream_id, item->aux.head,
					item->aux.bytes);
	cut->n_read_samples++;
	return 0;
}

/* ---- Code ---- */

/* What memory held for samples behind the cut, or what those refer to. */
static bool has_late_held(const struct cut *cut, const struct trace_item *item)
{
	const struct trace_code *head = item->code.head;
	const uint8_t *bytes = item->code.bytes;
	bool is_late = false;

	for (size_t i = 0; !is_late && i < head->address && i < item->n / sizeof(struct trace_held);
	     i++) {
		struct trace_held held;

		memcpy(&held, bytes + i * sizeof(held), sizeof(held));
		is_late = is_behind(cut, held.after_raw_ns + TRACE_HELD_SAME_NS);
	}
	return is_late;
}

static int set_code(struct cut_code *code, const struct trace_item *item)
{
	uint8_t *bytes = malloc(item->n);

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, item->code.bytes, item->n);
	free(code->bytes);
	code->bytes = bytes;
	code->head = *item->code.head;
	return 0;
}

/* Lines of a page, over what is known of it. */
static bool lay_over(struct cut_code *code, const struct trace_item *item)
{
	uint64_t offset = item->code.head->address - code->head.address;

	if (offset > code->head.n_bytes || item->n > code->head.n_bytes - offset)
		return false;
	memcpy(code->bytes + offset, item->code.bytes, item->n);
	code->head.ticks = item->code.head->ticks;
	code->head.begin_raw_ns = item->code.head->begin_raw_ns;
	code->head.end_raw_ns = item->code.head->end_raw_ns;
	return true;
}

int cut_code(struct cut *cut, const struct trace_item *item)
{
	const struct trace_code *head = item->code.head;
	uint64_t address = head->kind == TRACE_CODE_CHANGING
				   ? head->address / TRACE_CODE_PAGE_BYTES * TRACE_CODE_PAGE_BYTES
				   : head->address;
	uint64_t key = (uint64_t)item->stream_id * 256 + head->kind;
	uint64_t number = key_map_get(&cut->codes_by_address, address, key);

	if (head->kind == TRACE_CODE_HELD)
		return has_late_held(cut, item) ? trace_writer_code(cut->writer, item->stream_id,
								    head, item->code.bytes)
						: 0;
	if (number && head->kind == TRACE_CODE_CHANGING && lay_over(&cut->codes[number - 1], item))
		return 0;
	if (number)
		return set_code(&cut->codes[number - 1], item);
	if (grow_one(&cut->codes, cut->n_codes, &cut->n_codes_allocated) < 0 ||
	    key_map_put(&cut->codes_by_address, address, key, cut->n_codes + 1) < 0)
		return -ENOMEM;
	cut->codes[cut->n_codes] = (struct cut_code){ .process = item->stream_id };
	return set_code(&cut->codes[cut->n_codes++], item);
}

int cut_write_code(struct cut *cut)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_codes; i++) {
		const struct cut_code *code = &cut->codes[i];
		const struct cut_process *process = cut_find_process(cut, code->process);

		if (!code->process || (process && process->is_kept))
			r = trace_writer_code(cut->writer, code->process, &code->head, code->bytes);
	}
	return r;
}

void cut_finish_samples(struct cut *cut)
{
	for (size_t i = 0; i < cut->n_codes; i++)
		free(cut->codes[i].bytes);
	for (size_t i = 0; i < cut->n_perfs; i++)
		free(cut->perfs[i].bytes);
	free_all(cut->codes, cut->perfs, cut->sources);
	key_map_finish(&cut->codes_by_address);
}
