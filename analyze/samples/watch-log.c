#include "analyze/samples/watch-log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "schemas/ring.h"
#include "store/statement.h"
#include "trace/reader.h"

#define WATCH_REUSE_BUCKETS 64u

/* Armed without a break. */
struct watch_span {
	int64_t from_ns;
	int64_t to_ns; /* INT64_MAX: still */
};

struct watch_counts {
	uint64_t n_reads;
	uint64_t n_writes;
	uint64_t n_updates;
	uint64_t n_unknown;
};

struct watch_by_thread {
	int64_t thread_row;
	struct watch_counts counts;
};

struct watch_entry {
	uint32_t number;
	uint32_t process;
	uint64_t address;
	uint64_t n_bytes;
	bool is_write_only;
	bool is_hot;
	char *target;
	char *note;
	int64_t refused_ns;
	int64_t ended_ns; /* INT64_MAX: not told */
	struct watch_span *spans;
	size_t n_spans;
	size_t n_spans_allocated;
	size_t now; /* span of the last trap */
	struct watch_counts counts;
	struct watch_by_thread *threads;
	size_t n_threads;
	size_t n_threads_allocated;
	uint64_t reuse[WATCH_REUSE_BUCKETS];
	uint64_t reuse_other[WATCH_REUSE_BUCKETS];
	int64_t last_ns; /* of the last access in this span; INT64_MIN: none yet */
	size_t last_span;
	int64_t last_thread;
	int owner_kind; /* < 0: not known */
	int64_t owner_id;
};

/* ---- One arming of a watch, from its first record to its rows ---- */

static void watch_entry_destroy(struct watch_entry *entry)
{
	if (!entry)
		return;
	free_all(entry->target, entry->note, entry->spans, entry->threads, entry);
}

static char *text_of(const struct trace_watch *record, unsigned i)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(&record->head, i, &n_bytes);

	return strndup(bytes, n_bytes);
}

/* Of its first record; its spans are those of watch_entry_change(). 0 or -ENOMEM. */
static int watch_entry_create(const struct trace_watch *record, struct watch_entry **ret_entry)
{
	struct watch_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	entry->number = record->number;
	entry->process = record->process_id;
	entry->address = record->address;
	entry->n_bytes = record->n_bytes;
	entry->is_write_only = record->is_write_only;
	entry->is_hot = record->is_hot;
	entry->last_ns = INT64_MIN;
	entry->ended_ns = INT64_MAX;
	entry->owner_kind = -1;
	entry->target = text_of(record, 0);
	entry->note = text_of(record, 1);
	if (!entry->target || !entry->note)
		return watch_entry_destroy(entry), -ENOMEM;
	*ret_entry = entry;
	return 0;
}

/* ---- Spans ---- */

static int begin_span(struct watch_entry *entry, int64_t time_ns)
{
	if (grow_array(&entry->spans, entry->n_spans, &entry->n_spans_allocated,
		       sizeof(*entry->spans)) < 0)
		return -ENOMEM;
	entry->spans[entry->n_spans++] = (struct watch_span){ time_ns, INT64_MAX };
	return 0;
}

/* The span that is open ends then; none may be. */
static void watch_entry_end(struct watch_entry *entry, int64_t time_ns)
{
	struct watch_span *last = entry->n_spans ? &entry->spans[entry->n_spans - 1] : NULL;

	if (last && last->to_ns == INT64_MAX)
		last->to_ns = time_ns > last->from_ns ? time_ns : last->from_ns;
}

/* A record says that it is in a state (enum trace_watch_state) from then on. 0 or -ENOMEM. */
static int watch_entry_change(struct watch_entry *entry, unsigned state, int64_t time_ns)
{
	switch (state) {
	case TRACE_WATCH_ARMED:
	case TRACE_WATCH_RESUMED:
		watch_entry_end(entry, time_ns);
		return begin_span(entry, time_ns);
	case TRACE_WATCH_ENDED:
		entry->ended_ns = time_ns;
		watch_entry_end(entry, time_ns);
		return 0;
	case TRACE_WATCH_PAUSED:
		watch_entry_end(entry, time_ns);
		return 0;
	case TRACE_WATCH_REFUSED:
		entry->refused_ns = time_ns;
		return 0;
	default:
		return 0; /* of a newer writer */
	}
}

