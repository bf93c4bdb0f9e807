#include "analyze/samples/code/code-history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/hash-map.h"
#include "trace/reader.h"

#define PAGE_BITS  12
#define PAGE_BYTES ((uint64_t)TRACE_CODE_PAGE_BYTES)
#define LINE_BYTES ((uint64_t)TRACE_CODE_LINE_BYTES)
#define N_LINES	   (PAGE_BYTES / LINE_BYTES)

/*
 * A sample is stamped some us from when the clock of the readings says: two CPUs, two ways to ask.
 */
#define MARGIN_NS 20000

/*
 * What comes back sooner is made so fast that readings miss some of it: they are some 5 to 20 ms
 * apart, and ten of them saw nothing else here.
 */
#define RESTLESS_NS	  INT64_C(200000000)
#define RESTLESS_READINGS 10

/* A line as it was for some time. Those of a line form a chain, newest first. */
struct version {
	struct version *older;
	/* of the readings that saw it the last one, and how many there were by then */
	int64_t last_ns;
	uint64_t last_reading;
	int64_t from_ns; /* when it surely was there */
	int64_t until_ns;
	uint8_t bytes[TRACE_CODE_LINE_BYTES];
};

struct line {
	struct version *newest;
	uint32_t n_versions;
	bool is_restless; /* it came back to what it had been */
};

struct page {
	struct page *next; /* of all */
	struct line lines[N_LINES];
	bool is_restless; /* a line of it is */
	int64_t begin_ns, end_ns; /* of the last reading */
	int64_t before_ns; /* when the one before it began */
	uint64_t n_readings;
	int64_t *turns; /* when other bytes are known, in order */
	size_t n_turns;
	size_t n_turns_allocated;
	uint32_t first_version;
};

/* What a trace tells of one page; those of a segment are put in order of time. */
struct reading {
	int64_t begin_ns;
	int64_t end_ns;
	uint64_t address;
	uint32_t process;
	uint32_t n_bytes; /* 0: seen as it was */
	size_t order;
	uint8_t *bytes;
};

struct code_history {
	struct key_map pages; /* (process, page number) -> struct page */
	struct page *all;
	struct reading *readings; /* of this segment */
	size_t n_readings;
	size_t n_readings_allocated;
	bool is_damaged;
	struct {
		uint32_t process; /* the last answer of code_history_version() */
		uint64_t page;
		int64_t from_ns;
		int64_t until_ns;
		uint32_t version;
	} last;
};

static void free_page(struct page *page)
{
	for (size_t i = 0; i < N_LINES; i++) {
		for (struct version *version = page->lines[i].newest; version;) {
			struct version *older = version->older;

			free(version);
			version = older;
		}
	}
	free(page->turns);
	free(page);
}

static void drop_readings(struct code_history *history)
{
	for (size_t i = 0; i < history->n_readings; i++)
		free(history->readings[i].bytes);
	history->n_readings = 0;
}

struct code_history *code_history_destroy(struct code_history *history)
{
	if (!history)
		return NULL;
	for (struct page *page = history->all; page;) {
		struct page *next = page->next;

		free_page(page);
		page = next;
	}
	drop_readings(history);
	free(history->readings);
	key_map_finish(&history->pages);
	free(history);
	return NULL;
}

static struct page *find(const struct code_history *history, uint32_t process, uint64_t address)
{
	return (struct page *)(uintptr_t)key_map_get(&history->pages, process,
						     address >> PAGE_BITS);
}

static struct page *get_page(struct code_history *history, uint32_t process, uint64_t address)
{
	struct page *page = find(history, process, address);

	if (page)
		return page;
	page = calloc(1, sizeof(*page));
	if (!page ||
	    key_map_put(&history->pages, process, address >> PAGE_BITS, (uintptr_t)page) < 0)
		return free(page), NULL;
	page->begin_ns = page->end_ns = page->before_ns = INT64_MIN;
	page->next = history->all;
	history->all = page;
	return page;
}

/* ---- Versions ---- */

