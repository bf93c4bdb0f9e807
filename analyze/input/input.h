#pragma once
/*
 * What an import reads: the frames of a trace, whatever file they come from. Each kind of file is
 * told by its first bytes and has an opener in analyze/input-kinds.c's table; what is no trace of
 * memsight gives the same items as one would. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "trace/reader.h"

/*
 * How one kind of file is read; self is what its opener made. As the functions of trace/reader.h.
 */
struct feed_class {
	int (*next)(void *self, struct trace_item *ret_item);
	const struct trace_file_header *(*header)(const void *self);
	const struct trace_damage *(*damage)(const void *self);
	uint64_t (*offset)(const void *self);
	void (*close)(void *self);
	void *(*keep)(void *self); /* NULL: no item can be kept */
};

struct feed {
	const struct feed_class *class;
	void *self;
	uint64_t file_bytes; /* for progress */
	/* What the file says it holds; 0: it does not say. */
	uint64_t n_events;
	uint64_t n_samples;
	/* how far stamps of two threads may be from the true order; 0: MERGE_SKEW_NS */
	uint64_t skew_ns;
};

/* A trace that is being written; wait and context as of trace_reader_grows(). */
struct feed_growing {
	const char *path; /* its name now */
	int64_t (*wait)(void *context, uint64_t n_bytes); /* called by one thread */
	void *context;
};

/* Open it. Returns 0 or what trace_reader_open() does. */
int feed_open_growing(const struct feed_growing *growing, struct feed *ret_feed);

/* Whether a file begins as one of the kinds does. False also when it cannot be read. */
bool feed_is_known(const char *path);

/*
 * Open a file, or a folder of Heimdallr's. 0 or a negative errno: -EBADMSG: none of the kinds;
 * -EPROTOTYPE: a trace of another format (trace_reader_open()); -EUCLEAN: one of them, but damaged
 * from its begin on. ret_feed is closed with feed_close().
 */
int feed_open(const char *path, struct feed *ret_feed);

/* Accepts one that is all zero. */
static inline void feed_close(struct feed *feed)
{
	if (feed->class)
		feed->class->close(feed->self);
	*feed = (struct feed){ 0 };
}

static inline void feed_cleanup(struct feed *feed)
{
	feed_close(feed);
}
#define auto_feed __attribute__((cleanup(feed_cleanup)))

/* As trace_reader_next() and its family. */
static inline int feed_next(struct feed *feed, struct trace_item *ret_item)
{
	return feed->class->next(feed->self, ret_item);
}

static inline const struct trace_file_header *feed_header(const struct feed *feed)
{
	return feed->class->header(feed->self);
}

static inline const struct trace_damage *feed_damage(const struct feed *feed)
{
	return feed->class->damage(feed->self);
}

static inline uint64_t feed_offset(const struct feed *feed)
{
	return feed->class->offset(feed->self);
}

/*
 * The memory that the last item lies in, with columns and TRACE_VARINT_SLACK bytes behind them,
 * becomes the caller's, who free()s it. NULL: it is valid until the next one only.
 */
static inline void *feed_keep(struct feed *feed)
{
	return feed->class->keep ? feed->class->keep(feed->self) : NULL;
}
