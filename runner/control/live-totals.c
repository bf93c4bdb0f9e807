#include "runner/control/live-totals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"

#define MIN_CAPACITY	4096u
#define MAX_BLOCKS	(256u << 10)
#define MAX_SHIFT	16u
#define LARGE_BYTES	(UINT64_C(256) << 10) /* followed always */
#define OPERATIONS_HZ	25000 /* on the table, in the long run: some 0.4 % of a core */
#define MOST_OPERATIONS 250000 /* at once, after a quiet time */
#define FILTER_BITS	16
#define RECENT_BITS	16
#define N_NOTED		(UINT64_C(1) << RECENT_BITS)
#define ADDRESS_BITS	47
#define NS_PER_SECOND	UINT64_C(1000000000)
#define HASH_FACTOR	UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio: Knuth 6.4 */
#define MAX_COUNTING	4096u /* nodes whose counts wait to be brought to their sites */
#define COUNT_NS	UINT64_C(100000000) /* the longest that they wait */
#define UNKNOWN_SITE	0u

/* What came last for an address. 32 bytes. */
struct block {
	uint64_t key; /* of address and process; 0: the place is free */
	uint64_t ticks; /* of its birth, or of its end */
	uint64_t size : 48;
	uint64_t shift : 8; /* one in 2^shift of its like is followed */
	uint64_t is_live : 1;
	uint64_t is_filtered : 1; /* the present share would not choose it: the filter knows it */
	uint32_t site;
};

/* An end of a block, if it is not of one whose birth is yet to come. */
struct end {
	uint64_t key;
	uint64_t ticks;
};

/* What was allocated there since it was brought to its site: that lies elsewhere. */
struct node {
	uint64_t pc;
	uint32_t parent;
	uint32_t site; /* + 1; 0: none yet */
	uint64_t allocated_bytes;
	uint32_t n_allocations; /* 0: it does not wait */
};

struct counting {
	uint32_t thread_id;
	uint32_t node;
};

/* The thread of the last event, and what it has done since another one was. */
struct current {
	uint32_t thread_id; /* 0: none */
	struct thread *thread;
	uint64_t key; /* of address 0 in its process */
	uint64_t n_allocations;
	uint64_t allocated_bytes;
	uint64_t n_frees;
};

/* Apart from what all events come to, which then saves no registers: half of its instructions. */
#define SELDOM __attribute__((noinline))

struct thread {
	struct node *nodes; /* by id */
	size_t n_allocated;
	uint32_t process_id;
	uint32_t pid;
};

struct live_totals {
	struct live_header *header;
	int fd;
	struct thread *threads; /* by id */
	size_t n_threads;
	struct current current;
	struct counting *counting; /* MAX_COUNTING */
	uint32_t n_counting;
	uint64_t next_count_ns;
	struct key_map sites; /* process, hash of the stack -> site + 1 */
	struct block *blocks;
	uint32_t capacity; /* a power of two */
	uint32_t n_blocks;
	uint32_t shift;
	bool has_threads; /* more than one: events come in no order */
	int64_t credit; /* operations on the table that may still be done */
	uint64_t credit_ns;
	uint64_t next_look_ns;
	uint64_t safe_ticks;
	uint64_t old_ticks;
	uint64_t ticks_per_second;
	struct end *ends; /* kept in the table, oldest first: a queue */
	size_t n_ends, ends_allocated, first_end;
	struct end *noted; /* N_NOTED: a ring of ends of blocks that are not followed */
	uint64_t n_noted, n_sorted; /* so far; of these in recent */
	struct end *recent; /* 2^RECENT_BITS, by the key */
	uint8_t *filter; /* 2^FILTER_BITS: how many of is_filtered; 255: as many or more */
	uint32_t n_filtered;
	uint64_t seed; /* of the choice: another one in each recording */
	uint32_t *ended; /* images that have ended since the last look */
	size_t n_ended, ended_allocated;
};

