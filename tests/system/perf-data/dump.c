/*
 * dump FILE [quiet]       tells what the reader makes of a perf.data, a line for each thing, fields
 * separated by tabs.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "analyze/input/perf-data/file.h"

static void print_events(const struct perf_data *data)
{
	for (size_t i = 0; i < perf_data_n_events(data); i++) {
		const struct perf_data_event *event = perf_data_event(data, i);
		const char *pmu = perf_data_pmu(data, event->type);

		printf("event\t%zu\t%u\t%#" PRIx64 "\t%#" PRIx64 "\t%s\t%s\t%u\t%" PRIu64
		       "\t%" PRIu64 "\n",
		       i, event->type, event->config, event->config1,
		       event->name ? event->name : "", pmu ? pmu : "", event->precise,
		       event->period, event->frequency_hz);
	}
}

static void print_info(const struct perf_data *data)
{
	const struct perf_data_info *info = perf_data_info(data);
	const char *const texts[][2] = {
		{ "host_name", info->host_name }, { "kernel", info->kernel },
		{ "perf", info->perf_version },	  { "arch", info->arch },
		{ "cpu_model", info->cpu_model }, { "cpu_id", info->cpu_id },
		{ "numa", info->numa },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i][1])
			printf("info\t%s\t%s\n", texts[i][0], texts[i][1]);
	}
	printf("info\tcommand\t");
	for (size_t i = 0; i < info->command_bytes; i++)
		putchar(info->command[i] ? info->command[i] : ' ');
	printf("\ninfo\tn_cpus\t%u\ninfo\tmemory\t%" PRIu64 "\n", info->n_cpus, info->memory_bytes);
	printf("info\ttimes\t%" PRIu64 "\t%" PRIu64 "\n", info->first_sample_ns,
	       info->last_sample_ns);
	if (info->has_clock_data)
		printf("info\tclock\t%d\t%" PRIu64 "\t%" PRIu64 "\n", info->clock_id, info->wall_ns,
		       info->clock_ns);
	printf("info\tform\t%s\t%s\n", info->is_pipe ? "pipe" : "file",
	       info->is_swapped ? "swapped" : "native");
}

static void print_sample(uint32_t event, const struct pmu_record *record)
{
	const struct pmu_origin *origin = &record->origin;
	const struct pmu_sample *sample = &record->sample;

	printf("sample\t%u\t%#" PRIx64 "\t%u\t%u\t%" PRIu64 "\t%#" PRIx64 "\t%#" PRIx64 "\t%" PRIu64
	       "\t%#" PRIx64 "\t%" PRIu64 "\t%d\t%u\t%u\n",
	       event, origin->id, origin->pid, origin->tid, origin->time_ns, sample->ip,
	       sample->address, sample->period, sample->data_src, sample->weight, (int)origin->cpu,
	       sample->raw_bytes, record->is_kernel);
}

static void print_map(const struct pmu_map *map)
{
	printf("map\t%u\t%u\t%#" PRIx64 "\t%#" PRIx64 "\t%#" PRIx64 "\t%#x\t%s\t", map->pid,
	       map->tid, map->address, map->size, map->file_offset, map->prot, map->path);
	for (unsigned i = 0; i < map->build_id_bytes; i++)
		printf("%02x", map->build_id[i]);
	printf("\n");
}

static void print_record(const struct perf_data_item *item, const struct pmu_record *record)
{
	switch (record->is_known ? record->type : 0) {
	case PERF_RECORD_SAMPLE:
		print_sample(item->event, record);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		print_map(&record->map);
		break;
	case PERF_RECORD_COMM:
		printf("comm\t%u\t%u\t%d\t%s\n", record->comm.pid, record->comm.tid,
		       record->comm.is_exec, record->comm.name);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		printf("%s\t%u\t%u\t%u\t%u\t%" PRIu64 "\n",
		       record->type == PERF_RECORD_FORK ? "fork" : "exit", record->task.pid,
		       record->task.tid, record->task.parent_pid, record->task.parent_tid,
		       record->task.time_ns);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		printf("lost\t%" PRIu64 "\n", record->lost.count);
		break;
	default:
		printf("record\t%u\t%zu\n", item->type, item->n_bytes);
	}
}

/* is_quiet: records are parsed and not told, to measure that. */
static int print_item(const struct perf_data *data, const struct perf_data_item *item,
		      bool is_quiet)
{
	struct pmu_record record;

	if (item->kind == PERF_DATA_ROUND) {
		printf("round\n");
		return 0;
	}
	if (item->kind == PERF_DATA_AUX) {
		printf("aux\t%" PRIu64 "\t%zu\t%d\t%d\n", item->offset, item->n_bytes,
		       (int)item->cpu, (int)item->tid);
		return 0;
	}
	int r = pmu_record_parse(&perf_data_event(data, item->event)->format, item->bytes,
				 item->n_bytes, &record);
	if (is_quiet)
		return 0;
	if (r < 0)
		printf("damaged\t%u\t%zu\t%d\n", item->type, item->n_bytes, r);
	else
		print_record(item, &record);
	return 0;
}

int main(int argc, char **argv)
{
	auto_perf_data struct perf_data *data = NULL;
	struct perf_data_item item;

	if (argc < 2)
		return 2;
	int r = perf_data_open(argv[1], &data);
	while (r >= 0 && (r = perf_data_next(data, &item)) > 0)
		print_item(data, &item, argc > 2);
	if (!data) {
		printf("error\t%s\n", strerror(-r));
		return 1;
	}
	print_events(data);
	print_info(data);
	const struct perf_data_damage *damage = perf_data_damage(data);
	printf("damage\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%d\n",
	       damage->n_unread_bytes, damage->n_damaged_records, damage->n_damaged_blocks,
	       damage->n_nameless_records, damage->n_unknown_records, damage->is_cut);
	return r < 0;
}
