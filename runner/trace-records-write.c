#include "runner/trace-records-write.h"

#include <string.h>

int store_process(struct trace_writer *writer, const struct image *image)
{
	struct trace_process record = {
		.head.type = TRACE_RECORD_PROCESS,
		.process_id = image->id,
		.parent_id = image->parent_id,
		.pid = (uint32_t)image->pid,
		.ns_pid = (uint32_t)image->ns_pid,
		.exec_seq = image->exec_seq,
		.birth = (uint16_t)image->birth,
		.why_not = (uint16_t)(image->is_traced ? TRACE_TRACED : image->why_not),
		.start_ticks = image->start_ticks,
	};

	return trace_writer_add(
		writer, &record, trace_text(image->exe),
		trace_bytes(image->command ? image->command : "", image->command_bytes));
}

int store_rank(struct trace_writer *writer, uint32_t process_id, uint32_t rank)
{
	struct trace_rank record = { .head.type = TRACE_RECORD_RANK,
				     .process_id = process_id,
				     .rank = rank };

	return trace_writer_add(writer, &record);
}

int store_process_end(struct trace_writer *writer, uint32_t process_id, int status, uint64_t ticks)
{
	struct trace_process_end record = {
		.head.type = TRACE_RECORD_PROCESS_END,
		.process_id = process_id,
		.status = status,
		.ticks = ticks,
	};

	return trace_writer_add(writer, &record);
}

int store_thread(struct trace_writer *writer, uint32_t thread_id, const struct image *image,
		 uint32_t tid, const struct ring_thread_start *start)
{
	static const struct ring_thread_start nothing;
	const struct ring_thread_start *from = start ? start : &nothing;
	struct trace_thread record = {
		.head.type = TRACE_RECORD_THREAD,
		.thread_id = thread_id,
		.process_id = image->id,
		.tid = tid,
		.ns_tid = from->tid,
		.start_ticks = from->ticks,
		.stack_start = from->stack_start,
		.stack_end = from->stack_end,
		.fs_base = from->fs_base,
		.is_main = from->is_main != 0,
	};

	return trace_writer_add(writer, &record,
				trace_bytes(from->name, strnlen(from->name, sizeof(from->name))));
}

int store_thread_end(struct trace_writer *writer, uint32_t thread_id, uint64_t ticks)
{
	struct trace_thread_end record = {
		.head.type = TRACE_RECORD_THREAD_END,
		.thread_id = thread_id,
		.ticks = ticks,
	};

	return trace_writer_add(writer, &record);
}

int store_thread_name(struct trace_writer *writer, uint32_t thread_id, const char *name,
		      uint64_t ticks)
{
	struct trace_thread_name record = {
		.head.type = TRACE_RECORD_THREAD_NAME,
		.ticks = ticks,
		.thread_id = thread_id,
	};

	return trace_writer_add(writer, &record, trace_text(name));
}

int store_module(struct trace_writer *writer, uint32_t process_id,
		 const struct drain_module *module)
{
	struct trace_module record = {
		.head.type = module->is_unload ? TRACE_RECORD_MODULE_UNLOAD : TRACE_RECORD_MODULE,
		.ticks = module->head.ticks,
		.bias = module->head.bias,
		.start = module->head.start,
		.end = module->head.end,
		.process_id = process_id,
	};

	return trace_writer_add(writer, &record,
				trace_bytes(module->build_id, module->head.build_id_bytes),
				trace_bytes(module->path, module->head.path_bytes));
}

int store_text(struct trace_writer *writer, uint32_t process_id, uint64_t id, const char *text,
	       size_t n_bytes)
{
	struct trace_text record = {
		.head.type = TRACE_RECORD_TEXT,
		.id = id,
		.process_id = process_id,
	};

	return trace_writer_add(writer, &record, trace_bytes(text, n_bytes));
}

int store_heap_range(struct trace_writer *writer, uint32_t process_id,
		     const struct drain_heap_range *range)
{
	struct trace_heap_range record = {
		.head.type = TRACE_RECORD_HEAP_RANGE,
		.ticks = range->ticks,
		.start = range->start,
		.size = range->size,
		.process_id = process_id,
		.is_removed = range->is_removed,
	};

	return trace_writer_add(writer, &record, trace_bytes(range->kind, range->kind_bytes),
				trace_bytes(range->place, range->place_bytes));
}

int store_map(struct trace_writer *writer, uint32_t process_id, uint64_t ticks,
	      const struct image_map *map)
{
	struct trace_mapping record = {
		.head.type = TRACE_RECORD_MAPPING,
		.ticks = ticks,
		.start = map->start,
		.size = map->end - map->start,
		.file_offset = map->file_offset,
		.process_id = process_id,
		.prot = map->prot,
		.flags = map->flags,
	};

	return trace_writer_add(writer, &record, trace_text(map->path));
}

int store_loss(struct trace_writer *writer, const struct store_loss *loss)
{
	struct trace_loss record = {
		.head.type = TRACE_RECORD_LOSS,
		.count = loss->count,
		.from_ticks = loss->from_ticks,
		.to_ticks = loss->to_ticks,
		.process_id = loss->process_id,
	};

	if (loss->count == 0)
		return 0;
	return trace_writer_add(writer, &record, trace_text(loss->source),
				trace_text(loss->reason));
}

int store_counter(struct trace_writer *writer, uint32_t process_id, const char *name,
		  const char *unit, uint64_t value)
{
	struct trace_counter record = {
		.head.type = TRACE_RECORD_COUNTER,
		.value = value,
		.process_id = process_id,
	};

	return trace_writer_add(writer, &record, trace_text(name), trace_text(unit));
}

int store_count(struct trace_writer *writer, const struct pmu_counter *counter,
		const struct pmu_count *count)
{
	struct trace_counter record = {
		.head.type = TRACE_RECORD_COUNTER,
		.value = count->value,
		.enabled_ns = count->enabled_ns,
		.running_ns = count->running_ns,
	};

	return trace_writer_add(
		writer, &record, trace_text(counter->name),
		trace_text(counter->is_user_only ? "events in user mode" : "events"));
}

int store_fact(struct trace_writer *writer, const char *key, const char *value, uint64_t ticks,
	       bool at_end)
{
	struct trace_fact record = {
		.head.type = TRACE_RECORD_FACT,
		.ticks = ticks,
		.at_end = at_end,
	};

	return trace_writer_add(writer, &record, trace_text(key), trace_text(value));
}

int store_clock(struct trace_writer *writer, const struct clock_pair *pair)
{
	struct trace_clock record = {
		.head.type = TRACE_RECORD_CLOCK,
		.ticks = pair->ticks,
		.raw_ns = pair->raw_ns,
		.error_ns = pair->error_ns,
	};

	return trace_writer_add(writer, &record);
}
