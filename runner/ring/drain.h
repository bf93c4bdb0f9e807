#pragma once
/*
 * Reads the pool: finds the chunks of each thread, puts them into chains in order of their
 * sequence, hands events and stack nodes to the trace writer and the rare records to a handler,
 * and gives consumed chunks back. What the programs wrote is checked before it is believed; what
 * cannot be believed is counted.
 *
 *	drain_init(&drain, &pool, writer, &handler);
 *	drain_attach(&drain, slot, image);		for each process that said hello or forked
 *	drain_begin(&drain, now_ticks);			every few ms; then attach what has forked
 *	drain_round(&drain, max_chunks);
 *	trace_writer_commit(... drain_safe_ticks(&drain) ...)
 *	drain_detach(&drain, slot, &losses);		when that image is gone
 *
 * One thread, which may let more of its own take part within a round (drain_use_lanes()).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/ring/net.h"
#include "runner/ring/pool.h"
#include "trace/writer.h"

struct chain;
struct lanes;

/* What a program said about one of its modules; the bytes are private copies. */
struct drain_module {
	const void *build_id;
	const char *path; /* head.path_bytes long, no NUL */
	bool is_unload;
	struct ring_module head; /* last: it ends in an array without length */
};

/* What a program said about its heap of a memory kind; the bytes are private copies. */
struct drain_heap_range {
	uint64_t ticks;
	uint64_t start;
	uint64_t size;
	const char *kind; /* kind_bytes long, then place, place_bytes long */
	const char *place;
	uint16_t kind_bytes;
	uint16_t place_bytes;
	bool is_removed;
};

/* An exec or spawn that is about to be tried. */
struct drain_exec {
	uint64_t ticks;
	const char *path; /* n_bytes long, no NUL */
	size_t n_bytes;
	bool is_spawn; /* of a program that begins in the memory of the image, which goes on */
};

/* Called while draining; image is what drain_attach() was given. */
struct drain_handler {
	void *user;
	/*
	 * A chain begins: return the trace's id of the thread, or 0 to drop its events (counted).
	 * start is NULL when the chain does not say who it is.
	 */
	uint32_t (*thread_start)(void *user, void *image, const struct ring_thread_start *start);
	void (*thread_end)(void *user, void *image, uint32_t thread_id, uint64_t ticks);
	/* A thread of the image (tid as the program sees it) has this NUL-terminated name now. */
	void (*thread_name)(void *user, void *image, uint32_t tid, const char *name,
			    uint64_t ticks);
	void (*module)(void *user, void *image, const struct drain_module *module);
	/* A name that notes use, by its id. text is n_bytes long, no NUL. */
	void (*text)(void *user, void *image, uint64_t id, const char *text, size_t n_bytes);
	/* Memory that the heap of a kind took; strings are not NUL-terminated. */
	void (*heap_range)(void *user, void *image, const struct drain_heap_range *range);
	void (*exec)(void *user, void *image, const struct drain_exec *exec);
	/*
	 * A sample of --source signal; a private copy, the sizes in it checked. NULL: dropped.
	 */
	void (*sample)(void *user, void *image, uint32_t thread_id,
		       const struct ring_sample *sample);
	/* Each node and event of a thread, beside the trace. Both NULL: nobody asks. */
	void (*node)(void *user, void *image, uint32_t thread_id, const struct trace_node *node);
	void (*event)(void *user, void *image, uint32_t thread_id, const struct trace_event *event);
};

/* Of one process image. */
struct drain_losses {
	uint64_t n_damaged; /* 32-byte slots behind a record that makes no sense */
	/* reserved, not committed when the image ended: a call was under way */
	uint64_t n_in_flight;
	uint64_t n_late_forks; /* told when COMMIT had passed: at most 1 */
	uint64_t n_restamped; /* stamps outside of what is possible, moved to its edge */
	uint64_t n_refused; /* the trace could not take them: stopped, or full */
};