/* Was it armed then? Times do not go back, but for those of other CPUs by a little. */
static bool watch_entry_is_armed_at(struct watch_entry *entry, int64_t time_ns)
{
	while (entry->now + 1 < entry->n_spans && time_ns >= entry->spans[entry->now + 1].from_ns)
		entry->now++;
	return entry->n_spans > 0 && time_ns >= entry->spans[entry->now].from_ns &&
	       time_ns <= entry->spans[entry->now].to_ns;
}

/* ---- Counts ---- */

uint64_t watch_entry_address(const struct watch_entry *entry)
{
	return entry->address;
}

uint32_t watch_entry_bytes(const struct watch_entry *entry)
{
	return (uint32_t)entry->n_bytes;
}

static void count(struct watch_counts *counts, const struct decode_before *what)
{
	counts->n_unknown += what->ip == 0;
	counts->n_updates += what->ip && what->is_read && what->is_write;
	counts->n_reads += what->ip && what->is_read && !what->is_write;
	counts->n_writes += what->ip && !what->is_read && what->is_write;
}

static int count_thread(struct watch_entry *entry, int64_t thread_row,
			const struct decode_before *what)
{
	size_t i = 0;

	while (i < entry->n_threads && entry->threads[i].thread_row != thread_row)
		i++;
	if (i == entry->n_threads) {
		if (grow_array(&entry->threads, entry->n_threads, &entry->n_threads_allocated,
			       sizeof(*entry->threads)) < 0)
			return -ENOMEM;
		entry->threads[entry->n_threads++] =
			(struct watch_by_thread){ .thread_row = thread_row };
	}
	count(&entry->threads[i].counts, what);
	return 0;
}

static unsigned bucket_of(int64_t ns)
{
	return ns < 2 ? 0 : 63u - (unsigned)__builtin_clzll((unsigned long long)ns);
}

static void count_reuse(struct watch_entry *entry, int64_t time_ns, int64_t thread_row)
{
	if (entry->last_ns != INT64_MIN && entry->last_span == entry->now) {
		unsigned bucket = bucket_of(time_ns - entry->last_ns);

		entry->reuse[bucket]++;
		entry->reuse_other[bucket] += entry->last_thread != thread_row;
	}
	entry->last_ns = time_ns;
	entry->last_span = entry->now;
	entry->last_thread = thread_row;
}

int watch_entry_count(struct watch_entry *entry, int64_t time_ns, int64_t thread_row,
		      const struct decode_before *what)
{
	count(&entry->counts, what);
	count_reuse(entry, time_ns, thread_row);
	return count_thread(entry, thread_row, what);
}

void watch_entry_own(struct watch_entry *entry, int owner_kind, int64_t owner_id)
{
	if (entry->owner_kind >= 0)
		return;
	entry->owner_kind = owner_kind;
	entry->owner_id = owner_id;
}

/*
 * The rows of what was watched: one for each arming, its counts by thread, and the times between
 * accesses.
 */

static void bind_counts(sqlite3_stmt *statement, int first, const struct watch_counts *counts)
{
	statement_integer(statement, first, (int64_t)counts->n_reads);
	statement_integer(statement, first + 1, (int64_t)counts->n_writes);
	statement_integer(statement, first + 2, (int64_t)counts->n_updates);
	statement_integer(statement, first + 3, (int64_t)counts->n_unknown);
}

static int64_t armed_ns(const struct watch_entry *entry)
{
	int64_t sum = 0;

	for (size_t i = 0; i < entry->n_spans; i++)
		sum += entry->spans[i].to_ns - entry->spans[i].from_ns;
	return sum;
}

static int write_entry(const struct tasks *tasks, const struct watch_entry *entry,
		       sqlite3_stmt *statement, int64_t run_id)
{
	const struct task_process *process = tasks_process(tasks, entry->process);
	bool was_armed = entry->n_spans > 0;

	statement_integer(statement, 1, run_id);
	statement_integer(statement, 2, entry->number);
	statement_text(statement, 3, entry->target);
	statement_integer_or_null(statement, 4, process ? process->row : 0, was_armed && process);
	statement_integer(statement, 5, (int64_t)entry->address);
	statement_integer(statement, 6, (int64_t)entry->n_bytes);
	statement_integer(statement, 7, entry->is_write_only);
	statement_integer(statement, 8, entry->is_hot);
	statement_integer(statement, 9, was_armed ? entry->spans[0].from_ns : entry->refused_ns);
	statement_integer_or_null(statement, 10, entry->ended_ns, was_armed);
	statement_integer(statement, 11, armed_ns(entry));
	bind_counts(statement, 12, &entry->counts);
	statement_integer_or_null(statement, 16, entry->owner_kind, entry->owner_kind >= 0);
	statement_integer_or_null(statement, 17, entry->owner_id, entry->owner_id);
	statement_text(statement, 18, entry->note[0] ? entry->note : NULL);
	return statement_run(statement);
}

