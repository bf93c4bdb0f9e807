#include "cli/options/record-options.h"

#include <limits.h>

#include "analyze/functions/allocator-entries.h"
#include "schemas/ring.h"

static enum run_sample_stacks sample_stacks_of(enum option_choice choice)
{
	return choice == CHOICE_SAMPLE_STACKS_FP      ? RUN_SAMPLE_STACKS_FP
	       : choice == CHOICE_SAMPLE_STACKS_DWARF ? RUN_SAMPLE_STACKS_DWARF
						      : RUN_SAMPLE_STACKS_NONE;
}

static enum run_count count_of(enum option_choice choice)
{
	return choice == CHOICE_COUNTED_KERNEL ? RUN_COUNT_KERNEL
	       : choice == CHOICE_COUNTED_BOTH ? RUN_COUNT_BOTH
					       : RUN_COUNT_USER;
}

static enum ring_stacks stacks_of(int choice)
{
	switch (choice) {
	case CHOICE_STACKS_NONE:
		return RING_STACKS_NONE;
	case CHOICE_STACKS_FP:
		return RING_STACKS_FP;
	default:
		return RING_STACKS_DWARF;
	}
}

/* The choices of --events stand in the order of the bits. */
_Static_assert(CHOICE_EVENTS_MMAP - CHOICE_EVENTS_HEAP == 1 &&
		       CHOICE_EVENTS_BRK - CHOICE_EVENTS_HEAP == 2 &&
		       CHOICE_EVENTS_SHM - CHOICE_EVENTS_HEAP == 3 &&
		       CHOICE_EVENTS_THREADS - CHOICE_EVENTS_HEAP == 4 &&
		       CHOICE_EVENTS_REGIONS - CHOICE_EVENTS_HEAP == 5 &&
		       RING_EVENTS_HEAP == 1u << 0 && RING_EVENTS_MMAP == 1u << 1 &&
		       RING_EVENTS_BRK == 1u << 2 && RING_EVENTS_SHM == 1u << 3 &&
		       RING_EVENTS_THREADS == 1u << 4 && RING_EVENTS_REGIONS == 1u << 5,
	       "bit i is the i-th choice");

static uint32_t watch_rate(const struct option_set *options)
{
	uint64_t rate = option_number(options, OPTION_WATCH_RATE);

	return rate > UINT32_MAX ? UINT32_MAX : (uint32_t)rate;
}

static uint32_t stack_depth(const struct option_set *options)
{
	uint64_t n = option_number(options, OPTION_STACK_DEPTH);

	return n > RING_MAX_FRAMES ? RING_MAX_FRAMES : (uint32_t)n;
}

static unsigned recorder_threads(const struct option_set *options)
{
	uint64_t n = option_number(options, OPTION_RECORDER_THREADS);

	return n > UINT_MAX ? UINT_MAX : (unsigned)n;
}

struct run_options record_options_of(const struct option_set *options)
{
	return (struct run_options){
		.command = options->operands,
		.find_entries = allocator_entries_find,
		.forget_entries = allocator_entries_finish,
		.argv0 = option_text(options, OPTION_ARGV0),
		.output = option_text(options, OPTION_OUTPUT),
		.dir = option_text(options, OPTION_DIR),
		.source = option_text(options, OPTION_SOURCE),
		/* 0: the default of the table is that of the clock, others have one of their own */
		.frequency_hz = option_origin(options, OPTION_FREQ) > OPTION_FROM_DEFAULT
					? option_frequency(options, OPTION_FREQ)
					: 0,
		.period = option_number(options, OPTION_PERIOD),
		.has_period = option_origin(options, OPTION_PERIOD) > OPTION_FROM_DEFAULT,
		.load_event = option_text(options, OPTION_LOAD_EVENT),
		.store_event = option_text(options, OPTION_STORE_EVENT),
		.min_latency = (uint32_t)option_number(options, OPTION_LDLAT),
		.count = count_of(option_choice(options, OPTION_COUNTED)),
		.sample_stacks = sample_stacks_of(option_choice(options, OPTION_SAMPLE_STACKS)),
		.budget = option_text(options, OPTION_BUDGET),
		.counters = option_text(options, OPTION_COUNTERS),
		.is_strict = option_flag(options, OPTION_STRICT),
		.stacks = stacks_of(option_choice(options, OPTION_STACKS)),
		/* 0: --buffers may name a size, else the default of the table */
		.buffer_bytes = option_origin(options, OPTION_BUFFER_SIZE) > OPTION_FROM_DEFAULT
					? option_size(options, OPTION_BUFFER_SIZE)
					: 0,
		.heap = option_text(options, OPTION_HEAP),
		.heap_min_bytes = option_size(options, OPTION_HEAP_MIN),
		.spill = option_flag(options, OPTION_SPILL),
		.buffers = option_text(options, OPTION_BUFFERS),
		.cpunodebind = option_text(options, OPTION_CPUNODEBIND),
		.physcpubind = option_text(options, OPTION_PHYSCPUBIND),
		.membind = option_text(options, OPTION_MEMBIND),
		.interleave = option_text(options, OPTION_INTERLEAVE),
		.preferred = option_text(options, OPTION_PREFERRED),
		.recorder_threads = recorder_threads(options),
		.max_frames = stack_depth(options),
		.events = option_words(options, OPTION_EVENTS),
		.min_bytes = option_size(options, OPTION_MIN_SIZE),
		.sample_bytes = option_size(options, OPTION_SAMPLE_BYTES),
		.usdt = option_flag(options, OPTION_USDT),
		.null_sink = option_choice(options, OPTION_SINK) == CHOICE_SINK_NULL,
		.api_marks = option_choice(options, OPTION_API) == CHOICE_API_MARKS,
		.max_bytes = option_size(options, OPTION_MAX_SIZE),
		.force = option_flag(options, OPTION_FORCE),
		.no_alloc = option_flag(options, OPTION_NO_ALLOC),
		.no_follow = option_flag(options, OPTION_NO_FOLLOW),
		.no_guess = option_flag(options, OPTION_NO_GUESS),
		.attach_children = option_flag(options, OPTION_CHILDREN),
		.wait_child = option_choice(options, OPTION_WAIT) == CHOICE_WAIT_CHILD,
		.pages = option_text(options, OPTION_PAGES),
		.watches = option_texts(options, OPTION_WATCH),
		.watch_hot = option_flag(options, OPTION_WATCH_HOT),
		.watch_rate = watch_rate(options),
		.windows = option_texts(options, OPTION_WINDOWS),
		.start_after = option_text(options, OPTION_START_AFTER),
		.dump_signal = option_text(options, OPTION_DUMP_SIGNAL),
		.dump_reset = option_flag(options, OPTION_DUMP_RESET),
		.last = option_text(options, OPTION_LAST),
		.live_totals = option_flag(options, OPTION_LIVE_TOTALS),
		.old_after = option_text(options, OPTION_OLD_AFTER),
		.triggers = option_texts(options, OPTION_TRIGGER),
		.trigger_actions = option_texts(options, OPTION_ON_TRIGGER),
		.cooldown = option_text(options, OPTION_COOLDOWN),
		.private_samples = option_flag(options, OPTION_PRIVATE),
		.load = option_texts(options, OPTION_LOAD),
		.components = option_text(options, OPTION_COMPONENTS),
		.init_functions = option_text(options, OPTION_INIT_FUNCTIONS),
		.fini_functions = option_text(options, OPTION_FINI_FUNCTIONS),
	};
}
