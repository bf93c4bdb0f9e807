#pragma once
/*
 * Writes a trace file (schemas/trace-format.h). One thread at a time. Everything given is buffered
 * into the current segment; trace_writer_commit() compresses and appends the segment, so what was
 * committed stays readable whatever happens later.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/trace-format.h"
#include "trace/records.h"

struct trace_writer;

/*
 * Start a trace on an open, empty, seekable file (not O_APPEND): writes the header at once. The
 * writer owns fd from here on (also when it fails). The caller ignores SIGXFSZ, so that a file size
 * limit is an error (EFBIG) and not the end. header: magic, versions, header_bytes and checksum are
 * filled in by the writer. Returns 0 or a negative errno.
 */
int trace_writer_open(int fd, const struct trace_file_header *header,
		      struct trace_writer **ret_writer);

/* Free without ending the file (a crash looks the same). Accepts NULL, returns NULL. */
struct trace_writer *trace_writer_close(struct trace_writer *writer);

/*
 * Add a definition. record points to one of the structs of trace-format.h with its head.type set;
 * struct_bytes is its sizeof; strings are n_strings in the struct's order. The rest of the head and
 * the lengths of strings are filled in on the copy. Returns 0 or a negative errno.
 */
int trace_writer_record(struct trace_writer *writer, const void *record, size_t struct_bytes,
			const struct trace_string *strings, size_t n_strings);

/* The same of a typed record, with its strings in a row; there may be none. */
#define trace_writer_add(writer, record, ...)                                                      \
	trace_writer_record(writer, record, sizeof(*(record)), TRACE_STRINGS(__VA_ARGS__))

/*
 * Add an allocation event of a thread, in its program order. The hot path of the collector.
 * -EINVAL: no op of an event.
 */
int trace_writer_event(struct trace_writer *writer, uint32_t thread_id,
		       const struct trace_event *event);

/*
 * Add events of a thread as they lie in the pool, as many as trace_columns_append_records() takes,
 * where the thread's last event was this writer's last one, too: else none. Returns how many.
 */
struct trace_records;
uint32_t trace_writer_records(struct trace_writer *writer, uint32_t thread_id,
			      struct trace_records *records);

/*
 * Events of several threads, encoded by several threads of the recorder. Each of them has a lane.
 * The one that owns the writer looks up the threads' streams, which stay valid until a commit. Then
 * each lane may add events to streams that no other one adds to. When all have stopped, the owner
 * lets the writer have what the lanes have made.
 *
 * trace_lane_open(): 0 or -ENOMEM. trace_lane_close(): accepts NULL, returns NULL.
 * trace_writer_events(): NULL without memory. trace_lane_event(), trace_lane_records(): as those of
 * the writer.
 * trace_writer_join(): 0, or -ENOMEM: what the lane had made is dropped and counted.
 */
struct trace_lane;
struct trace_stream;
int trace_lane_open(struct trace_lane **ret_lane);
struct trace_lane *trace_lane_close(struct trace_lane *lane);
struct trace_stream *trace_writer_events(struct trace_writer *writer, uint32_t thread_id);
int trace_lane_event(struct trace_lane *lane, struct trace_stream *events,
		     const struct trace_event *event);
uint32_t trace_lane_records(struct trace_lane *lane, struct trace_stream *events,
			    struct trace_records *records);
int trace_writer_join(struct trace_writer *writer, struct trace_lane *lane);

/* Add a call-stack node of a thread; before the first event that names it. */
int trace_writer_node(struct trace_writer *writer, uint32_t thread_id,
		      const struct trace_node *node);

/*
 * Add perf_event records as they came from the kernel (whole records only). n_samples of them are
 * of type SAMPLE. -EMSGSIZE: more than half of TRACE_FRAME_MAX_BYTES at once.
 */
int trace_writer_perf(struct trace_writer *writer, uint32_t source_id, const void *records,
		      size_t n_bytes, uint32_t n_samples);

/* Add decoded accesses of --private. */
int trace_writer_accesses(struct trace_writer *writer, uint32_t source_id,
			  const struct trace_access *accesses, size_t n);

/* Add bytes of a process image: code, or read-only data. */
int trace_writer_code(struct trace_writer *writer, uint32_t process_id,
		      const struct trace_code *code, const void *bytes);

/*
 * Add bytes of an AUX area as the hardware wrote them: n_bytes of aux. More than fit into a frame
 * become several pieces, and only the first has its flags; of none is told, too, for its flags.
 * Each counts as a sample in the totals.
 */
