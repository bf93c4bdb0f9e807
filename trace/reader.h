#pragma once
/*
 * Reads a trace file, one decoded frame at a time, in bounded memory. The file is hostile input:
 * whatever it holds, no function crashes, reads out of bounds or loops; damage is reported and
 * stepped over (a damaged frame by its length; a damaged frame head by searching the next one).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"

struct trace_reader;

/*
 * Open a trace. -EBADMSG: not a trace; -EPROTOTYPE: of a format that this reader does not know
 * (another major version, or an older minor one; trace_reader_version() says which); else errno. A
 * header that starts as a trace but is damaged is no failure: trace_damage.header_damaged.
 */
int trace_reader_open(const char *path, struct trace_reader **ret_reader);

/* The same of a file that is open; the descriptor stays the caller's, and is not moved in. */
int trace_reader_open_fd(int fd, struct trace_reader **ret_reader);

/* For a message: the version of a file's format, of whichever trace_reader_open() refused. */
int trace_reader_version(const char *path, unsigned *ret_major, unsigned *ret_minor);

/* Accepts NULL, returns NULL. */
struct trace_reader *trace_reader_close(struct trace_reader *reader);

static inline void trace_reader_cleanup(struct trace_reader **reader)
{
	trace_reader_close(*reader);
}
#define auto_trace_reader __attribute__((cleanup(trace_reader_cleanup)))

/* The file's header, valid until close; not to be believed when header_damaged. */
const struct trace_file_header *trace_reader_header(const struct trace_reader *reader);

/* How far the file was read, in bytes: for progress. */
uint64_t trace_reader_offset(const struct trace_reader *reader);

/*
 * What the index says is in the file: allocation events; samples and accesses. False, and both 0,
 * for one that did not end cleanly. Before the first frame is read.
 */
bool trace_reader_count(struct trace_reader *reader, uint64_t *ret_n_events,
			uint64_t *ret_n_samples);

/* Give frames of these types and COMMIT only; what else there is is stepped over unseen. */
void trace_reader_only(struct trace_reader *reader, const enum trace_frame_type *types, size_t n);

/*
 * Do not decode events: their items have `columns` instead, to be read by trace_columns_begin() and
 * its family. Frames that could not be decoded are damage all the same.
 */
void trace_reader_keep_columns(struct trace_reader *reader);

/*
 * The file is still being written. wait() is asked, by the thread that reads, when all of its first
 * n_bytes were read. It returns how many bytes are whole and stay as they are, more than n_bytes;
 * n_bytes: no more are to come, and the file is read up to its end as any other; or a negative
 * errno, which is handed on. Behind the opening, which reads the header only.
 */
void trace_reader_grows(struct trace_reader *reader,
			int64_t (*wait)(void *context, uint64_t n_bytes), void *context);

/* A frame whose items are decoded. The pointers are valid until the next call. */
struct trace_item {
	enum trace_frame_type type; /* INDEX frames are not given */
	uint32_t stream_id;
	bool is_behind_damage; /* a part of the file before it could not be read */
	/* events, nodes, accesses; known records of a RECORDS frame; bytes of PERF, CODE and AUX */
	size_t n;
	size_t n_bytes; /* of the decoded body, RECORDS, and of columns */
	const uint8_t *columns; /* a verified body, trace_reader_keep_columns(); else NULL */
	union {
		const struct trace_event *events;
		const struct trace_node *nodes;
		const struct trace_access *accesses;
		const void *perf;
		struct {
			const struct trace_code *head;
			const void *bytes;
		} code;
		struct {
			const struct trace_aux *head;
			const void *bytes;
		} aux;
		const struct trace_record *records; /* walk with trace_record_next() */
		const struct trace_commit *commit;
	};
};

/* Read on. Returns 1 with an item, 0 at the end of what is readable, or a negative errno. */
int trace_reader_next(struct trace_reader *reader, struct trace_item *ret_item);

/*
 * The next record of a RECORDS item, or NULL behind the last. Start with NULL. Records of unknown
 * types are stepped over (trace_damage.n_unknown_records counts them). Every record given
 * is at least as long as the struct of its type (known types), and its strings lie inside it.
 */
const struct trace_record *trace_record_next(const struct trace_item *item,
					     const struct trace_record *record);

/*
 * String number i (from 0) of a record of known type: *ret_bytes its length; not NUL-terminated.
 * An unknown type or number gives "" and 0.
 */
const char *trace_record_string(const struct trace_record *record, unsigned i, size_t *ret_bytes);

/* What was found wrong so far. All zero, with ended = true at the end, is a whole trace. */
struct trace_damage {
	uint64_t n_damaged_frames; /* head good, body not: n_lost_items counts its items */
	uint64_t n_lost_items; /* events, nodes, records, samples, accesses, pieces of code */
	uint64_t n_skipped_bytes; /* searched over for the next good frame head */
	uint64_t n_unknown_frames; /* from a newer writer */
	uint64_t n_unknown_records;
	uint64_t n_uncommitted_items; /* behind the last COMMIT: given all the same */
	uint64_t committed_ticks; /* of the last COMMIT seen */
	bool header_damaged; /* clock, rate and start of the run are not known */
	bool ended; /* index and footer are there: a clean end */
};
const struct trace_damage *trace_reader_damage(const struct trace_reader *reader);