/* One writer: an atomic addition would lock the bus for nobody. */
#define add(field, n)                                                                              \
	atomic_store_explicit(&(field),                                                            \
			      atomic_load_explicit(&(field), memory_order_relaxed) + (n),          \
			      memory_order_relaxed)

static uint64_t hash_of(const struct live_totals *totals, uint64_t key)
{
	uint64_t hash = (key >> 4 ^ key >> 40 ^ totals->seed) * HASH_FACTOR;

	return (hash ^ hash >> 29) * HASH_FACTOR;
}

/* Its lowest bits, of all places that look at a hash, choose who is followed. */
static bool is_chosen(uint64_t hash, uint32_t shift)
{
	return (hash & ((UINT64_C(1) << shift) - 1)) == 0;
}

static uint8_t *filter_of(const struct live_totals *totals, uint64_t hash)
{
	return &totals->filter[hash >> (64 - FILTER_BITS)];
}

struct live_totals *live_totals_destroy(struct live_totals *totals)
{
	if (!totals)
		return NULL;
	for (size_t i = 0; i < totals->n_threads; i++)
		free(totals->threads[i].nodes);
	if (totals->header)
		munmap(totals->header, sizeof(*totals->header));
	cleanup_close(&totals->fd);
	key_map_finish(&totals->sites);
	free_all(totals->threads, totals->counting);
	if (totals->blocks)
		munmap(totals->blocks, totals->capacity * sizeof(*totals->blocks));
	free_all(totals->ends, totals->recent, totals->noted, totals->filter, totals->ended,
		 totals);
	return NULL;
}

/* In large pages if it can be: each look at a large table would miss the TLB, too. */
static struct block *map_table(uint32_t capacity)
{
	size_t size = capacity * sizeof(struct block);
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, size, MADV_HUGEPAGE);
	return at;
}

