#pragma once
/* What the files of this room share. */
#include "analyze/input/clock-map.h"
#include "analyze/samples/code/code-snapshots.h"
#include "analyze/samples/instruction-owners.h"
#include "analyze/samples/loops.h"
#include "analyze/samples/queue.h"
#include "analyze/samples/sample-accesses.h"
#include "analyze/samples/samples.h"
#include "analyze/samples/watch-log.h"
#include "analyze/samples/write.h"
#include "common/hash-map.h"
#include "decode/decode.h"
#include "perf/record.h"
#include "store/database.h"

/* A map that perf reported before the trace named its process. */
struct early_map {
	struct mapping mapping; /* its path is owned */
	uint32_t pid;
	uint32_t tid;
};

/* All zero is empty. */
struct early_maps {
	struct early_map *items;
	size_t n;
	size_t n_allocated;
	size_t n_bytes; /* of paths */
	uint32_t n_defined; /* processes that were known when it was looked last */
};

/* What a sample of a source tells. */
enum sample_kind {
	SAMPLE_TIME, /* where the time went, and nothing else */
	SAMPLE_CLOCK, /* time and registers: decode */
	SAMPLE_FAULT, /* the address of a page fault */
	SAMPLE_ADDRESS, /* the address of the sampled access itself */
	SAMPLE_IBS, /* registers of AMD's IBS, raw */
	SAMPLE_WATCH, /* an access to watched bytes: its instruction lies before the ip */
	SAMPLE_SPE, /* packets of Arm's SPE, in AUX frames */
	SAMPLE_CALLS, /* functions entered and left */
};

/* Reasons of losses, counted for each source. */
enum sample_loss {
	SAMPLE_LOSS_LOST,
	SAMPLE_LOSS_BAD_RECORD,
	SAMPLE_LOSS_NO_CODE,
	SAMPLE_LOSS_CODE_CHANGED,
	SAMPLE_LOSS_NO_REGISTERS,
	SAMPLE_LOSS_UNKNOWN_PROCESS,
	SAMPLE_LOSS_NO_CLOCK,
	SAMPLE_LOSS_NO_MEMORY,
	SAMPLE_LOSS_ADDRESS_ZERO,
	SAMPLE_LOSS_ADDRESS_KERNEL,
	SAMPLE_LOSS_BAD_PACKET,
	SAMPLE_LOSS_AUX,
	SAMPLE_LOSS_COUNT,
};

struct sample_source {
	uint32_t number; /* source_id of the trace */
	int row; /* index of write.h */
	enum sample_kind kind;
	int64_t period;
	enum trace_direction direction;
	bool has_run; /* it was opened */
	uint32_t stack_bytes; /* with each sample, as asked for */
	bool has_own_clock; /* perf's own clock, which pairs convert */
	struct merge_clock clock; /* ticks are perf's ns; without pairs: that of all sources */
	struct pmu_format format;
	char *name;
	struct sample_turns turns;
	struct trace_source_ledger ledger; /* source_id 0: the trace has none */
	uint64_t losses[SAMPLE_LOSS_COUNT];
};

/* What is known of an instruction; kept for as long as its code space is the same. */
struct sample_code {
	uint64_t ip;
	int64_t frame; /* 0: free */
	uint32_t space; /* of code_store_space() */
	uint32_t seen; /* of instruction_owners_fault(); 0: not yet */
	bool is_tool;
};

#define SAMPLE_CODES 8192u /* a power of two */

#define SAMPLES_COMING 16u /* parsed before their turn: their misses of the cache overlap */

struct samples {
	bool is_cut; /* samples of before were left out, which ledgers count */
	struct sample_context context;
	struct sample_code *codes; /* SAMPLE_CODES of them, by a hash of ip */
	struct code_store *code;
	struct decoder *decoder; /* NULL: not for this machine */
	struct decode_window *window;
	struct sample_rows *rows;
	struct instruction_owners instructions;
	struct sample_loops loops;
	struct sample_queue queue;
	struct pmu_record coming[SAMPLES_COMING]; /* queue.n_looked of them, those behind others */
	size_t n_coming;
	struct sample_waiting waiting;
	struct watch_log *watch_log;
	struct early_maps early_maps;
	struct pending_sample *item; /* with room for SAMPLE_MAX_ACCESSES */
	struct sample_source *sources;
	size_t n_sources;
	size_t n_sources_allocated;
	struct merge_clock clock; /* perf's own clock in CLOCK_MONOTONIC_RAW, of all sources */
	struct key_map
		nodes; /* of page faults of this segment: by time, page and pid, the node + 1 */
	struct key_map words; /* of data sources, seen in samples */
	uint64_t last_word;
	struct sample_stream **streams; /* of AUX bytes, by source and CPU */
	size_t n_streams;
	size_t n_streams_allocated;
	uint64_t n_orphans; /* frames of sources that nobody told */
};

