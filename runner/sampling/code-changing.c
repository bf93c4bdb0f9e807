#include "runner/sampling/code-changing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "runner/sampling/process-read.h"

#define PAGE_BYTES  TRACE_CODE_PAGE_BYTES
#define LINE_BYTES  TRACE_CODE_LINE_BYTES
#define N_LINES	    (PAGE_BYTES / LINE_BYTES)
#define N_BUCKETS   1024u
#define CHUNK_PAGES 32u /* read in some 20 us: a sample in that time is between two readings */
#define IN_TURN	    16u /* pages of no sample that are read in each round */
#define GROUP_PAGES 32u /* looked for new ones together, ... */
#define AROUND	    16u /* ... with so many pages on either side */
#define MAX_GROUPS  512u /* looked through in some 0.5 ms */
#define RECENT	    64u /* pages that are new or changed, which are read in each round */
#define MOVING_NS   UINT64_C(200000000)
/*
 * Readings in a row that saw a line alike: what was there for more than 3 % of the time had been
 * seen by one of them, in 95 of 100 cases (the rule of three).
 */
#define SETTLED	 100
#define N_FORMER 3

/* How a line has been; for --private, which must decide before it has seen more. */
struct line {
	uint8_t n_alike; /* readings in a row, this one included; saturates */
	uint8_t n_turns; /* into another one; saturates */
	bool is_restless; /* it has come back to what it was before: others may have been between */
	uint32_t former[N_FORMER];
};

struct page {
	struct page *next; /* of its bucket */
	uint64_t address;
	uint32_t process_id;
	pid_t pid;
	uint64_t wanted_round;
	bool is_needed;
	bool is_read;
	bool is_told; /* to the sink: what no sample has hit is kept here only */
	bool is_restless; /* a line of it is */
	bool is_forbidden;
	uint64_t begin_ns, end_ns; /* of its last reading */
	struct line lines[N_LINES];
	uint8_t bytes[PAGE_BYTES];
};

/*
 * Neighbours of pages that samples hit. Compilers write code beside code, to pages that had no
 * frame before.
 */
struct group {
	uint64_t address;
	uint32_t process_id;
	pid_t pid;
};

/* A page that was new or another one when it was read. */
struct recent {
	uint64_t address;
	uint32_t process_id;
	uint64_t raw_ns;
};

struct code_changing {
	struct code_changing_sink sink;
	size_t max_pages;
	uint64_t max_bytes;
	struct page *buckets[N_BUCKETS];
	size_t n_pages;
	struct page **wanted; /* of this round */
	size_t n_wanted;
	size_t n_wanted_allocated;
	uint64_t round;
	size_t turn; /* bucket that is next */
	struct group *groups;
	size_t n_groups;
	struct recent recent[RECENT]; /* the oldest makes room */
	size_t n_recent;
	uint64_t moved_ns;
	struct code_changing_counts counts;
	uint8_t chunk[CHUNK_PAGES][PAGE_BYTES];
};

int code_changing_create(const struct code_changing_sink *sink, size_t max_pages,
			 uint64_t max_bytes, struct code_changing **ret_changing)
{
	struct code_changing *changing = calloc(1, sizeof(*changing));

	if (!changing)
		return -ENOMEM;
	if (sink)
		changing->sink = *sink;
	changing->max_pages = max_pages;
	changing->max_bytes = max_bytes;
	changing->round = 1;
	*ret_changing = changing;
	return 0;
}

struct code_changing *code_changing_destroy(struct code_changing *changing)
{
	if (!changing)
		return NULL;
	for (size_t i = 0; i < N_BUCKETS; i++) {
		for (struct page *page = changing->buckets[i]; page;) {
			struct page *next = page->next;

			free(page);
			page = next;
		}
	}
	free_all(changing->wanted, changing->groups, changing);
	return NULL;
}

const struct code_changing_counts *code_changing_counts(const struct code_changing *changing)
{
	return &changing->counts;
}