struct drain_slot {
	bool is_attached;
	/* for a program that has its welcome: the tracker's, which is about to attach it */
	bool is_awaited;
	uint32_t generation;
	void *image;
	struct chain *chains;
	struct drain_losses losses;
};

/* What a thread that drains has for itself. */
struct lane {
	struct trace_lane *trace; /* NULL: the writer itself, and the handler is told */
	struct lane_node *nodes; /* for the writer when the lane is through */
	size_t n_nodes;
	size_t n_allocated;
	uint32_t n_freed; /* chunks that the programs are not told of yet */
	int error; /* first negative errno of the writer other than -ENOSPC */
};

struct drain {
	struct pool *pool;
	struct trace_writer *writer;
	struct drain_handler handler;
	struct drain_slot *slots; /* pool->n_processes */
	struct chunk_view *views; /* pool->n_chunks */
	uint32_t next_slot; /* whom the next round begins with */
	uint32_t slots_end; /* attached slots are below it */
	uint64_t candidate_ticks; /* start of an earlier round: store buffers are empty up to it */
	uint64_t settling_ticks; /* of the round that becomes the next candidate */
	uint64_t round_ticks; /* start of this round */
	uint64_t safe_ticks;
	uint64_t settle_ticks; /* how old a round's start must be to become the candidate */
	uint64_t fork_ticks; /* how long a forked child may need to claim its slot */
	/* before the oldest fork whose child had none when the round began */
	uint64_t forking_ticks;
	uint64_t max_ahead_ticks; /* stamps further in the future are nonsense */
	uint32_t n_round_chunks; /* that the last round gave back */
	struct lane own; /* of the thread that calls */
	struct lanes *lanes; /* more threads; NULL: none */
	bool is_muted; /* drop all events, counted */
	struct event_net *net; /* that takes them instead of the trace; NULL: the trace does */
	void *scratch; /* RING_CHUNK_BYTES: a private copy of one long record */
};

/*
 * Begin with an empty pool. ticks_per_ms scales the two bounds of time. Returns 0 or -ENOMEM; the
 * caller ends it with drain_finish().
 */
int drain_init(struct drain *ret_drain, struct pool *pool, struct trace_writer *writer,
	       const struct drain_handler *handler, uint64_t ticks_per_ms);

/* Free the private state; the pool stays. Safe on a zeroed drain and twice. */
void drain_finish(struct drain *drain);

/*
 * Let slot < n_processes be drained for image (not NULL), as generation of the slot's present use.
 */
void drain_attach(struct drain *drain, uint32_t slot, void *image);

/*
 * A round begins at now_ticks, read by the caller just before. The slots that forked children have
 * claimed must be looked for, and attached, between this and drain_round(): those that claim theirs
 * later hold the commit time back.
 */
void drain_begin(struct drain *drain, uint64_t now_ticks);

/*
 * Consume what is there, at most max_chunks chunks of it. Returns the number of 32-byte slots
 * consumed, or a negative errno of the writer.
 */
int64_t drain_round(struct drain *drain, uint32_t max_chunks);

/*
 * Let so many threads take part in rounds that find much to read of several threads; 1, and 0: the
 * caller only. Those beyond the caller's are started when they are needed first, and sleep between
 * rounds. They read plain events and nodes, and nothing while the handler wants each event. Returns
 * how many there may be: less than n where no more could be started, or above DRAIN_MOST_LANES.
 */
#define DRAIN_MOST_LANES 16u
unsigned drain_use_lanes(struct drain *drain, unsigned n);

/* Every event stamped before this has been given to the writer. Never goes back. */
uint64_t drain_safe_ticks(const struct drain *drain);

/*
 * The image of slot is gone: consume all that it committed, give its chunks back, free the slot for
 * the next program. ret_losses takes what could not be used. Returns 0 or a negative errno.
 */
int drain_detach(struct drain *drain, uint32_t slot, struct drain_losses *ret_losses);

/*
 * The same for an image that lives on, at the end of the recording: its chunks and slot stay its.
 */
int drain_abandon(struct drain *drain, uint32_t slot, struct drain_losses *ret_losses);
