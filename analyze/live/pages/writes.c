#include "analyze/live/pages/writes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "common/array.h"
#include "trace/reader.h"
#include "trace/varint.h"

#define MAX_LOOK_BYTES (128u << 20) /* more is damage */

static const struct rows_table interval_table = {
	.name = "write_interval",
	.columns = "run_id, process_id, begin_ns, end_ns, page_bytes, known, written, own_ns,"
		   " program_ns",
	.types = "nnnnnnnnn",
};

static const struct rows_table write_table = {
	.name = "page_write",
	.columns = "run_id, process_id, address, size, state, begin_ns, end_ns, n_intervals",
	.types = "nnnntnnn",
};

struct write_run {
	uint64_t address;
	uint64_t size;
	unsigned bits;
	int64_t begin_ns; /* of the first interval in which it is so */
	int64_t n_intervals;
};

/* The last interval of an image: its runs may go on as they are. */
struct held_writes {
	struct held_writes *next;
	uint32_t process;
	int64_t process_row;
	int64_t begin_ns;
	int64_t end_ns;
	struct write_run *runs;
	size_t n_runs;
	size_t n_runs_allocated;
};

struct page_writes {
	struct rows *intervals;
	struct rows *runs;
	int64_t run_id;
	struct held_writes *held;
};

int writes_gather(struct write_look *look, const struct trace_record *record)
{
	const struct trace_writes *part = (const struct trace_writes *)record;
	size_t n_runs;
	const char *runs = trace_record_string(record, 0, &n_runs);
	uint8_t *larger;

	if (look->runs &&
	    (look->head.number != part->number || look->head.process_id != part->process_id))
		writes_look_finish(look);
	if (look->n_run_bytes + n_runs > MAX_LOOK_BYTES)
		return -EBADMSG;
	if (!look->runs)
		look->head = *part;
	larger = realloc(look->runs, look->n_run_bytes + n_runs + TRACE_VARINT_SLACK);
	if (!larger)
		return -ENOMEM;
	memcpy(larger + look->n_run_bytes, runs, n_runs);
	look->n_run_bytes += n_runs;
	memset(larger + look->n_run_bytes, 0, TRACE_VARINT_SLACK);
	look->runs = larger;
	return part->is_last != 0;
}

void writes_look_finish(struct write_look *look)
{
	free(look->runs);
	*look = (struct write_look){ 0 };
}

int page_writes_open(struct db *db, int64_t run_id, struct page_writes **ret_writes)
{
	struct page_writes *writes = calloc(1, sizeof(*writes));
	int r;

	if (!writes)
		return -ENOMEM;
	writes->run_id = run_id;
	r = rows_open(db, &interval_table, &writes->intervals);
	if (r == 0)
		r = rows_open(db, &write_table, &writes->runs);
	if (r < 0)
		writes = page_writes_close(writes);
	*ret_writes = writes;
	return r;
}

struct page_writes *page_writes_close(struct page_writes *writes)
{
	if (!writes)
		return NULL;
	while (writes->held) {
		struct held_writes *next = writes->held->next;

		free(writes->held->runs);
		free(writes->held);
		writes->held = next;
	}
	rows_close(writes->intervals);
	rows_close(writes->runs);
	free(writes);
	return NULL;
}

static const char *state_of(unsigned bits)
{
	return bits & TRACE_WRITE_HUGE	    ? "huge"
	       : bits & TRACE_WRITE_NEW	    ? "new"
	       : bits & TRACE_WRITE_WRITTEN ? "written"
					    : "clean";
}

static int write_run(struct page_writes *writes, const struct held_writes *held,
		     const struct write_run *run)
{
	union rows_cell *row = rows_add(writes->runs);

	if (!row)
		return rows_error(writes->runs);
	row[0].integer = writes->run_id;
	row[1].integer = held->process_row;
	row[2].integer = (int64_t)run->address;
	row[3].integer = (int64_t)run->size;
	row[4].text = state_of(run->bits);
	row[5].integer = run->begin_ns;
	row[6].integer = held->end_ns;
	row[7].integer = run->n_intervals;
	return 0;
}

static int write_interval(struct page_writes *writes, const struct held_writes *held,
			  const struct trace_writes *head)
{
	union rows_cell *row = rows_add(writes->intervals);

	if (!row)
		return rows_error(writes->intervals);
	row[0].integer = writes->run_id;
	row[1].integer = held->process_row;
	row[2].integer = held->begin_ns;
	row[3].integer = held->end_ns;
	row[4].integer = head->page_bytes;
	row[5].integer = (int64_t)head->known_bytes;
	row[6].integer = (int64_t)head->written_bytes;
	row[7].integer = (int64_t)head->own_ns;
	row[8].integer = (int64_t)head->program_ns;
	return 0;
}

