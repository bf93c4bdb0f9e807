#include "analyze/samples/watch-log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/watch-entry.h"
#include "common/array.h"
#include "schemas/ring.h"

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
		free(log->entries);
		free(log->cache);
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
	for (size_t i = 0; i < recent->n_ranges; i++) {
		if (recent->ranges[i] == address)
			return true;
	}
	return false;
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