bool code_changing_is_moving(const struct code_changing *changing)
{
	return changing->moved_ns && clock_raw_ns() - changing->moved_ns < MOVING_NS;
}

/* ---- The table ---- */

static size_t bucket_of(uint32_t process_id, uint64_t address)
{
	uint64_t hash =
		(address / PAGE_BYTES ^ (uint64_t)process_id << 40) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(hash >> 32) % N_BUCKETS;
}

static struct page *find(const struct code_changing *changing, uint32_t process_id,
			 uint64_t address)
{
	struct page *page = changing->buckets[bucket_of(process_id, address)];

	while (page && (page->address != address || page->process_id != process_id))
		page = page->next;
	return page;
}

static struct page *add(struct code_changing *changing, uint32_t process_id, uint64_t address)
{
	struct page *page = calloc(1, sizeof(*page));
	size_t bucket = bucket_of(process_id, address);

	if (!page)
		return NULL;
	page->process_id = process_id;
	page->address = address;
	page->next = changing->buckets[bucket];
	changing->buckets[bucket] = page;
	changing->n_pages++;
	return page;
}

static void drop(struct code_changing *changing, struct page *page)
{
	struct page **link = &changing->buckets[bucket_of(page->process_id, page->address)];

	while (*link != page)
		link = &(*link)->next;
	*link = page->next;
	changing->n_pages--;
	free(page);
}

/* What is wanted in this round is read before anything is forgotten: no page hangs in that list. */
void code_changing_forget(struct code_changing *changing, uint32_t process_id)
{
	size_t n = 0;

	for (size_t i = 0; i < changing->n_wanted; i++)
		if (changing->wanted[i]->process_id != process_id)
			changing->wanted[n++] = changing->wanted[i];
	changing->n_wanted = n;
	for (size_t i = changing->n_groups; i-- > 0;)
		if (changing->groups[i].process_id == process_id)
			changing->groups[i] = changing->groups[--changing->n_groups];
	for (size_t i = 0; changing->n_pages > 0 && i < N_BUCKETS; i++) {
		for (struct page *page = changing->buckets[i]; page;) {
			struct page *next = page->next;

			if (page->process_id == process_id)
				drop(changing, page);
			page = next;
		}
	}
}

static int append(struct code_changing *changing, struct page *page)
{
	if (grow_one(&changing->wanted, changing->n_wanted, &changing->n_wanted_allocated) < 0)
		return -ENOMEM;
	page->wanted_round = changing->round;
	changing->wanted[changing->n_wanted++] = page;
	return 0;
}

static bool is_over(const struct code_changing *changing)
{
	return changing->counts.n_bytes >= changing->max_bytes;
}

static bool is_full(const struct code_changing *changing)
{
	return changing->n_pages >= changing->max_pages || is_over(changing);
}

/* ---- Which pages ---- */

static int want(struct code_changing *changing, struct page *page, bool is_needed)
{
	page->is_needed = is_needed || (page->is_needed && page->wanted_round == changing->round);
	return page->wanted_round == changing->round ? 0 : append(changing, page);
}

static int add_group(struct code_changing *changing, uint32_t process_id, pid_t pid,
		     uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(GROUP_PAGES * PAGE_BYTES - 1);

	for (size_t i = 0; i < changing->n_groups; i++)
		if (changing->groups[i].address == start &&
		    changing->groups[i].process_id == process_id)
			return 0;
	if (changing->n_groups == MAX_GROUPS)
		return 0;
	if (grow_array_of(&changing->groups, changing->n_groups, 1, sizeof(struct group)) < 0)
		return -ENOMEM;
	changing->groups[changing->n_groups++] = (struct group){ start, process_id, pid };
	return 0;
}

int code_changing_want(struct code_changing *changing, uint32_t process_id, pid_t pid,
		       uint64_t address, bool is_needed)
{
	struct page *page = find(changing, process_id, address);
	int r = 0;

	if (!page && is_full(changing)) {
		changing->counts.n_over_limit += is_needed;
		return 0;
	}
	if (!page)
		page = add(changing, process_id, address);
	if (!page)
		return -ENOMEM;
	if (is_needed && !page->is_told)
		r = add_group(changing, process_id, pid, address);
	page->pid = pid;
	return r < 0 ? r : want(changing, page, is_needed);
}