/* More time between two intervals than either took is none that they can speak for. */
static bool goes_on(const struct held_writes *old, const struct held_writes *held)
{
	int64_t length = old->end_ns - old->begin_ns;

	if (length < held->end_ns - held->begin_ns)
		length = held->end_ns - held->begin_ns;
	return held->begin_ns - old->end_ns <= length;
}

/* Runs that go on are a part of the new ones, the others are written. Takes over the new runs. */
static int replace(struct page_writes *writes, struct held_writes *old, struct held_writes *held)
{
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < old->n_runs && r == 0; i++) {
		const struct write_run *run = &old->runs[i];

		while (at < held->n_runs && held->runs[at].address < run->address)
			at++;
		if (at < held->n_runs && held->runs[at].address == run->address &&
		    held->runs[at].size == run->size && held->runs[at].bits == run->bits &&
		    goes_on(old, held)) {
			held->runs[at].begin_ns = run->begin_ns;
			held->runs[at].n_intervals += run->n_intervals;
		} else {
			r = write_run(writes, old, run);
		}
	}
	free(old->runs);
	held->next = old->next;
	*old = *held;
	return r;
}

static struct held_writes *held_of(struct page_writes *writes, const struct memory_image *image)
{
	struct held_writes *held = writes->held;

	while (held && held->process != image->number)
		held = held->next;
	if (held)
		return held;
	held = calloc(1, sizeof(*held));
	if (!held)
		return NULL;
	held->process = image->number;
	held->process_row = image->row;
	held->next = writes->held;
	writes->held = held;
	return held;
}

int page_writes_end(struct page_writes *writes, uint32_t process)
{
	for (struct held_writes *held = writes->held; held; held = held->next) {
		struct held_writes none = { .process = process, .process_row = held->process_row };

		if (held->process == process)
			return replace(writes, held, &none);
	}
	return 0;
}

int page_writes_flush(struct page_writes *writes)
{
	int r = 0;

	for (struct held_writes *held = writes->held; held && r == 0; held = held->next)
		r = page_writes_end(writes, held->process);
	if (r == 0)
		r = rows_flush(writes->intervals);
	return r < 0 ? r : rows_flush(writes->runs);
}

static int read_runs(const struct write_look *look, struct held_writes *held)
{
	const uint8_t *at = look->runs, *stop = look->runs + look->n_run_bytes;
	uint64_t end = 0, page_bytes = look->head.page_bytes, most = UINT64_MAX / 2 / page_bytes;

	while (at < stop) {
		uint64_t gap = 0, field = 0;

		at = trace_varint_get(at, &gap);
		at = at && at < stop ? trace_varint_get(at, &field) : NULL;
		uint64_t n = field >> TRACE_WRITE_BITS;

		if (!at || at > stop || n == 0 || gap > most - end || n > most - end - gap)
			return -EBADMSG;
		if (grow_array(&held->runs, held->n_runs, &held->n_runs_allocated,
			       sizeof(*held->runs)) < 0)
			return -ENOMEM;
		held->runs[held->n_runs++] = (struct write_run){
			.address = (end + gap) * page_bytes,
			.size = n * page_bytes,
			.bits = field & ((1u << TRACE_WRITE_BITS) - 1),
			.begin_ns = held->begin_ns,
			.n_intervals = 1,
		};
		end += gap + n;
	}
	return 0;
}

int memory_writes(struct memory *memory, uint32_t process, const struct write_look *look,
		  int64_t begin_ns, int64_t end_ns)
{
	struct memory_image *image = memory_image(memory, process);
	struct held_writes *old = image ? held_of(memory->writes, image) : NULL;
	struct held_writes held = { .process = process, .begin_ns = begin_ns, .end_ns = end_ns };
	uint32_t page_bytes = look->head.page_bytes;
	int r;

	if (!old)
		return image ? -ENOMEM : 0;
	held.process_row = image->row;
	r = page_bytes >= 512 && page_bytes <= 1u << 30 ? read_runs(look, &held) : -EBADMSG;
	if (r == 0)
		r = write_interval(memory->writes, &held, &look->head);
	if (r == 0)
		return replace(memory->writes, old, &held);
	free(held.runs);
	/* What goes on behind it is another row. */
	int ended = r == -EBADMSG ? page_writes_end(memory->writes, process) : 0;

	return ended < 0 ? ended : r;
}
