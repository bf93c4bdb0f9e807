#pragma once
/* Records as the trace reader gives them, for tests: struct and strings in one piece. */
#include <stdlib.h>
#include <string.h>

#include "schemas/ring.h"
#include "schemas/trace-format.h"

/* A copy of a record with its strings behind it (which may be empty); the caller frees it. */
static inline void *make_record(const void *record, size_t struct_bytes, const char *first,
				size_t n_first, const char *second, size_t n_second)
{
	size_t n = (struct_bytes + n_first + n_second + 7) / 8 * 8;
	char *copy = calloc(1, n);

	if (!copy)
		abort();
	memcpy(copy, record, struct_bytes);
	memcpy(copy + struct_bytes, first, n_first);
	memcpy(copy + struct_bytes + n_first, second, n_second);
	((struct trace_record *)copy)->struct_bytes = (uint16_t)struct_bytes;
	((struct trace_record *)copy)->bytes = (uint32_t)n;
	return copy;
}

static inline struct trace_process *make_process(uint32_t number, uint32_t parent, uint32_t pid,
						 enum ring_birth birth)
{
	struct trace_process process = {
		.head.type = TRACE_RECORD_PROCESS,
		.process_id = number,
		.parent_id = parent,
		.pid = pid,
		.ns_pid = pid,
		.birth = (uint16_t)birth,
		.exe_bytes = 8,
		.command_bytes = 11,
	};

	return make_record(&process, sizeof(process), "/bin/app", 8, "app\0-n\0a b\0", 11);
}

static inline struct trace_thread *make_thread(uint32_t number, uint32_t process, uint32_t tid)
{
	struct trace_thread thread = {
		.head.type = TRACE_RECORD_THREAD,
		.thread_id = number,
		.process_id = process,
		.tid = tid,
		.ns_tid = tid,
	};

	return make_record(&thread, sizeof(thread), "", 0, "", 0);
}

static inline struct trace_module *make_module(uint32_t process, const char *path,
					       const char *build_id, uint64_t start, uint64_t end)
{
	struct trace_module module = {
		.head.type = TRACE_RECORD_MODULE,
		.process_id = process,
		.bias = start,
		.start = start,
		.end = end,
		.build_id_bytes = (uint32_t)strlen(build_id),
		.path_bytes = (uint32_t)strlen(path),
	};

	return make_record(&module, sizeof(module), build_id, strlen(build_id), path, strlen(path));
}