static int write_threads(const struct watch_entry *entry, sqlite3_stmt *statement, int64_t run_id,
			 int64_t watch_id)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < entry->n_threads; i++) {
		int64_t row = entry->threads[i].thread_row;

		statement_integer(statement, 1, run_id);
		statement_integer(statement, 2, watch_id);
		statement_integer_or_null(statement, 3, row, row);
		bind_counts(statement, 4, &entry->threads[i].counts);
		r = statement_run(statement);
	}
	return r;
}

static int write_reuse(const struct watch_entry *entry, sqlite3_stmt *statement, int64_t run_id,
		       int64_t watch_id)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < WATCH_REUSE_BUCKETS; i++) {
		if (entry->reuse[i] == 0)
			continue;
		statement_integer(statement, 1, run_id);
		statement_integer(statement, 2, watch_id);
		statement_integer(statement, 3, i);
		statement_integer(statement, 4, (int64_t)entry->reuse[i]);
		statement_integer(statement, 5, (int64_t)entry->reuse_other[i]);
		r = statement_run(statement);
	}
	return r;
}

/* The rows of n entries, each of which has ended. 0 or a negative errno. */
static int watch_rows_write(struct watch_entry *const *entries, size_t n, const struct tasks *tasks,
			    sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *watch = NULL;
	auto_statement sqlite3_stmt *thread = NULL;
	auto_statement sqlite3_stmt *reuse = NULL;
	int r = 0;

	if (n == 0)
		return 0;
	r = statement_prepare(db,
			      "INSERT INTO watch(run_id, number, target, process_id, address, size,"
			      " is_write_only, is_hot, from_ns, to_ns, armed_ns, n_reads, n_writes,"
			      " n_updates, n_unknown, owner_kind, owner_id, note)"
			      " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			      &watch);
	if (r == 0)
		r = statement_prepare(db, "INSERT INTO watch_thread VALUES(?, ?, ?, ?, ?, ?, ?)",
				      &thread);
	r = r ?: statement_prepare(db, "INSERT INTO watch_reuse VALUES(?, ?, ?, ?, ?)", &reuse);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct watch_entry *entry = entries[i];

		r = write_entry(tasks, entry, watch, run_id);
		int64_t id = sqlite3_last_insert_rowid(db);
		r = r ?: write_threads(entry, thread, run_id, id);
		r = r ?: write_reuse(entry, reuse, run_id, id);
	}
	return r;
}

#define RECENT	  64u /* threads whose last trap is kept; a power of two */
#define MOST_REGS 32u

/* Without registers: two traps of one thread at one ip closer than this are one access. */
#define SAME_TRAP_NS 3000

/* The last trap of a thread. */
struct recent {
	uint32_t tid; /* 0: none */
	uint64_t ip;
	int64_t time_ns;
	const struct watch_entry *entry;
	uint64_t ranges[4]; /* of the registers that this access has raised */
	size_t n_ranges;
	size_t n_registers;
	uint64_t registers[MOST_REGS];
};

struct watch_log {
	const struct tasks *tasks;
	struct watch_entry **entries;
	size_t n;
	size_t n_allocated;
	struct recent recent[RECENT];
	struct decode_before_cache *cache;
	uint64_t n_strays;
};

int watch_log_create(const struct tasks *tasks, struct watch_log **ret_log)
{
	struct watch_log *log = calloc(1, sizeof(*log));

	if (!log)
		return -ENOMEM;
	log->tasks = tasks;
	*ret_log = log;
	return 0;
}

struct watch_log *watch_log_destroy(struct watch_log *log)
{
	for (size_t i = 0; log && i < log->n; i++)
		watch_entry_destroy(log->entries[i]);
	if (log) {
		free_all(log->entries, log->cache);
	}
	free(log);
	return NULL;
}

/* ---- Records ---- */

static int add_entry(struct watch_log *log, const struct trace_watch *record,
		     struct watch_entry **ret_entry)
{
	struct watch_entry *entry = NULL;