static int add_turn(struct page *page, int64_t time_ns)
{
	if (grow_array(&page->turns, page->n_turns, &page->n_turns_allocated,
		       sizeof(*page->turns)) < 0)
		return -ENOMEM;
	page->turns[page->n_turns++] = time_ns;
	return 0;
}

/* Whether a line has come back to what it was a short time ago. */
static bool is_back(const struct page *page, const struct version *version, const uint8_t *bytes)
{
	for (; version; version = version->older) {
		if (page->begin_ns - version->last_ns >= RESTLESS_NS &&
		    page->n_readings - version->last_reading > RESTLESS_READINGS)
			return false;
		if (memcmp(version->bytes, bytes, LINE_BYTES) == 0)
			return true;
	}
	return false;
}

static int add_version(struct page *page, struct line *line, const uint8_t *bytes)
{
	struct version *version = malloc(sizeof(*version));

	if (!version)
		return -ENOMEM;
	if (line->newest) {
		line->newest->last_ns = page->before_ns;
		line->newest->last_reading = page->n_readings - 1;
		line->newest->until_ns = page->before_ns - MARGIN_NS;
	}
	line->is_restless = line->is_restless || is_back(page, line->newest, bytes);
	page->is_restless = page->is_restless || line->is_restless;
	version->older = line->newest;
	version->last_ns = INT64_MAX;
	version->last_reading = UINT64_MAX;
	version->from_ns = page->end_ns + MARGIN_NS;
	version->until_ns = INT64_MAX;
	memcpy(version->bytes, bytes, LINE_BYTES);
	line->newest = version;
	line->n_versions++;
	return 0;
}

static int take_lines(struct page *page, const struct reading *reading)
{
	size_t first = (size_t)(reading->address % PAGE_BYTES / LINE_BYTES);
	bool has_changed = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < reading->n_bytes / LINE_BYTES; i++) {
		struct line *line = &page->lines[first + i];
		const uint8_t *bytes = reading->bytes + i * LINE_BYTES;

		if (line->newest && memcmp(line->newest->bytes, bytes, LINE_BYTES) == 0)
			continue;
		has_changed = true;
		r = add_version(page, line, bytes);
	}
	if (r == 0 && has_changed && page->before_ns > INT64_MIN)
		r = add_turn(page, page->before_ns - MARGIN_NS);
	return r < 0 || !has_changed ? r : add_turn(page, page->end_ns + MARGIN_NS);
}

static int take_reading(struct code_history *history, const struct reading *reading)
{
	struct page *page = get_page(history, reading->process, reading->address);

	if (!page)
		return -ENOMEM;
	if (reading->begin_ns < page->begin_ns)
		return 0; /* damaged: readings come in order */
	if (reading->begin_ns > page->begin_ns) {
		page->before_ns = page->begin_ns;
		page->begin_ns = reading->begin_ns;
		page->end_ns = reading->end_ns;
		page->n_readings++;
	}
	return reading->n_bytes ? take_lines(page, reading) : 0;
}

/* ---- Out of the trace ---- */

DEFINE_ORDER(compare_readings, struct reading, BY(begin_ns) ?: BY(order));

/* The collector has told all that it read before it commits. */
static int take_segment(struct code_history *history)
{
	int r = 0;

	if (history->n_readings > 1)
		qsort(history->readings, history->n_readings, sizeof(*history->readings),
		      compare_readings);
	for (size_t i = 0; r == 0 && i < history->n_readings; i++)
		r = take_reading(history, &history->readings[i]);
	drop_readings(history);
	return r;
}

static int add_reading(struct code_history *history, struct reading reading, const void *bytes)
{
	if (reading.end_ns < reading.begin_ns ||
	    grow_array(&history->readings, history->n_readings, &history->n_readings_allocated,
		       sizeof(*history->readings)) < 0)
		return reading.end_ns < reading.begin_ns ? 0 : -ENOMEM;
	if (reading.n_bytes) {
		reading.bytes = malloc(reading.n_bytes);
		if (!reading.bytes)
			return -ENOMEM;
		memcpy(reading.bytes, bytes, reading.n_bytes);
	}
	reading.order = history->n_readings;
	history->readings[history->n_readings++] = reading;
	return 0;
}