/*
 * A record whose turn has come; node_number: of a page fault, the page's node + 1, or 0. 0 or a
 * negative errno.
 */
int sample_attribute(struct samples *samples, struct sample_source *source,
		     const struct pmu_record *record, int64_t time_ns, uint32_t node_number);

/* What all samples have: fills in samples->item and makes the row of sample. */
struct sample_location {
	uint32_t pid;
	uint32_t tid;
	uint64_t ip;
	int64_t weight;
	bool is_kernel;
	uint64_t stack_pointer; /* 0: not known */
	const struct pmu_sample *sample; /* for its call stack; NULL: it has none */
};

/*
 * Begin samples->item and make the row of a sample. Returns 1, 0 when the program wants no samples
 * here, or a negative errno. Then touches are added, and sample_end() writes them, now or when the
 * thread's next event has told more. 0 or a negative errno.
 */
int sample_begin(struct samples *samples, struct sample_source *source,
		 const struct sample_location *place, int64_t time_ns);
int sample_end(struct samples *samples);

/* Who it was; NULL: not known, and counted. */
struct task_thread *sample_thread(struct samples *samples, struct sample_source *source,
				  uint32_t pid, uint32_t tid, int64_t time_ns);

/* Write an item whose owners are all known. 0 or a negative errno. */
int sample_finish_item(struct samples *samples, struct pending_sample *item);

/* The touches of a sample of time and registers, to samples->item. 0 or a negative errno. */
int sample_clock_add(struct samples *samples, struct sample_source *source,
		     const struct pmu_record *record);

/*
 * system-calls.c: whether the kernel was called on purpose, `syscall` lying right before input->ip.
 */
bool sample_is_behind_call(struct samples *samples, const struct decode_sample *input);

/*
 * The program's memory that the kernel reads or writes for the call before input->ip; the window is
 * made use of.
 */
#define SAMPLE_MAX_BUFFERS 8u
struct sample_buffer {
	uint64_t address;
	uint64_t n_bytes;
	bool is_write;
};

/* Returns how many there are, 0: none is known. */
unsigned sample_call_buffers(struct samples *samples, const struct decode_sample *input,
			     struct sample_buffer ret[SAMPLE_MAX_BUFFERS]);

/* The frame of an instruction, and whether it is our library's. NULL: no memory. */
struct sample_code *sample_code_at(struct samples *samples, const struct pending_sample *item,
				   uint64_t ip);

/* Add a touch to an item; what is beyond its room is merged with its like. */
void sample_add_access(struct pending_sample *item, const struct sample_access *access);

/* A share that has no address; none of 0. */
void sample_add_plain(struct pending_sample *item, enum trace_role role, enum owner_kind kind,
		      double share);

/* Fill in frame and owner of a resolved access. 0 or -ENOMEM. */
int sample_find_owner(struct samples *samples, struct pending_sample *item,
		      struct sample_access *access);

/*
 * attribute-hardware.c: accesses that hardware sampled, of the item at hand. 0 or a negative errno.
 */
struct hardware_access;
int sample_add_hardware_record(struct samples *samples, struct sample_source *source,
			       const struct pmu_sample *sample);
int sample_attribute_hardware(struct samples *samples, struct sample_source *source,
			      const struct hardware_access *hardware, int64_t time_ns);

/* Write what the words of data sources mean; free what it keeps. */
int sample_write_words(struct samples *samples);
void sample_streams_finish(struct samples *samples);

/* The source of a frame; NULL: it is not described, and counted. Times of its records. */
struct sample_source *samples_source_of_frame(struct samples *samples, uint32_t number);
int64_t samples_time_of(struct samples *samples, struct sample_source *source, uint64_t time_ns);

/* The accesses of one sample of --private. */
int sample_attribute_private(struct samples *samples, struct sample_source *source,
			     const struct trace_access *accesses, size_t n, int64_t time_ns);

/* Maps, names, births and ends. */
int sample_task(struct samples *samples, const struct pmu_record *record, int64_t time_ns);

/* Maps that came before their process was known, and now is. 0 or a negative errno. */
int sample_report_early_maps(struct samples *samples);

/* Free the memory; it is empty and usable afterwards. */
void early_maps_finish(struct early_maps *early);
