#include "analyze/archive/mapped-files.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "perf/record.h"
#include "trace/reader.h"

#define MAX_SOURCES 256u

struct files {
	struct objects *objects;
	/* What the records of a source hold, by its number: that is enough to find its maps. */
	struct pmu_format formats[MAX_SOURCES];
};

static int add(struct files *files, const void *build_id, size_t n_build_id, const char *path,
	       size_t n_path)
{
	if (n_path < 2 || path[0] != '/' || path[1] == '/')
		n_path = n_build_id ? n_path : 0; /* "[vdso]", "//anon" */
	if (n_path == 0)
		return 0;
	return objects_get(files->objects, build_id, n_build_id, path, n_path) ? 0 : -ENOMEM;
}

static int on_module(struct files *files, const struct trace_record *record)
{
	size_t n_build_id;
	size_t n_path;
	const char *build_id = trace_record_string(record, 0, &n_build_id);
	const char *path = trace_record_string(record, 1, &n_path);

	return add(files, build_id, n_build_id, path, n_path);
}

static int on_mapping(struct files *files, const struct trace_record *record)
{
	const struct trace_mapping *map = (const struct trace_mapping *)record;
	size_t n_path;
	const char *path = trace_record_string(record, 0, &n_path);

	return map->prot & PROT_EXEC ? add(files, NULL, 0, path, n_path) : 0;
}

static int on_source(struct files *files, const struct trace_record *record)
{
	const struct trace_source *source = (const struct trace_source *)record;

	if (source->source_id < MAX_SOURCES)
		files->formats[source->source_id] = (struct pmu_format){
			.sample_type = source->sample_type,
			.regs_user = source->regs_user,
		};
	return 0;
}

/* Relative paths start at the run's working folder. */
static int on_run(struct files *files, const struct trace_record *record)
{
	size_t n_bytes;
	const char *text = trace_record_string(record, 3, &n_bytes);
	auto_free char *directory = strndup(text, n_bytes);

	return directory ? objects_set_directory(files->objects, directory) : -ENOMEM;
}

static int read_record(struct files *files, const struct trace_record *record)
{
	switch (record->type) {
	case TRACE_RECORD_MODULE:
		return on_module(files, record);
	case TRACE_RECORD_MAPPING:
		return on_mapping(files, record);
	case TRACE_RECORD_SOURCE:
		return on_source(files, record);
	case TRACE_RECORD_RUN:
		return on_run(files, record);
	default:
		return 0;
	}
}

static int read_records(struct files *files, const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	int r = 0;

	while (r == 0 && (record = trace_record_next(item, record)))
		r = read_record(files, record);
	return r;
}

static int read_perf(struct files *files, const struct trace_item *item)
{
	const char *bytes = item->perf;
	int r;

	if (item->stream_id >= MAX_SOURCES)
		return 0;
	for (size_t at = 0; at < item->n; at += (size_t)r) {
		struct pmu_record record;

		r = pmu_record_parse(&files->formats[item->stream_id], bytes + at, item->n - at,
				     &record);
		if (r <= 0 && r != -EILSEQ)
			break;
		if (r > 0 && record.is_known && record.type == PERF_RECORD_MMAP2 &&
		    record.map.prot & PROT_EXEC &&
		    add(files, record.map.build_id, record.map.build_id_bytes, record.map.path,
			strlen(record.map.path)) < 0)
			return -ENOMEM;
		r = record.bytes;
	}
	return 0;
}

int trace_files_read(const char *trace, struct objects *objects)
{
	auto_free struct files *files = calloc(1, sizeof(*files));
	struct trace_reader *reader = NULL;
	struct trace_item item;
	int r = files ? trace_reader_open(trace, &reader) : -ENOMEM;

	if (r < 0)
		return r;
	files->objects = objects;
	while (r >= 0 && (r = trace_reader_next(reader, &item)) > 0) {
		if (item.type == TRACE_FRAME_RECORDS)
			r = read_records(files, &item);
		else if (item.type == TRACE_FRAME_PERF)
			r = read_perf(files, &item);
	}
	trace_reader_close(reader);
	return r;
}