static int take_code(struct code_history *history, const struct sample_clock *clock,
		     const struct trace_item *item)
{
	const struct trace_code *head = item->code.head;
	const struct reading reading = {
		.begin_ns = clock->from_raw(clock->user, head->begin_raw_ns),
		.end_ns = clock->from_raw(clock->user, head->end_raw_ns),
		.address = head->address,
		.process = item->stream_id,
		.n_bytes = head->n_bytes,
	};

	if (head->kind != TRACE_CODE_CHANGING)
		return 0;
	if (head->n_bytes == 0 || head->address % LINE_BYTES || head->n_bytes % LINE_BYTES ||
	    head->address % PAGE_BYTES + head->n_bytes > PAGE_BYTES) {
		history->is_damaged = true;
		return 0;
	}
	return add_reading(history, reading, item->code.bytes);
}

static int take_seen(struct code_history *history, const struct sample_clock *clock,
		     const struct trace_code_seen *record)
{
	size_t n_bytes;
	const char *pages = trace_record_string(&record->head, 0, &n_bytes);
	struct reading reading = {
		.begin_ns = clock->from_raw(clock->user, record->begin_raw_ns),
		.end_ns = clock->from_raw(clock->user, record->end_raw_ns),
		.process = record->process_id,
	};
	int r = 0;

	for (size_t at = 0; r == 0 && at + sizeof(uint64_t) <= n_bytes; at += sizeof(uint64_t)) {
		memcpy(&reading.address, pages + at, sizeof(reading.address));
		r = add_reading(history, reading, NULL);
	}
	return r;
}

static int take_item(struct code_history *history, const struct sample_clock *clock,
		     const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	int r = 0;

	if (item->type == TRACE_FRAME_CODE)
		return take_code(history, clock, item);
	if (item->type == TRACE_FRAME_COMMIT)
		return take_segment(history);
	while (r == 0 && item->type == TRACE_FRAME_RECORDS &&
	       (record = trace_record_next(item, record)))
		if (record->type == TRACE_RECORD_CODE_SEEN)
			r = take_seen(history, clock, (const void *)record);
	return r;
}

DEFINE_ORDER(compare_times, int64_t, ORDER(*a, *b));

/* Behind the last reading nothing is known. Versions are numbered over all pages. */
static int finish_pages(struct code_history *history)
{
	uint32_t n = 1;
	int r = 0;

	for (struct page *page = history->all; r == 0 && page; page = page->next) {
		for (size_t i = 0; i < N_LINES; i++) {
			if (page->lines[i].newest)
				page->lines[i].newest->until_ns = page->begin_ns - MARGIN_NS;
		}
		r = add_turn(page, page->begin_ns - MARGIN_NS);
		qsort(page->turns, page->n_turns, sizeof(*page->turns), compare_times);
		page->first_version = n;
		n += (uint32_t)page->n_turns + 1;
	}
	return r;
}

static bool is_damaged(const struct code_history *history, const struct trace_reader *reader)
{
	const struct trace_damage *damage = trace_reader_damage(reader);

	return history->is_damaged || damage->n_damaged_frames || damage->n_skipped_bytes;
}

static void cleanup_history(struct code_history **history)
{
	code_history_destroy(*history);
}

int code_history_read(const char *path, const struct sample_clock *clock,
		      struct code_history **ret_history)
{
	__attribute__((cleanup(cleanup_history))) struct code_history *history =
		calloc(1, sizeof(*history));
	auto_trace_reader struct trace_reader *reader = NULL;
	static const enum trace_frame_type types[] = { TRACE_FRAME_CODE, TRACE_FRAME_RECORDS };
	struct trace_item item;
	int r = history ? trace_reader_open(path, &reader) : -ENOMEM;