static int make_memory(struct live_totals *totals)
{
	totals->fd = memfd_create("memsight-live", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (totals->fd < 0 || ftruncate(totals->fd, sizeof(*totals->header)) < 0)
		return -errno;
	/* A reader must not be ended by memory that is gone. */
	fcntl(totals->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	struct live_header *header =
		mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED, totals->fd, 0);
	if (header == MAP_FAILED)
		return -errno;
	totals->header = header;
	return 0;
}

struct live_totals *live_totals_create(uint32_t old_seconds, uint64_t ticks_per_second)
{
	struct live_totals *totals = calloc(1, sizeof(*totals));

	if (!totals)
		return NULL;
	totals->fd = -1;
	totals->capacity = MIN_CAPACITY;
	totals->credit = MOST_OPERATIONS;
	totals->ticks_per_second = ticks_per_second;
	totals->old_ticks = old_seconds * ticks_per_second;
	totals->blocks = map_table(totals->capacity);
	totals->recent = calloc(1u << RECENT_BITS, sizeof(*totals->recent));
	totals->noted = calloc(N_NOTED, sizeof(*totals->noted));
	totals->filter = calloc(1u << FILTER_BITS, sizeof(*totals->filter));
	totals->counting = calloc(MAX_COUNTING, sizeof(*totals->counting));
	if (make_memory(totals) < 0 || !totals->counting || !totals->noted || !totals->blocks ||
	    !totals->recent || !totals->filter)
		return live_totals_destroy(totals);
	if (getrandom(&totals->seed, sizeof(totals->seed), GRND_NONBLOCK) < 0)
		totals->seed = (uintptr_t)totals;
	totals->header->magic = LIVE_MAGIC;
	totals->header->old_seconds = old_seconds;
	atomic_store(&totals->header->n_sites, UNKNOWN_SITE + 1);
	return totals;
}

int live_totals_fd(const struct live_totals *totals)
{
	return totals->fd;
}

struct live_header *live_totals_header(struct live_totals *totals)
{
	return totals->header;
}

/* Whether a block that is not chosen may be followed all the same. */
static bool may_be_followed(const struct live_totals *totals, uint64_t hash)
{
	return totals->n_filtered > 0 && *filter_of(totals, hash) > 0;
}

static void add_to_filter(struct live_totals *totals, struct block *block, uint64_t hash)
{
	uint8_t *n = filter_of(totals, hash);

	if (block->is_filtered)
		return;
	block->is_filtered = true;
	totals->n_filtered++;
	*n += *n < UINT8_MAX;
}

static void take_from_filter(struct live_totals *totals, const struct block *block)
{
	uint8_t *n = filter_of(totals, hash_of(totals, block->key));

	totals->n_filtered -= block->is_filtered;
	*n -= block->is_filtered && *n < UINT8_MAX;
}

/* ---- Sums ---- */

static void count(struct live_totals *totals, const struct block *block, int sign)
{
	struct live_header *header = totals->header;
	struct live_site *site = &header->sites[block->site];
	uint64_t weight = UINT64_C(1) << block->shift;
	uint64_t bytes = (uint64_t)sign * (weight * block->size);
	double variance;

	add(site->live_bytes, bytes);
	add(header->live_bytes, bytes);
	add(site->n_live, (uint64_t)sign * weight);
	add(header->n_live, (uint64_t)sign * weight);
	if (weight == 1)
		return;
	variance =
		sign * (double)block->size * (double)block->size * (double)(weight * (weight - 1));
	add(site->variance, variance);
	add(header->variance, variance);
}

/* ---- Table of blocks ---- */

static uint32_t place_of(const struct live_totals *totals, uint64_t hash)
{
	return (uint32_t)(hash >> 16) & (totals->capacity - 1);
}

/* The block, or the free place where it belongs. */
static struct block *find(const struct live_totals *totals, uint64_t key, uint64_t hash)
{
	uint32_t i = place_of(totals, hash);

	while (totals->blocks[i].key && totals->blocks[i].key != key)
		i = (i + 1) & (totals->capacity - 1);
	return &totals->blocks[i];
}

/* Linear probing without tombs: those behind move up (Knuth 6.4, algorithm R). */
static void remove_block(struct live_totals *totals, struct block *block)
{
	uint32_t mask = totals->capacity - 1;
	uint32_t hole = (uint32_t)(block - totals->blocks);

	take_from_filter(totals, block);
	for (uint32_t i = (hole + 1) & mask; totals->blocks[i].key; i = (i + 1) & mask) {
		uint32_t home = place_of(totals, hash_of(totals, totals->blocks[i].key));

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		totals->blocks[hole] = totals->blocks[i];
		hole = i;
	}
	totals->blocks[hole].key = 0;
	totals->n_blocks--;
}

/* Take the blocks over into a table of so many places. */
static int rebuild(struct live_totals *totals, uint32_t capacity)
{
	struct block *old = totals->blocks;
	uint32_t n_old = totals->capacity;
	struct block *blocks = map_table(capacity);

	if (!blocks)
		return -ENOMEM;
	totals->blocks = blocks;
	totals->capacity = capacity;
	for (uint32_t i = 0; i < n_old; i++)
		if (old[i].key)
			*find(totals, old[i].key, hash_of(totals, old[i].key)) = old[i];
	munmap(old, n_old * sizeof(*old));
	return 0;
}

/* Visit all; those of which visit() is false are removed. */
static void sweep(struct live_totals *totals, bool (*visit)(struct live_totals *, struct block *))
{
	for (uint32_t i = 0; i < totals->capacity;) {
		struct block *block = &totals->blocks[i];

		if (block->key && !visit(totals, block)) {
			if (block->is_live)
				count(totals, block, -1);
			remove_block(totals, block); /* another one may have come here */
		} else {
			i++;
		}
	}
}

/* What the present share would not have chosen goes, but large ones; what stays stands for more. */
static bool thin(struct live_totals *totals, struct block *block)
{
	uint64_t hash = hash_of(totals, block->key);
	bool is_chosen_now = is_chosen(hash, totals->shift);

	if (block->is_live && block->size >= LARGE_BYTES) {
		if (!is_chosen_now)
			add_to_filter(totals, block, hash);
		return true;
	}
	if (!is_chosen_now)
		return false;
	if (block->is_live && block->shift < totals->shift) {
		count(totals, block, -1);
		block->shift = totals->shift;
		count(totals, block, 1);
	}
	return true;
}

/* Follow half as many as now. */
static void follow_fewer(struct live_totals *totals)
{
	if (totals->shift == MAX_SHIFT)
		return;
	totals->shift++;
	sweep(totals, thin);
}

/* Each look goes over all places, and few are found sooner in a small table. */
static void give_room_back(struct live_totals *totals)
{
	while (totals->capacity > MIN_CAPACITY && totals->n_blocks < totals->capacity / 8 &&
	       rebuild(totals, totals->capacity / 2) == 0)
		continue;
}

/* Make room for one more. False: there is none. */
static bool make_room(struct live_totals *totals)
{
	if (totals->n_blocks < totals->capacity / 4 * 3)
		return true;
	if (totals->capacity < 2 * MAX_BLOCKS)
		return rebuild(totals, 2 * totals->capacity) == 0;
	follow_fewer(totals);
	return totals->n_blocks < totals->capacity / 4 * 3;
}

static struct block *put(struct live_totals *totals, uint64_t key, uint64_t hash)
{
	struct block *block = find(totals, key, hash);

	if (block->key)
		return block;
	if (!make_room(totals)) {
		add(totals->header->n_left_out, 1);
		return NULL;
	}
	block = find(totals, key, hash);
	*block = (struct block){ .key = key };
	totals->n_blocks++;
	return block;
}

/* ---- Sites ---- */

static struct thread *thread_of(struct live_totals *totals, uint32_t thread_id)
{
	if (thread_id < totals->n_threads)
		return &totals->threads[thread_id];
	if (grow_array_to(&totals->threads, thread_id, &totals->n_threads,
			  sizeof(*totals->threads)) < 0)
		return NULL;
	return &totals->threads[thread_id];
}

static struct live_thread *row_of(const struct live_totals *totals, uint32_t thread_id)
{
	uint32_t row = thread_id - 1;

	return &totals->header->threads[row < LIVE_MAX_THREADS ? row : LIVE_MAX_THREADS - 1];
}

/* The stack of a node, from the innermost frame outwards. Returns how deep it is. */
static uint32_t read_stack(const struct thread *thread, uint32_t id, uint64_t pcs[LIVE_FRAMES],
			   uint64_t *ret_hash)
{
	uint64_t hash = thread->process_id;
	uint32_t n = 0;

	for (; id && id < thread->n_allocated && n < UINT16_MAX; id = thread->nodes[id].parent) {
		uint64_t pc = thread->nodes[id].pc;
		if (pc < TRACE_STOP_MAX && pc != TRACE_STOP_BEFORE)
			break;
		hash = (hash ^ pc) * HASH_FACTOR;
		hash ^= hash >> 32;
		if (n < LIVE_FRAMES)
			pcs[n] = pc;
		n++;
	}
	*ret_hash = hash;
	return n;
}

static uint32_t make_site(struct live_totals *totals, const struct thread *thread, uint32_t id)
{
	struct live_header *header = totals->header;
	uint32_t n = atomic_load(&header->n_sites);
	uint64_t pcs[LIVE_FRAMES], hash;
	uint32_t n_frames = read_stack(thread, id, pcs, &hash);
	uint64_t known = key_map_get(&totals->sites, thread->process_id, hash);

	if (known)
		return (uint32_t)known - 1;
	if (n == LIVE_MAX_SITES || n_frames == 0 ||
	    key_map_put(&totals->sites, thread->process_id, hash, n + 1) < 0)
		return UNKNOWN_SITE;
	struct live_site *site = &header->sites[n];
	site->process_id = thread->process_id;
	site->pid = thread->pid;
	site->n_all_frames = n_frames;
	n_frames = n_frames < LIVE_FRAMES ? n_frames : LIVE_FRAMES;
	memcpy(site->pcs, pcs, n_frames * sizeof(*pcs));
	atomic_store_explicit(&site->n_frames, n_frames, memory_order_release);
	atomic_store_explicit(&header->n_sites, n + 1, memory_order_release);
	return n;
}

/* ---- Counts ---- */

/* Of the thread whose turn it was; its place may change afterwards. */
static void count_thread(struct live_totals *totals)
{
	struct current *current = &totals->current;
	struct live_header *header = totals->header;
	struct live_thread *row = row_of(totals, current->thread_id);

	if (current->thread_id == 0)
		return;
	add(row->n_allocations, current->n_allocations);
	add(row->allocated_bytes, current->allocated_bytes);
	add(row->n_frees, current->n_frees);
	add(header->n_allocations, current->n_allocations);
	add(header->allocated_bytes, current->allocated_bytes);
	add(header->n_frees, current->n_frees);
	*current = (struct current){ 0 };
}

SELDOM static void count_nodes(struct live_totals *totals)
{
	for (uint32_t i = 0; i < totals->n_counting; i++) {
		const struct counting *counting = &totals->counting[i];
		struct node *node = &totals->threads[counting->thread_id].nodes[counting->node];
		struct live_site *site = &totals->header->sites[node->site - 1];

		add(site->n_allocations, node->n_allocations);
		add(site->allocated_bytes, node->allocated_bytes);
		node->n_allocations = 0;
		node->allocated_bytes = 0;
	}
	totals->n_counting = 0;
}

/* Have a node's counts brought to its site, now and then. */
SELDOM static void put_on_list(struct live_totals *totals, const struct node *node)
{
	const struct current *current = &totals->current;

	totals->counting[totals->n_counting++] = (struct counting){
		current->thread_id,
		(uint32_t)(node - current->thread->nodes),
	};
	if (totals->n_counting == MAX_COUNTING)
		count_nodes(totals);
}

/* Another thread's turn. False: no memory. */
SELDOM static bool turn_to(struct live_totals *totals, uint32_t thread_id)
{
	struct thread *thread = thread_of(totals, thread_id);

	count_thread(totals);
	if (!thread)
		return false;
	totals->current = (struct current){
		.thread_id = thread_id,
		.thread = thread,
		.key = (uint64_t)thread->process_id << ADDRESS_BITS,
	};
	return true;
}

/* ---- Threads ---- */

void live_totals_thread(struct live_totals *totals, const struct live_thread_name *name)
{
	struct live_thread *row = row_of(totals, name->thread_id);

	count_thread(totals);
	struct thread *thread = thread_of(totals, name->thread_id);
	if (!thread)
		return;
	totals->has_threads |= atomic_load(&totals->header->n_threads) > 0;
	thread->process_id = name->process_id;
	thread->pid = name->pid;
	row->pid = name->pid;
	row->tid = name->tid;
	if (name->name)
		live_totals_rename(totals, name->thread_id, name->name);
	if (name->thread_id > atomic_load(&totals->header->n_threads))
		atomic_store_explicit(&totals->header->n_threads, name->thread_id,
				      memory_order_release);
}

void live_totals_rename(struct live_totals *totals, uint32_t thread_id, const char *name)
{
	struct live_thread *row = row_of(totals, thread_id);

	memset(row->name, 0, sizeof(row->name));
	memcpy(row->name, name, strnlen(name, sizeof(row->name)));
}

void live_totals_thread_end(struct live_totals *totals, uint32_t thread_id)
{
	count_thread(totals);
	count_nodes(totals);
	struct thread *thread = thread_of(totals, thread_id);
	if (!thread)
		return;
	free(thread->nodes);
	thread->nodes = NULL;
	thread->n_allocated = 0;
}

void live_totals_node(struct live_totals *totals, uint32_t thread_id, const struct trace_node *node)
{
	if (thread_id != totals->current.thread_id)
		count_thread(totals); /* its place may change */
	struct thread *thread = thread_of(totals, thread_id);
	if (!thread || grow_array_to(&thread->nodes, node->id, &thread->n_allocated,
				     sizeof(*thread->nodes)) < 0)
		return;
	thread->nodes[node->id] = (struct node){ .pc = node->pc, .parent = node->parent_id };
}

/* ---- Events ---- */

/* Unless what came later is known already: its end, or another birth there. */
static void give_birth(struct live_totals *totals, struct block *block, const struct block *born)
{
	if (block->ticks > born->ticks)
		return;
	if (block->is_live)
		count(totals, block, -1); /* its end is still to come */
	bool was_filtered = block->is_filtered;
	*block = *born;
	block->is_filtered = was_filtered;
	count(totals, block, 1);
}

/* With threads most ends are of blocks not followed: written down, until one is looked for. */
static inline void note_end(struct live_totals *totals, uint64_t key, uint64_t ticks)
{
	totals->noted[totals->n_noted++ & (N_NOTED - 1)] = (struct end){ key, ticks };
}

/* Whether such an end was seen, later than the block's birth. */
static bool is_over(struct live_totals *totals, const struct block *born, uint64_t hash)
{
	uint64_t i = totals->n_noted > N_NOTED ? totals->n_noted - N_NOTED : 0;
	const struct end *end = &totals->recent[hash >> (64 - RECENT_BITS)];

	for (i = i < totals->n_sorted ? totals->n_sorted : i; i < totals->n_noted; i++) {
		struct end noted = totals->noted[i & (N_NOTED - 1)];

		totals->recent[hash_of(totals, noted.key) >> (64 - RECENT_BITS)] = noted;
	}
	totals->n_sorted = i;
	return end->key == born->key && end->ticks > born->ticks;
}

/* Of a block that the share has not chosen, and that is large or whose place was one's. */
static void take_other_birth(struct live_totals *totals, const struct block *born, uint64_t hash)
{
	struct block *block;

	if (born->size < LARGE_BYTES) {
		/* The one that was here before, and is followed, must have ended. */
		block = find(totals, born->key, hash);
		if (block->key && block->is_live && block->ticks < born->ticks) {
			count(totals, block, -1);
			remove_block(totals, block);
		}
		return;
	}
	if (is_over(totals, born, hash))
		return;
	block = put(totals, born->key, hash);
	if (!block)
		return;
	add_to_filter(totals, block, hash);
	give_birth(totals, block, born);
}

/* One that is followed, or may be, or is in the way of one. */
SELDOM static void take_followed_birth(struct live_totals *totals, const struct trace_event *event,
				       uint32_t site, uint64_t hash)
{
	const struct block born = { .key = totals->current.key ^ event->address,
				    .ticks = event->ticks,
				    .size = event->size,
				    .shift = event->size < LARGE_BYTES ? totals->shift : 0,
				    .is_live = true,
				    .site = site };

	totals->credit--;
	if (!is_chosen(hash, totals->shift)) {
		take_other_birth(totals, &born, hash);
		return;
	}
	struct block *block = put(totals, born.key, hash);
	if (block)
		give_birth(totals, block, &born);
}

/* The site of a node that has none yet, or is not known; counted there. */
SELDOM static uint32_t find_site(struct live_totals *totals, uint32_t id, uint64_t size)
{
	const struct thread *thread = totals->current.thread;
	struct live_site *site = &totals->header->sites[UNKNOWN_SITE];

	if (id < thread->n_allocated) {
		thread->nodes[id].site = make_site(totals, thread, id) + 1;
		site = &totals->header->sites[thread->nodes[id].site - 1];
	}
	add(site->n_allocations, 1);
	add(site->allocated_bytes, size);
	return (uint32_t)(site - totals->header->sites);
}

/* One that is followed, or may be: threads' events come in no order. */
SELDOM static void take_followed_end(struct live_totals *totals, uint64_t key, uint64_t hash,
				     uint64_t ticks)
{
	struct block *block = find(totals, key, hash);

	totals->credit--;
	if (!block->key && !totals->has_threads)
		return; /* it was not recorded: from before, or too small */
	if (!block->key && !is_chosen(hash, totals->shift)) {
		note_end(totals, key, ticks);
		return;
	}
	if (block->key && block->ticks > ticks)
		return; /* of the one that was there before */
	if (block->key && block->is_live)
		count(totals, block, -1);
	if (!totals->has_threads) {
		remove_block(totals, block);
		return;
	}
	block = put(totals, key, hash);
	if (!block)
		return;
	block->is_live = false;
	block->ticks = ticks;
	/* A queue of ends that are kept; without memory the next look finds them. */
	if (grow_one(&totals->ends, totals->n_ends, &totals->ends_allocated) == 0)
		totals->ends[totals->n_ends++] = (struct end){ key, ticks };
}

static inline void take_end(struct live_totals *totals, uint64_t address, uint64_t ticks)
{
	uint64_t key = totals->current.key ^ address;
	uint64_t hash = hash_of(totals, key);

	totals->current.n_frees++;
	if (is_chosen(hash, totals->shift) || may_be_followed(totals, hash))
		take_followed_end(totals, key, hash, ticks);
	else if (totals->has_threads)
		note_end(totals, key, ticks);
}

static inline void take_birth(struct live_totals *totals, const struct trace_event *event)
{
	struct current *current = &totals->current;
	const struct thread *thread = current->thread;
	uint64_t hash = hash_of(totals, current->key ^ event->address);
	uint32_t site;

	current->n_allocations++;
	current->allocated_bytes += event->size;
	if (event->stack_id < thread->n_allocated && thread->nodes[event->stack_id].site) {
		struct node *node = &thread->nodes[event->stack_id];

		site = node->site - 1;
		node->allocated_bytes += event->size;
		if (node->n_allocations++ == 0)
			put_on_list(totals, node);
	} else {
		site = find_site(totals, event->stack_id, event->size);
	}
	if (is_chosen(hash, totals->shift) || event->size >= LARGE_BYTES ||
	    may_be_followed(totals, hash))
		take_followed_birth(totals, event, site, hash);
}

/* The new block has its begin after the old one's end. */
SELDOM static void take_move(struct live_totals *totals, const struct trace_event *event)
{
	if (event->old_address)
		take_end(totals, event->old_address, event->begin_ticks);
	if (event->address)
		take_birth(totals, event);
}

void live_totals_event(struct live_totals *totals, uint32_t thread_id,
		       const struct trace_event *event)
{
	if (event->op != TRACE_OP_ALLOC && event->op != TRACE_OP_FREE &&
	    event->op != TRACE_OP_REALLOC)
		return;
	if (thread_id != totals->current.thread_id && !turn_to(totals, thread_id))
		return;
	if (event->op == TRACE_OP_ALLOC)
		take_birth(totals, event);
	else if (event->op == TRACE_OP_REALLOC)
		take_move(totals, event);
	else if (event->address)
		take_end(totals, event->address, event->begin_ticks);
}

void live_totals_forget(struct live_totals *totals, uint32_t process_id)
{
	if (grow_one(&totals->ended, totals->n_ended, &totals->ended_allocated) == 0)
		totals->ended[totals->n_ended++] = process_id;
}

/* ---- Each round ---- */

/* Ends that nothing older can follow. */
static void drop_ends(struct live_totals *totals)
{
	while (totals->first_end < totals->n_ends) {
		const struct end *end = &totals->ends[totals->first_end];
		struct block *block = find(totals, end->key, hash_of(totals, end->key));

		if (end->ticks >= totals->safe_ticks)
			break;
		if (block->key && !block->is_live && block->ticks == end->ticks)
			remove_block(totals, block);
		totals->first_end++;
	}
	if (totals->n_ends == 0 || totals->first_end < totals->n_ends / 2)
		return;
	totals->n_ends -= totals->first_end;
	memmove(totals->ends, totals->ends + totals->first_end,
		totals->n_ends * sizeof(*totals->ends));
	totals->first_end = 0;
}

static bool has_ended(const struct live_totals *totals, const struct block *block)
{
	uint32_t id = totals->header->sites[block->site].process_id;

	return array_find(totals->ended, totals->n_ended, it, *it == id);
}

static bool look_at_block(struct live_totals *totals, struct block *block)
{
	struct live_site *site = &totals->header->sites[block->site];
	uint64_t weight = UINT64_C(1) << block->shift;
	uint64_t age = totals->safe_ticks > block->ticks ? totals->safe_ticks - block->ticks : 0;

	if (!block->is_live)
		return age < totals->ticks_per_second; /* there was no memory to keep it in mind */
	if (totals->n_ended && has_ended(totals, block))
		return false;
	add(site->age_ms, weight * (age / (totals->ticks_per_second / 1000)));
	if (age >= totals->old_ticks) {
		add(site->old_bytes, weight * block->size);
		add(totals->header->old_bytes, weight * block->size);
	}
	return true;
}

static void look(struct live_totals *totals, uint64_t now_ns)
{
	struct live_header *header = totals->header;
	uint32_t n = atomic_load(&header->n_sites);

	give_room_back(totals);
	atomic_store(&header->old_bytes, 0);
	for (uint32_t i = 0; i < n; i++) {
		atomic_store_explicit(&header->sites[i].old_bytes, 0, memory_order_relaxed);
		atomic_store_explicit(&header->sites[i].age_ms, 0, memory_order_relaxed);
	}
	sweep(totals, look_at_block);
	totals->n_ended = 0;
	atomic_store(&header->looked_ns, now_ns);
}

/* Follow fewer where too much was done, and more where less would do. */
static void adapt(struct live_totals *totals, uint64_t now_ns)
{
	uint64_t ns = now_ns - totals->credit_ns;

	totals->credit += (int64_t)(ns * OPERATIONS_HZ / NS_PER_SECOND);
	totals->credit_ns = now_ns;
	if (totals->credit < 0) {
		follow_fewer(totals);
		totals->credit = OPERATIONS_HZ / 10;
	}
	if (totals->credit > MOST_OPERATIONS) {
		totals->credit = MOST_OPERATIONS;
		/* It goes back slowly: a full table would have to be thinned again. */
		if (totals->shift > 0 && totals->n_blocks < MAX_BLOCKS / 2) {
			totals->shift--;
			totals->credit = MOST_OPERATIONS / 2;
		}
	}
}

void live_totals_tick(struct live_totals *totals, uint64_t now_ns, uint64_t safe_ticks)
{
	totals->safe_ticks = safe_ticks;
	count_thread(totals);
	if (now_ns >= totals->next_count_ns || now_ns >= totals->next_look_ns) {
		count_nodes(totals);
		totals->next_count_ns = now_ns + COUNT_NS;
	}
	drop_ends(totals);
	adapt(totals, now_ns);
	atomic_store(&totals->header->shift, totals->shift);
	if (now_ns < totals->next_look_ns)
		return;
	look(totals, now_ns);
	totals->next_look_ns = now_ns + NS_PER_SECOND;
}
