#pragma once
/*
 * Reads what `perf record` wrote, one record at a time, in bounded memory: files and pipes
 * ("perf.data"), of either byte order, compressed or not, from Linux 2.6.32 to today's. The file is
 * hostile input: whatever it holds, no function crashes, reads out of bounds or loops; what cannot
 * be used is counted and stepped over. Layout: tools/perf/Documentation/perf.data-file-format.txt
 * and tools/lib/perf/include/perf/event.h of Linux. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/record.h"

/* The first eight bytes of a file, in the order of the host that wrote it. */
#define PERF_DATA_MAGIC		"PERFILE2"
#define PERF_DATA_MAGIC_SWAPPED "2ELIFREP"

struct perf_data;

/*
 * Open a file (or what a pipe wrote into one) and read its header, events and features. 0,
 * -EBADMSG: not a perf.data, or its header is nonsense; else errno.
 */
int perf_data_open(const char *path, struct perf_data **ret_data);
struct perf_data *perf_data_close(struct perf_data *data); /* accepts NULL, returns NULL */

/* An event that was recorded: what of its perf_event_attr says how its records are to be read. */
struct perf_data_event {
	struct pmu_format format;
	uint32_t type; /* PERF_TYPE_*, or that of a PMU of the host */
	uint64_t config;
	uint64_t config1;
	uint64_t config2;
	uint64_t period; /* 0: by frequency */
	uint64_t frequency_hz;
	bool exclude_user;
	bool exclude_kernel;
	bool has_clock_id; /* its times are of clock_id; else of perf's own clock */
	int32_t clock_id;
	uint8_t precise;
	uint32_t stack_bytes;
	char *name; /* as perf calls it; NULL: not told */
};

/* Events told so far: a pipe tells them before their records. Valid until the next call. */
size_t perf_data_n_events(const struct perf_data *data);
const struct perf_data_event *perf_data_event(const struct perf_data *data, size_t index);

/* What the file tells of host and recording; NULL and 0: nothing. Owned by the reader. */
struct perf_data_info {
	char *host_name;
	char *kernel;
	char *perf_version;
	char *arch; /* "x86_64", "aarch64" */
	char *cpu_model;
	char *cpu_id; /* "GenuineIntel,6,85,4" */
	char *command; /* arguments of perf, separated and ended by NUL */
	size_t command_bytes;
	char *numa; /* "0: 32768 MiB, cpus 0-15; 1: ..." */
	uint32_t n_cpus;
	uint64_t memory_bytes;
	uint64_t first_sample_ns;
	uint64_t last_sample_ns;
	bool has_clock_data; /* wall_ns and clock_ns are of one moment; clock_ns is of clock_id */
	int32_t clock_id;
	uint64_t wall_ns;
	uint64_t clock_ns;
	uint64_t aux_type; /* enum auxtrace_type of perf: PERF_DATA_AUX_*; 0: none */
	bool is_pipe;
	bool is_swapped; /* of the other byte order: records are given in ours */
};
const struct perf_data_info *perf_data_info(const struct perf_data *data);

#define PERF_DATA_AUX_ARM_SPE 4u

/*
 * The name of a PMU by perf_event_attr.type, as the file tells it ("cpu", "ibs_op"); NULL: not
 * told.
 */
const char *perf_data_pmu(const struct perf_data *data, uint32_t type);

/* The build-id that the file tells for a path. Returns its length, 0: none. */
size_t perf_data_build_id(struct perf_data *data, const char *path, const uint8_t **ret_build_id);

enum perf_data_kind {
	PERF_DATA_RECORD, /* a record as the kernel writes it, in our byte order */
	PERF_DATA_AUX, /* bytes of an AUX area */
	PERF_DATA_ROUND, /* perf has written what its rings held: see perf_data_next() */
};

struct perf_data_item {
	enum perf_data_kind kind;
	uint32_t type; /* RECORD: PERF_RECORD_* */
	uint32_t event; /* RECORD: index of its event */
	const void *bytes; /* RECORD: 8-byte aligned; valid until the next call */
	size_t n_bytes;
	uint64_t offset; /* AUX: in the stream of its CPU or thread */
	uint32_t cpu; /* AUX; UINT32_MAX: of a thread */
	uint32_t tid; /* AUX; UINT32_MAX: of a CPU */
};

/*
 * Read on. Returns 1 with an item, 0 at the end of what is readable, or a negative errno. Records
 * are out of order between CPUs; those behind a ROUND are not older than the newest before the
 * ROUND that came before it (tools/perf/util/session.c, process_finished_round()).
 */
int perf_data_next(struct perf_data *data, struct perf_data_item *ret_item);

/* What could not be used so far. All zero is a whole file. */
struct perf_data_damage {
	uint64_t n_unread_bytes; /* behind a record whose size is nonsense, or missing at the end */
	uint64_t n_damaged_records; /* fields do not fit: stepped over */
	uint64_t n_damaged_blocks; /* compressed bytes that are not */
	uint64_t n_nameless_records; /* of an event that the file does not describe */
	uint64_t n_unknown_records; /* of types from a newer perf */
	bool is_cut; /* perf did not end the file */
};
const struct perf_data_damage *perf_data_damage(const struct perf_data *data);

/* How far the file was read, in bytes: for progress. */
uint64_t perf_data_offset(const struct perf_data *data);

static inline void perf_data_cleanup(struct perf_data **data)
{
	*data = perf_data_close(*data);
}
#define auto_perf_data __attribute__((cleanup(perf_data_cleanup)))