	if (r < 0)
		return r;
	trace_reader_only(reader, types, sizeof(types) / sizeof(types[0]));
	while (r >= 0 && (r = trace_reader_next(reader, &item)) > 0)
		r = take_item(history, clock, &item);
	r = r ?: take_segment(history);
	r = r ?: finish_pages(history);
	if (r < 0)
		return r;
	history->is_damaged = is_damaged(history, reader);
	history->last.until_ns = INT64_MIN;
	*ret_history = history;
	history = NULL;
	return 0;
}

/* ---- Questions ---- */

bool code_history_has(const struct code_history *history, uint32_t process, uint64_t address)
{
	return find(history, process, address) != NULL;
}

uint32_t code_history_version(struct code_history *history, uint32_t process, uint64_t address,
			      int64_t time_ns)
{
	size_t low = 0, high;

	if (history->last.process == process && history->last.page == address >> PAGE_BITS &&
	    time_ns >= history->last.from_ns && time_ns < history->last.until_ns)
		return history->last.version;
	const struct page *page = find(history, process, address);
	high = page ? page->n_turns : 0;
	while (low < high) { /* turns up to the time */
		size_t middle = (low + high) / 2;

		if (page->turns[middle] <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	history->last.process = process;
	history->last.page = address >> PAGE_BITS;
	history->last.from_ns = low ? page->turns[low - 1] : INT64_MIN;
	history->last.until_ns = page && low < page->n_turns ? page->turns[low] : INT64_MAX;
	history->last.version = page ? page->first_version + (uint32_t)low : 0;
	return history->last.version;
}

/*
 * Whether what readings saw of a line is what was there. Beside a line that is made again and again
 * others may be as well, if they were ever written to twice.
 */
static const struct version *newest(const struct page *page, uint64_t address)
{
	const struct line *line = page ? &page->lines[address % PAGE_BYTES / LINE_BYTES] : NULL;

	if (!line || line->is_restless || (page->is_restless && line->n_versions > 2))
		return NULL;
	return line->newest;
}

/* Turns lie at from_ns (known since) and until_ns (not known since). */
static const struct version *version_at(const struct version *version, int64_t time_ns)
{
	while (version && version->from_ns > time_ns)
		version = version->older;
	return version && time_ns < version->until_ns ? version : NULL;
}

static size_t copy_line(const struct version *version, uint64_t address, void *bytes, size_t n)
{
	size_t within = (size_t)(address % LINE_BYTES);
	size_t part = LINE_BYTES - within < n ? LINE_BYTES - within : n;

	memcpy(bytes, version->bytes + within, part);
	return part;
}

size_t code_history_bytes(const struct code_history *history, uint32_t process,
			  const struct code_question *question)
{
	uint8_t *to = question->bytes;
	size_t n = 0;

	while (n < question->n_bytes && !history->is_damaged) {
		uint64_t at = question->address + n;
		const struct version *version =
			version_at(newest(find(history, process, at), at), question->time_ns);

		if (!version)
			break;
		n += copy_line(version, at, to + n, question->n_bytes - n);
	}
	return n;
}

static const struct version *first_of(const struct version *version)
{
	while (version && version->older)
		version = version->older;
	return version;
}

static const struct version *last_before(const struct version *version, int64_t time_ns)
{
	while (version && version->from_ns > time_ns)
		version = version->older;
	return version;
}

size_t code_history_inherited(const struct code_history *history, const struct code_fork *fork,
			      const struct code_question *question)
{
	uint64_t address = question->address;
	const struct version *after =
		first_of(newest(find(history, fork->process, address), address));
	const struct version *before =
		last_before(newest(find(history, fork->parent, address), address), fork->time_ns);

	if (!after || !before || history->is_damaged || question->time_ns < fork->time_ns ||
	    question->time_ns >= after->from_ns ||
	    memcmp(after->bytes, before->bytes, LINE_BYTES) != 0)
		return 0;
	return copy_line(after, address, question->bytes, question->n_bytes);
}