int trace_writer_aux(struct trace_writer *writer, uint32_t source_id, const struct trace_aux *aux,
		     const void *bytes);

/*
 * Raw bytes buffered since the last commit, to decide whether a segment is full: exact but for
 * allocation events, which count as TRACE_WRITER_EVENT_BYTES each.
 */
#define TRACE_WRITER_EVENT_BYTES 8
size_t trace_writer_pending_bytes(const struct trace_writer *writer);

/* Bytes appended to the file so far. */
uint64_t trace_writer_file_bytes(const struct trace_writer *writer);

/*
 * Let the file have at most limit_bytes (0: no limit, as at first), the last reserve_bytes of
 * which, and room for index and footer, only trace_writer_finish() uses. So much of the disk is
 * taken ahead, too.
 */
void trace_writer_limit(struct trace_writer *writer, uint64_t limit_bytes, uint64_t reserve_bytes);

/*
 * Let a segment that the disk (with_limit: or the file, by its limit) has no room for wait, while
 * it has fewer than hold_bytes (0: none waits, as at first): a commit is then -EAGAIN, changes
 * nothing, and may be tried again.
 */
void trace_writer_hold(struct trace_writer *writer, uint64_t hold_bytes, bool with_limit);

/*
 * Compress and append what is buffered, then a COMMIT frame. commit.ticks is T of the format.
 * Returns 0 or a negative errno. -EFBIG (the limit, or that of the process), -ENOSPC, -EDQUOT: of
 * the segment as many frames as there is room for are in the file, as a segment of its own. After
 * any other error the file is cut back to the segment before. What is not in the file is dropped
 * and counted in *ret_n_dropped (events; trace_writer_totals() has the samples), except for records
 * and nodes: they come with the next commit that succeeds, up to TRACE_WRITER_KEPT_BYTES.
 * ret_n_dropped may be NULL.
 */
#define TRACE_WRITER_KEPT_BYTES (64u << 20)
int trace_writer_commit(struct trace_writer *writer, const struct trace_commit *commit,
			uint64_t *ret_n_dropped);

/*
 * Commit, write the index and the footer, fsync nothing. The writer can then only be closed.
 * Returns 0 or a negative errno: then the file ends with the last segment that could be written,
 * without index, and trace_writer_totals() tells what was dropped.
 */
int trace_writer_finish(struct trace_writer *writer, const struct trace_commit *commit);

/*
 * A writer that goes on in another file, empty and seekable, as if it had all that this one has
 * committed: the caller copies the first trace_writer_file_bytes() bytes, before or after it is
 * finished. It owns fd, also when it fails, and has no limits. The first one is left as it is.
 * Returns 0 or a negative errno.
 */
int trace_writer_branch(const struct trace_writer *writer, int fd,
			struct trace_writer **ret_branch);

/* Where a trace may be cut. */
struct trace_writer_cut {
	uint64_t offset; /* of the first segment that stays, or the file's end */
	uint64_t ticks; /* T of the one before */
};

/*
 * Where to cut so that all from `ticks' on stays, or (ticks 0) the last n_bytes of the file; the
 * next place before it that ends a segment. -ENOENT: there is none behind the first segment.
 */
int trace_writer_find_cut(const struct trace_writer *writer, uint64_t ticks, uint64_t n_bytes,
			  struct trace_writer_cut *ret_cut);

/*
 * Go on in another file: its first segment, up to first->offset bytes with so many events and
 * samples, takes the place of all before cut->offset, and what follows there was copied behind it
 * by the caller. The writer owns fd from here on, and closes the one that it had. Returns 0, or
 * -ENOMEM with all as it was.
 */
int trace_writer_move(struct trace_writer *writer, int fd, const struct trace_writer_cut *cut,
		      const struct trace_index_entry *first);

/* What was given to the writer and what became of it. */
struct trace_writer_totals {
	uint64_t n_events; /* given */
	uint64_t n_samples; /* given: of perf, of accesses, and pieces of AUX */
	uint64_t n_dropped_events; /* of them, dropped by commits that failed */
	uint64_t n_dropped_samples;
	uint64_t n_dropped_definition_bytes; /* over TRACE_WRITER_KEPT_BYTES, or code; compressed */
	uint64_t n_segments; /* written */
	uint64_t raw_bytes; /* of all frames written, before compression */
};

/* Valid until close. */
const struct trace_writer_totals *trace_writer_totals(const struct trace_writer *writer);