	if (grow_array(&log->entries, log->n, &log->n_allocated, sizeof(struct watch_entry *)) < 0)
		return -ENOMEM;
	int r = watch_entry_create(record, &entry);
	if (r < 0)
		return r;
	log->entries[log->n++] = entry;
	*ret_entry = entry;
	return 0;
}

static struct watch_entry *find_entry(const struct watch_log *log, uint32_t number)
{
	for (size_t i = log->n; i-- > 0;) {
		if (log->entries[i]->number == number)
			return log->entries[i];
	}
	return NULL;
}

int watch_log_record(struct watch_log *log, const struct trace_watch *record, int64_t time_ns)
{
	struct watch_entry *entry = find_entry(log, record->number);
	int r = entry ? 0 : add_entry(log, record, &entry);

	return r < 0 ? r : watch_entry_change(entry, record->state, time_ns);
}

/* ---- Traps ---- */

/* Has an image the memory of another: is it that one, or forked from it? */
static bool is_fork_of(const struct tasks *tasks, uint32_t number, uint32_t of)
{
	const struct task_process *process = tasks_process(tasks, number);

	for (unsigned depth = 0; process && depth < 64; depth++) {
		if (process->number == of)
			return true;
		if (process->birth != RING_BIRTH_FORK)
			return false;
		process = tasks_process(tasks, process->parent);
	}
	return false;
}

static struct watch_entry *entry_of(struct watch_log *log, const struct watch_trap *trap)
{
	for (size_t i = log->n; i-- > 0;) {
		struct watch_entry *entry = log->entries[i];

		if (trap->address - entry->address < entry->n_bytes &&
		    watch_entry_is_armed_at(entry, trap->time_ns) &&
		    is_fork_of(log->tasks, trap->process, entry->process))
			return entry;
	}
	return NULL;
}

static bool has_range(const struct recent *recent, uint64_t address)
{
	return array_find(recent->ranges, recent->n_ranges, it, *it == address);
}

/* The same instruction with the same registers accesses the same bytes. */
static bool is_same_access(const struct recent *recent, const struct watch_trap *trap,
			   const struct watch_entry *entry)
{
	size_t n_bytes = trap->n_registers * sizeof(*trap->registers);

	if (recent->tid != trap->tid || recent->ip != trap->ip || recent->entry != entry ||
	    has_range(recent, trap->address) ||
	    recent->n_ranges == sizeof(recent->ranges) / sizeof(recent->ranges[0]))
		return false;
	if (trap->n_registers == 0 || trap->n_registers > MOST_REGS)
		return trap->time_ns - recent->time_ns < SAME_TRAP_NS;
	return recent->n_registers == trap->n_registers &&
	       memcmp(recent->registers, trap->registers, n_bytes) == 0;
}

static void keep(struct recent *recent, const struct watch_trap *trap,
		 const struct watch_entry *entry)
{
	size_t n = trap->n_registers <= MOST_REGS ? trap->n_registers : 0;

	recent->tid = trap->tid;
	recent->ip = trap->ip;
	recent->time_ns = trap->time_ns;
	recent->entry = entry;
	recent->ranges[0] = trap->address;
	recent->n_ranges = 1;
	recent->n_registers = n;
	if (n > 0)
		memcpy(recent->registers, trap->registers, n * sizeof(*trap->registers));
}

struct watch_entry *watch_log_take(struct watch_log *log, const struct watch_trap *trap)
{
	struct recent *recent = &log->recent[trap->tid % RECENT];
	struct watch_entry *entry = entry_of(log, trap);

	if (!entry) {
		log->n_strays++;
		return NULL;
	}
	if (is_same_access(recent, trap, entry)) {
		recent->ranges[recent->n_ranges++] = trap->address;
		return NULL;
	}
	keep(recent, trap, entry);
	return entry;
}

uint64_t watch_log_strays(const struct watch_log *log)
{
	return log->n_strays;
}

struct decode_before_cache *watch_log_cache(struct watch_log *log)
{
	if (!log->cache)
		log->cache = calloc(1, sizeof(*log->cache));
	return log->cache;
}

int watch_log_write(struct watch_log *log, sqlite3 *db, int64_t run_id, int64_t end_ns)
{
	for (size_t i = 0; i < log->n; i++) {
		struct watch_entry *entry = log->entries[i];

		watch_entry_end(entry, end_ns);
		if (entry->ended_ns == INT64_MAX)
			entry->ended_ns = end_ns;
	}
	return watch_rows_write(log->entries, log->n, log->tasks, db, run_id);
}
