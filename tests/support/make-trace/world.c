#include "tests/support/make-trace/world.h"

#include <errno.h>
#include <stdlib.h>

#define HEAP_START     UINT64_C(0x555580000010)
#define MAPS_START     UINT64_C(0x7f0000000000)
#define STACKS_END     UINT64_C(0x7fffe0000000)
#define FIRST_PID      5000u
#define PIDS_PER_IMAGE 10000u

/* Each image is loaded elsewhere, but heaps and mappings use the same addresses in all of them. */
static struct call_tree_image place_image(uint32_t process)
{
	return (struct call_tree_image){
		.program_bias = UINT64_C(0x555555554000) + (process % 16) * UINT64_C(0x400000),
		.library_bias = UINT64_C(0x7e8000000000) + (process % 16) * UINT64_C(0x8000000),
	};
}

static int init_process(struct world *world, uint32_t index)
{
	struct world_process *process = &world->processes[index];
	uint32_t n_threads = world->options.n_threads;

	process->process_id = index + 1;
	process->pid = FIRST_PID + index * PIDS_PER_IMAGE;
	process->image = place_image(index);
	process->heap = (struct space){ .top = HEAP_START, .granule = 16, .overhead = 8 };
	process->maps = (struct space){ .top = MAPS_START, .granule = 4096 };
	process->threads = calloc(n_threads, sizeof(process->threads[0]));
	if (!process->threads)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_threads; i++) {
		struct world_thread *thread = &process->threads[i];
		thread->thread_id = index * n_threads + i + 1;
		thread->tid = process->pid + i;
		thread->stack_start = STACKS_END - (i + 1) * 2 * WORLD_STACK_BYTES;
		thread->told = (struct call_tree_told){ .image = process->image,
							.thread_id = thread->thread_id,
							.n_paths = world->options.n_stacks };
	}
	return 0;
}

static struct make_trace_truth *make_truth(uint32_t n_stacks)
{
	struct make_trace_truth *truth = calloc(1, sizeof(*truth));

	if (!truth)
		return NULL;
	truth->n_stacks = n_stacks;
	truth->stacks = calloc(n_stacks, sizeof(truth->stacks[0]));
	if (!truth->stacks)
		return make_trace_truth_free(truth);
	for (uint32_t i = 0; i < n_stacks; i++)
		call_tree_path(i, truth->stacks[i].offsets);
	return truth;
}

int world_init(struct world *world, const struct make_trace_options *options)
{
	*world = (struct world){ .options = *options,
				 .random = { options->seed },
				 .ticks = WORLD_START_TICKS,
				 .next_clock_ticks = WORLD_START_TICKS + WORLD_TICKS_PER_SECOND };
	world->truth = make_truth(options->n_stacks);
	world->processes = calloc(options->n_processes, sizeof(world->processes[0]));
	if (!world->truth || !world->processes)
		return -ENOMEM;
	for (uint32_t i = 0; i < options->n_processes; i++) {
		int r = init_process(world, i);
		if (r < 0)
			return r;
	}
	return 0;
}

static void finish_process(struct world *world, struct world_process *process)
{
	for (uint32_t i = 0; process->threads && i < world->options.n_threads; i++)
		call_tree_told_finish(&process->threads[i].told);
	free(process->threads);
	space_finish(&process->heap);
	space_finish(&process->maps);
}

void world_finish(struct world *world)
{
	for (uint32_t i = 0; world->processes && i < world->options.n_processes; i++)
		finish_process(world, &world->processes[i]);
	free(world->processes);
	make_trace_truth_free(world->truth);
	*world = (struct world){ 0 };
}