/*
 * Pages of a group and around it that have a page frame, and are new: read before a sample hits
 * them, so that it has a reading on either side. To read others would give them a frame.
 */
static int want_new(struct code_changing *changing, const struct group *group, int pagemap)
{
	uint64_t entries[GROUP_PAGES + 2 * AROUND];
	uint64_t first =
		group->address < AROUND * PAGE_BYTES ? 0 : group->address - AROUND * PAGE_BYTES;
	ssize_t n_bytes = pread(pagemap, entries, sizeof(entries),
				(off_t)(first / PAGE_BYTES * sizeof(*entries)));
	int r = 0;

	for (size_t i = 0; r == 0 && n_bytes > 0 && i < (size_t)n_bytes / sizeof(*entries); i++) {
		uint64_t page = first + i * PAGE_BYTES;

		if (entries[i] >> 63 && !find(changing, group->process_id, page))
			r = code_changing_want(changing, group->process_id, group->pid, page,
					       false);
	}
	return r;
}

static int want_all_new(struct code_changing *changing)
{
	const struct group *group = changing->groups, *end = group + changing->n_groups;
	int r = 0;

	while (r == 0 && group < end) {
		uint32_t process_id = group->process_id;
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)group->pid);
		auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
		for (; r == 0 && group < end && group->process_id == process_id; group++)
			r = fd < 0 ? 0 : want_new(changing, group, fd);
	}
	return r;
}

static void remember_recent(struct code_changing *changing, const struct page *page)
{
	struct recent *found = NULL;

	for (size_t i = 0; !found && i < RECENT; i++)
		if (changing->recent[i].address == page->address &&
		    changing->recent[i].process_id == page->process_id)
			found = &changing->recent[i];
	if (!found)
		found = &changing->recent[changing->n_recent++ % RECENT];
	*found = (struct recent){ page->address, page->process_id, page->end_ns };
}

static int want_recent(struct code_changing *changing)
{
	uint64_t now_ns = clock_raw_ns();
	int r = 0;

	for (size_t i = 0; r == 0 && i < RECENT; i++) {
		const struct recent *recent = &changing->recent[i];
		struct page *page = recent->raw_ns && now_ns - recent->raw_ns < MOVING_NS
					    ? find(changing, recent->process_id, recent->address)
					    : NULL;

		if (page)
			r = want(changing, page, false);
	}
	return r;
}

/* ---- Reading ---- */

static uint32_t hash_line(const uint8_t *bytes)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < LINE_BYTES; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, bytes + i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return (uint32_t)(hash >> 32);
}

/* A line is another one now. */
static void turn_line(struct page *page, struct line *line, const uint8_t *before,
		      const uint8_t *now)
{
	uint32_t hash = hash_line(now);

	line->n_turns += line->n_turns < UINT8_MAX;
	for (size_t i = 0; i < N_FORMER; i++)
		line->is_restless = line->is_restless || line->former[i] == hash;
	page->is_restless = page->is_restless || line->is_restless;
	memmove(line->former + 1, line->former, sizeof(line->former) - sizeof(line->former[0]));
	line->former[0] = hash_line(before);
	line->n_alike = 1;
}

/* Bits of the lines that differ from what is kept; keep what is there now. */
static uint64_t compare(struct page *page, const uint8_t *now)
{
	uint64_t changed = page->is_read ? 0 : UINT64_MAX;

	for (size_t i = 0; i < N_LINES; i++) {
		uint8_t *kept = page->bytes + i * LINE_BYTES;
		struct line *line = &page->lines[i];

		if (!page->is_read) {
			line->n_alike = 1;
		} else if (memcmp(kept, now + i * LINE_BYTES, LINE_BYTES) != 0) {
			turn_line(page, line, kept, now + i * LINE_BYTES);
			changed |= UINT64_C(1) << i;
		} else {
			line->n_alike += line->n_alike < UINT8_MAX;
		}
	}
	memcpy(page->bytes, now, PAGE_BYTES);
	page->is_read = true;
	return changed;
}

