#include "analyze/samples/turns.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"

#define MAX_CPUS 65536u /* a damaged trace may name any */

static bool is_mark(const struct sample_turns *turns, uint64_t carried)
{
	for (size_t i = 0; i < turns->n_marks; i++)
		if (turns->marks[i] == carried)
			return true;
	return false;
}

int sample_turns_add(struct sample_turns *turns, const struct trace_period *record)
{
	int r = grow_array(&turns->items, turns->n, &turns->n_allocated, sizeof(*turns->items));

	if (r < 0)
		return r;
	turns->items[turns->n++] = *record;
	if (!is_mark(turns, record->mark) && turns->n_marks < SAMPLE_MAX_MARKS)
		turns->marks[turns->n_marks++] = record->mark;
	return r;
}

/* Is it the first on its CPU since that turn? */
static bool is_first(struct sample_turns *turns, uint32_t cpu, size_t turn)
{
	bool is_new;

	if (cpu >= MAX_CPUS)
		return false;
	if (grow_array_to(&turns->seen, cpu, &turns->n_cpus, sizeof(*turns->seen)) < 0)
		return false;
	is_new = turns->seen[cpu] != turn + 1;
	turns->seen[cpu] = turn + 1;
	return is_new;
}

uint64_t sample_turns_weight(struct sample_turns *turns, uint64_t raw_ns, uint32_t cpu,
			     uint64_t carried)
{
	size_t n_until = array_n_until(turns->items, turns->n, raw_ns, raw_ns);

	for (size_t i = is_mark(turns, carried) ? n_until : 0; i-- > 0;) {
		const struct trace_period *turn = &turns->items[i];

		if (turn->mark == carried)
			return turn->period + (is_first(turns, cpu, i) ? turn->least : 0);
	}
	return carried;
}

void sample_turns_finish(struct sample_turns *turns)
{
	free(turns->items);
	free(turns->seen);
	*turns = (struct sample_turns){ 0 };
}
