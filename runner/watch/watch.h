#pragma once
/*
 * --watch: which bytes the debug registers watch, from when to when. Targets wait until what they
 * name is there: a variable when its file is mapped, a named object when the program names it, a
 * function's block when it allocates. Each arming and each end is a WATCH record. One thread.
 *
 * A program that says hello waits for its answer, and what perf told of its maps is read before: so
 * variables of files that it starts with are watched from before its own code on.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/record.h"
#include "pmu/watch.h"
#include "runner/processes/image.h"
#include "runner/ring/drain.h"
#include "runner/watch/hot-words.h"
#include "runner/watch/stack-nodes.h"
#include "runner/watch/target.h"
#include "schemas/ring.h"
#include "trace/writer.h"

#define WATCH_MAX_ITEMS (WATCH_MAX_TARGETS + PMU_WATCH_REGISTERS)

struct watch_item {
	struct watch_target target;
	bool is_armed;
	bool is_paused; /* armed, but for the rate */
	bool is_over; /* it will not be armed again */
	bool was_armed;
	bool is_hot; /* --watch-hot chose it */
	bool is_function; /* the name was one, somewhere */
	uint32_t number; /* of this arming, in the trace */
	uint32_t process_id;
	uint64_t address;
	uint64_t n_bytes;
	uint64_t object; /* what a free must name to end it; 0: nothing ends but with its image */
	uint64_t born_ticks; /* of the object */
	struct pmu_watch_range ranges[PMU_WATCH_REGISTERS];
	unsigned registers[PMU_WATCH_REGISTERS];
	unsigned n_ranges;
	uint64_t n_blocks; /* that its function has allocated so far */
	uint64_t n_elsewhere; /* others that the name meant while it was armed */
	uint64_t slice_hits;
	uint64_t round_hits; /* since the last round */
	uint64_t spent_ns; /* of the program's time, on hits that are not paid for yet */
	uint64_t paused_ticks;
	uint64_t off_ticks; /* for the rate, in all */
	uint64_t first_off_ticks;
	uint64_t last_off_ticks;
};

/* A function of a target, in one image. */
struct watch_function {
	uint32_t process_id;
	unsigned item;
	uint64_t start;
	uint64_t end;
};

struct watches {
	struct trace_writer *writer;
	enum ring_clock clock;
	uint64_t ticks_per_second;
	struct access_stream *stream; /* NULL: nothing is watched */
	/* Targets first, n_items of them; from WATCH_MAX_TARGETS on what is hot now. */
	struct watch_item items[WATCH_MAX_ITEMS];
	unsigned n_items;
	struct watch_hot *hot; /* --watch-hot; else NULL */
	uint64_t hot_ticks; /* since when the hot ones are these */
	unsigned n_registers;
	unsigned used; /* mask of registers */
	uint32_t last_number;
	uint32_t rate; /* hits a second and item; 0: any */
	uint32_t hit_ns; /* what a hit costs the program */
	uint32_t ring_hits; /* as many in a round, and there was no room for others */
	uint64_t round_ticks; /* of the last round */
	uint64_t program_ns; /* CPU time of what is recorded, until then */
	uint64_t slice_ns; /* of it, in this slice of time */
	uint64_t slice_ticks; /* when this slice of time began */
	struct watch_function *functions;
	size_t n_functions;
	struct key_map nodes; /* stack-nodes.h */
	void (*warn)(void *user, const char *line); /* may be NULL */
	void *user;
};

/* Parse texts (at most WATCH_MAX_TARGETS). 0, or -EINVAL and one line that says what is wrong. */
int watches_init(struct watches *watches, const char *const *texts, char *ret_message,
		 size_t n_bytes);

/* The registers that no target has go round over what is hot. 0 or a negative errno. */
int watches_init_hot(struct watches *watches);

/* Does anybody want anything? */
bool watches_wanted(const struct watches *watches);

/* The stream is open, or NULL: refused. */
void watches_open(struct watches *watches, struct access_stream *stream);

/* Free all. Safe on a zeroed struct and twice. */
void watches_finish(struct watches *watches);

/* A file is mapped executable in an image, by perf's record ... */
void watches_map(struct watches *watches, const struct image *image, const struct pmu_map *map);
/* ... or by the program's own word. path is NUL-terminated. */
void watches_module(struct watches *watches, const struct image *image, const char *path,
		    uint64_t bias);

/* A node of a thread's call stacks; an event of the thread. */
void watches_node(struct watches *watches, const struct image *image, uint32_t thread_id,
		  const struct trace_node *node);
void watches_event(struct watches *watches, const struct image *image, uint32_t thread_id,
		   const struct trace_event *event);

/* An image is gone. */
void watches_forget(struct watches *watches, uint32_t process_id);

/* A sample of the source; then, each round, what follows from their number. */
void watches_hit(struct watches *watches, uint64_t address);
void watches_round(struct watches *watches, const struct images *images, uint64_t now_ticks);

/* Is something hit so often that it is to be looked at again soon? */
bool watches_want_haste(const struct watches *watches);

/* A sample of time and registers, for --watch-hot. */
void watches_sample(struct watches *watches, const struct pmu_record *record,
		    const struct image *image);

/* At the end of the recording: ends all, writes what was refused and left out, warns of it. */
void watches_end(struct watches *watches, uint64_t ticks);