/* Hand on each row of lines that are new. */
static int tell_lines(struct code_changing *changing, const struct page *page,
		      struct trace_code head, uint64_t changed)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < N_LINES;) {
		size_t end = i;

		while (end < N_LINES && (changed >> end & 1))
			end++;
		if (end == i) {
			i++;
			continue;
		}
		head.address = page->address + i * LINE_BYTES;
		head.n_bytes = (uint32_t)((end - i) * LINE_BYTES);
		changing->counts.n_bytes += head.n_bytes;
		if (changing->sink.lines)
			r = changing->sink.lines(changing->sink.context, page->process_id, &head,
						 page->bytes + i * LINE_BYTES);
		i = end;
	}
	return r < 0 ? r : 0;
}

/* Pages of one process, and the moments around their reading. */
struct reading {
	struct page *pages[CHUNK_PAGES];
	size_t n_bytes[CHUNK_PAGES];
	size_t n;
	uint64_t ticks;
	uint64_t begin_ns;
	uint64_t end_ns;
};

static void read_pages(struct code_changing *changing, struct reading *reading)
{
	reading->begin_ns = clock_raw_ns();
	for (size_t i = 0; i < reading->n; i++) {
		struct page *page = reading->pages[i];

		reading->n_bytes[i] = process_read(page->pid, &page->is_forbidden, page->address,
						   changing->chunk[i], PAGE_BYTES,
						   page->is_needed ? READ_NEEDED : READ_WANTED);
	}
	reading->end_ns = clock_raw_ns();
}

static int tell_seen(const struct code_changing *changing, const struct reading *reading,
		     const uint64_t *pages, size_t n)
{
	const struct trace_code_seen record = {
		.head.type = TRACE_RECORD_CODE_SEEN,
		.process_id = reading->pages[0]->process_id,
		.pages_bytes = (uint32_t)(n * sizeof(*pages)),
		.begin_raw_ns = reading->begin_ns,
		.end_raw_ns = reading->end_ns,
	};

	if (n == 0 || !changing->sink.seen)
		return 0;
	return changing->sink.seen(changing->sink.context, &record, pages);
}

/* A page that was read before any sample hit it: what that reading saw. */
static int tell_before(struct code_changing *changing, const struct page *page,
		       struct trace_code head)
{
	head.begin_raw_ns = page->begin_ns;
	head.end_raw_ns = page->end_ns;
	return page->is_read ? tell_lines(changing, page, head, UINT64_MAX) : 0;
}

/*
 * Returns whether the page was seen as it was before, and this is to be told, or a negative errno.
 */
static int take_page(struct code_changing *changing, struct reading *reading, size_t i)
{
	const struct trace_code head = { .ticks = reading->ticks,
					 .begin_raw_ns = reading->begin_ns,
					 .end_raw_ns = reading->end_ns,
					 .kind = TRACE_CODE_CHANGING };
	struct page *page = reading->pages[i];
	bool is_first = page->is_needed && !page->is_told;
	int r = 0;

	if (is_first)
		r = tell_before(changing, page, head);
	page->is_told = page->is_told || page->is_needed;
	uint64_t changed = compare(page, changing->chunk[i]);
	page->begin_ns = reading->begin_ns;
	page->end_ns = reading->end_ns;
	if (changed)
		remember_recent(changing, page);
	changing->counts.n_pages += is_first;
	if (r < 0 || !page->is_told || changed == 0)
		return r < 0 ? r : page->is_told;
	if (is_over(changing)) {
		changing->counts.n_over_limit += page->is_needed;
		reading->n_bytes[i] = 0; /* dropped: behind its last reading nothing is known */
		return 0;
	}
	changing->counts.n_changes += !is_first;
	changing->moved_ns = reading->end_ns;
	return tell_lines(changing, page, head, changed);
}

