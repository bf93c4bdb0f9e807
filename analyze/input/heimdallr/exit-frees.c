#include "analyze/input/heimdallr/exit-frees.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"

/* A free behind the last allocation of its log. */
struct tail_line {
	uint64_t time_ns;
	uint64_t address;
	uint64_t offset; /* of the line, or of bad ones before it */
	size_t log;
	bool has_stack;
};

struct tail {
	struct tail_line *lines;
	size_t n;
	size_t n_allocated;
	uint64_t last_birth_ns;
	bool has_stacks; /* allocations have */
};

static int add_line(struct tail *tail, const struct tail_line *line)
{
	return array_add(tail->lines, tail->n, tail->n_allocated, *line);
}

/* The last allocation of a log and what is behind it. */
static int read_tail(struct tail *tail, const struct heimdallr_log *from, size_t number)
{
	struct heimdallr_log log = { .path = from->path,
				     .n_file_bytes = from->n_file_bytes,
				     .end = from->end };
	struct heimdallr_line line;
	uint64_t offset;

	int r = heimdallr_log_last_allocation(from, &offset);
	if (r < 0)
		return r;
	heimdallr_log_seek(&log, offset == UINT64_MAX ? 0 : offset);
	uint64_t at = log.offset;
	while (r >= 0 && (r = heimdallr_log_next(&log, &line)) > 0) {
		if (line.is_allocation && line.time_ns > tail->last_birth_ns)
			tail->last_birth_ns = line.time_ns;
		if (line.is_allocation)
			tail->has_stacks |= line.n_frame_bytes > 0;
		else
			r = add_line(tail, &(struct tail_line){ line.time_ns, line.address, at,
								number, line.n_frame_bytes > 0 });
		at = log.given_end;
	}
	log.path = NULL; /* it is not ours */
	heimdallr_log_finish(&log);
	return r;
}

DEFINE_ORDER(compare_lines, struct tail_line, BY(time_ns) ?: BY(log) ?: BY(offset));

/* Whether a line can be of the exit, when the one behind it is (NULL: it is the last). */
static bool is_of_exit(const struct tail *tail, const struct tail_line *line,
		       const struct tail_line *behind)
{
	if (line->has_stack || line->time_ns < tail->last_birth_ns)
		return false;
	if (tail->has_stacks || !behind)
		return true;
	return line->log == behind->log ? line->address < behind->address : line->log < behind->log;
}

int heimdallr_exit_find(struct heimdallr_log *logs, size_t n, struct heimdallr_exit *ret_exit)
{
	struct tail tail = { 0 };
	struct heimdallr_exit found = { 0 };
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = read_tail(&tail, &logs[i], i);
	if (r == 0 && tail.n > 1)
		qsort(tail.lines, tail.n, sizeof(*tail.lines), compare_lines);
	for (size_t i = r == 0 ? tail.n : 0; i > 0; i--) {
		const struct tail_line *line = &tail.lines[i - 1];
		if (!is_of_exit(&tail, line, i < tail.n ? line + 1 : NULL))
			break;
		logs[line->log].end = line->offset;
		found.time_ns = line->time_ns;
		found.n_frees++;
	}
	free(tail.lines);
	if (r == 0)
		*ret_exit = found;
	return r;
}
