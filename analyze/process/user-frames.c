#include "analyze/process/user-frames.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/hash-map.h"
#include "store/library-frames.h"

#define MOST_ROUNDS  16u /* a chain of functions that hand on is not longer */
#define MOST_PLACES  2u /* a try, and another one when there is no memory */
#define LEAST_CALLED 3u /* callers of code without a name */
#define LEAST_SHARED 2u /* of a function: what one place calls is a part of it */
#define DIRECT_SHARE 10u /* one of so many call stacks may lead elsewhere */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash * UINT64_C(0x100000001b3);
}

static uint64_t hash_function(const char *function, const char *file)
{
	return hash_text(hash_text(UINT64_C(0xcbf29ce484222325), function), file) | 1;
}

struct user_frame user_frame_of(const struct symbol_line *lines, size_t n, const char *function,
				const char *file)
{
	struct user_frame frame = { 0 };
	size_t n_allocating = 0;

	if (n == 0) {
		enum frame_owner owner = frame_owner(function, NULL, file);
		frame.n_depth = owner != FRAME_LIBRARY && *file;
		frame.may_hand_on = frame.n_depth && (owner == FRAME_ALLOCATES || !function);
		frame.function = function ? hash_function(function, file) : 0;
		return frame;
	}
	frame.function = hash_function(lines[n - 1].function, file);
	for (size_t i = 0; i < n; i++) {
		enum frame_owner owner = frame_owner(lines[i].function, lines[i].file, file);
		unsigned n_signs = (owner == FRAME_ALLOCATES) + lines[i].gives_memory;
		if (owner == FRAME_PROGRAM && n_signs)
			owner = FRAME_ALLOCATES;
		if (owner == FRAME_ALLOCATES && n_signs > frame.may_hand_on)
			frame.may_hand_on = (uint8_t)n_signs;
		if (owner == FRAME_PROGRAM) {
			frame.n_depth = (uint8_t)(i + 1);
			frame.may_hand_on = 0;
			return frame;
		}
		if (owner == FRAME_ALLOCATES && !n_allocating)
			n_allocating = i + 1;
	}
	frame.n_depth = (uint8_t)n_allocating;
	return frame;
}

/* What is known of a frame from the stacks that it is on. */
struct tally {
	uint32_t n_stacks;
	uint32_t n_elsewhere; /* of them, those that lead to another call of the program */
	uint32_t n_callers; /* frames */
	uint32_t n_others; /* of them, those whose names do not say that they allocate */
};

struct decision {
	struct user_frames *all;
	struct tally *tallies; /* by frame */
	bool *leads_on; /* by stack */
	struct key_map places; /* of a function: how many frames */
};

static void decision_finish(struct decision *decision)
{
	key_map_finish(&decision->places);
	free(decision->tallies);
	free(decision->leads_on);
}
#define auto_decision __attribute__((cleanup(decision_finish)))

static int count_places(struct decision *decision)
{
	for (size_t i = 1; i < decision->all->n_frames; i++) {
		uint64_t function = decision->all->frames[i].function;
		bool is_called = function && decision->tallies[i].n_stacks;
		uint64_t n = is_called ? key_map_get(&decision->places, function, 0) : 0;
		if (is_called && key_map_put(&decision->places, function, 0, n + 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

static bool says_allocates(const struct user_frame *frame)
{
	return frame->function && frame->may_hand_on;
}

static int count_callers(struct decision *decision)
{
	const struct user_stack *stacks = decision->all->stacks;
	struct key_map seen = { 0 };
	int r = 0;

	for (size_t i = 1; r == 0 && i < decision->all->n_stacks; i++) {
		uint32_t frame = stacks[i].frame, caller = stacks[stacks[i].parent].frame;
		if (!frame || !decision->all->frames[frame].may_hand_on)
			continue;
		decision->tallies[frame].n_stacks++;
		if (key_map_get(&seen, frame, caller))
			continue;
		decision->tallies[frame].n_callers++;
		decision->tallies[frame].n_others +=
			!says_allocates(&decision->all->frames[caller]);
		r = key_map_put(&seen, frame, caller, 1);
	}
	key_map_finish(&seen);
	return r;
}

static void find_elsewhere(struct decision *decision)
{
	const struct user_frames *all = decision->all;

	for (size_t i = 1; i < all->n_stacks; i++)
		decision->leads_on[i] = false;
	for (size_t i = 1; i < all->n_stacks; i++) {
		const struct user_stack *stack = &all->stacks[i];
		if (stack->frame && all->frames[stack->frame].n_depth)
			decision->leads_on[stack->parent] = true;
	}
	for (size_t i = 1; i < all->n_frames; i++)
		decision->tallies[i].n_elsewhere = 0;
	for (size_t i = 1; i < all->n_stacks; i++)
		decision->tallies[all->stacks[i].frame].n_elsewhere += decision->leads_on[i];
}

static bool hands_on(const struct decision *decision, size_t number)
{
	const struct user_frame *frame = &decision->all->frames[number];
	const struct tally *tally = &decision->tallies[number];

	if (!frame->may_hand_on || !frame->n_depth || frame->is_fixed || !tally->n_stacks)
		return false;
	if (!frame->function)
		return tally->n_elsewhere == 0 &&
		       (tally->n_callers >= LEAST_CALLED || tally->n_others == 0);
	return tally->n_elsewhere <= tally->n_stacks / DIRECT_SHARE &&
	       (tally->n_callers >= LEAST_SHARED || frame->may_hand_on > 1) &&
	       key_map_get(&decision->places, frame->function, 0) <= MOST_PLACES;
}

static void find_users(struct user_frames *all)
{
	for (size_t i = 1; i < all->n_stacks; i++) {
		struct user_stack *stack = &all->stacks[i];
		bool is_program = stack->frame && all->frames[stack->frame].n_depth;
		if (!stack->is_fixed)
			stack->user = is_program ? (uint32_t)i : all->stacks[stack->parent].user;
	}
}

int user_frames_decide(struct user_frames *all)
{
	auto_decision struct decision decision = {
		.all = all,
		.tallies = calloc(all->n_frames + 1, sizeof(*decision.tallies)),
		.leads_on = calloc(all->n_stacks + 1, sizeof(*decision.leads_on)),
	};
	bool has_changed = true;

	if (!decision.tallies || !decision.leads_on || count_callers(&decision) < 0 ||
	    count_places(&decision) < 0)
		return -ENOMEM;
	for (unsigned round = 0; has_changed && round < MOST_ROUNDS; round++) {
		has_changed = false;
		find_elsewhere(&decision);
		for (size_t i = 1; i < all->n_frames; i++) {
			if (!hands_on(&decision, i))
				continue;
			all->frames[i].n_depth = 0;
			has_changed = true;
		}
	}
	find_users(all);
	return 0;
}