static int take_reading(struct code_changing *changing, struct reading *reading)
{
	uint64_t seen[CHUNK_PAGES];
	size_t n_seen = 0;
	int r = 0;

	read_pages(changing, reading);
	for (size_t i = 0; r >= 0 && i < reading->n; i++) {
		if (reading->n_bytes[i] < PAGE_BYTES)
			continue;
		r = take_page(changing, reading, i);
		if (r > 0)
			seen[n_seen++] = reading->pages[i]->address;
	}
	if (r >= 0)
		r = tell_seen(changing, reading, seen, n_seen);
	for (size_t i = 0; i < reading->n; i++) {
		if (reading->n_bytes[i] == PAGE_BYTES)
			continue;
		changing->counts.n_unreadable += reading->pages[i]->is_needed && !is_over(changing);
		drop(changing, reading->pages[i]);
	}
	return r < 0 ? r : 0;
}

/* Pages of no sample, a few buckets on in each round: what changes there is seen, too. */
static int add_in_turn(struct code_changing *changing)
{
	size_t most = changing->n_wanted + IN_TURN;
	int r = 0;

	for (size_t i = 0; r == 0 && i < N_BUCKETS && changing->n_wanted < most; i++) {
		struct page *page = changing->buckets[changing->turn++ % N_BUCKETS];

		for (; r == 0 && page; page = page->next) {
			if (page->wanted_round == changing->round)
				continue;
			r = want(changing, page, false);
		}
	}
	return r;
}

static int compare_processes(const void *left, const void *right)
{
	const struct page *a = *(struct page *const *)left, *b = *(struct page *const *)right;

	return ORDER(a->process_id, b->process_id) ?: ORDER(a->address, b->address);
}

int code_changing_round(struct code_changing *changing, uint64_t ticks)
{
	struct reading reading = { .ticks = ticks };

	if (changing->n_pages == 0)
		return 0;
	int r = want_all_new(changing) ?: want_recent(changing) ?: add_in_turn(changing);
	if (changing->n_wanted > 1)
		qsort(changing->wanted, changing->n_wanted, sizeof(struct page *),
		      compare_processes);
	for (size_t i = 0; r == 0 && i < changing->n_wanted; i++) {
		struct page *page = changing->wanted[i];

		if (reading.n == CHUNK_PAGES ||
		    (reading.n && reading.pages[0]->process_id != page->process_id)) {
			r = take_reading(changing, &reading);
			reading.n = 0;
		}
		reading.pages[reading.n++] = page;
	}
	if (r == 0 && reading.n)
		r = take_reading(changing, &reading);
	changing->n_wanted = 0;
	changing->round++;
	return r;
}

/*
 * Of this round: a line that was not read again says nothing of samples since. Beside one that is
 * made again and again others may be as well, if they were ever written to twice.
 */
static bool is_certain(const struct code_changing *changing, const struct page *page,
		       const struct line *line)
{
	return page->wanted_round + 1 == changing->round && line->n_alike >= SETTLED &&
	       !line->is_restless && !(page->is_restless && line->n_turns > 1);
}

size_t code_changing_certain(const struct code_changing *changing, uint32_t process_id,
			     uint64_t address, void *bytes, size_t n_bytes)
{
	uint8_t *to = bytes;
	size_t n = 0;

	while (n < n_bytes) {
		uint64_t at = address + n;
		uint64_t start = at & ~(uint64_t)(PAGE_BYTES - 1);
		const struct page *page = find(changing, process_id, start);
		const struct line *line = page ? &page->lines[(at - start) / LINE_BYTES] : NULL;
		size_t part = LINE_BYTES - (size_t)(at % LINE_BYTES);

		if (!page || !is_certain(changing, page, line))
			break;
		part = part < n_bytes - n ? part : n_bytes - n;
		memcpy(to + n, page->bytes + (at - start), part);
		n += part;
	}
	return n;
}
