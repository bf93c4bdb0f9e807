#include "tracealloc/pick/pick.h"

#include <string.h>
#include <sys/mman.h>

#include "tracealloc/ring/clock.h"

#define LN2_Q32	     UINT64_C(2977044472) /* ln 2 * 2^32 */
#define LOG2_BITS    32
#define MAX_SHIFT    31u
#define HALF	     (TA_PICK_CAPACITY / 2)
#define STEP	     (TA_PICK_CAPACITY / 32)
#define BUCKET_BYTES (TA_PICK_BUCKET * sizeof(uint64_t))
#define PICK_BYTES   (TA_PICK_FILTER + TA_PICK_BUCKETS * BUCKET_BYTES)

#define N_LEVELS 3u

struct level {
	uint32_t first; /* bucket */
	uint32_t log2; /* of its buckets */
};

static const struct level levels[N_LEVELS] = { { 0, 6 }, { 64, 11 }, { 64 + 2048, 16 } };

static uint8_t *filter; /* ta_image.picked, to write to */
static _Atomic uint64_t *set;
static _Atomic uint32_t n_picked;
static _Atomic uint32_t n_used; /* levels that ever took a block; others have no pages yet */

bool ta_pick_begin(void)
{
	ta_image.picked = NULL;
	ta_image.sample_bytes = ta_image.control->sample_bytes;
	if (ta_image.sample_bytes == 0 && !(ta_image.flags & RING_FLAG_USDT))
		return true;
	long memory = filter ? (long)filter : ta_map_private(PICK_BYTES);
	if (memory < 0)
		return false;
	if (filter) /* of a recording before: what was freed since nobody has seen */
		ta_syscall(SYS_madvise, memory, PICK_BYTES, MADV_DONTNEED, 0, 0, 0);
	filter = (uint8_t *)memory;
	set = (_Atomic uint64_t *)(memory + TA_PICK_FILTER);
	atomic_store(&n_picked, 0);
	atomic_store(&n_used, 1);
	if (ta_pick_is_all())
		memset(filter, UINT8_MAX, TA_PICK_FILTER); /* no block has surely passed */
	ta_image.min_bytes = UINT64_MAX; /* so that each hook asks ta_pick_take() */
	ta_image.picked = filter;
	return true;
}

/* ---- Drawing ---- */

/* splitmix64 (Steele, Lea, Flood 2014), of which 0 means "not seeded". */
static uint64_t next_random(void)
{
	uint64_t z = ta_tls.thread->pick_random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void seed(void)
{
	uint64_t tid = (uint64_t)ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);

	ta_tls.thread->pick_random = ta_ticks_begin() ^ tid << 40 ^ (uintptr_t)&ta_tls;
	ta_tls.thread->pick_random = next_random() | 1;
}

/*
 * -log2(r / 2^64) in 2^-32, without floating point: its whole part are the zeros before r, each
 * further bit says whether the square of what is left is 2 or more.
 */
static uint64_t minus_log2(uint64_t r)
{
	int zeros = __builtin_clzll(r | 1);
	uint64_t mantissa = (r | 1) << zeros; /* 1 to below 2, in 2^-63 */
	uint64_t fraction = 0;

	for (int i = 0; i < LOG2_BITS; i++) {
		unsigned __int128 square = (unsigned __int128)mantissa * mantissa;
		bool is_two = square >> 127;

		mantissa = (uint64_t)(square >> (is_two ? 64 : 63));
		fraction = fraction << 1 | is_two;
	}
	return ((uint64_t)(zeros + 1) << LOG2_BITS) - fraction;
}

/* Fuller sets have longer intervals: then nothing need be left out. */
static uint32_t pressure(void)
{
	uint32_t n = atomic_load_explicit(&n_picked, memory_order_relaxed);

	return n > HALF ? 1 + (n - HALF) / STEP : 0;
}

static uint64_t interval_of(uint32_t shift)
{
	uint64_t every = ta_image.sample_bytes << (shift < MAX_SHIFT ? shift : MAX_SHIFT);

	return every < RING_MAX_SAMPLE_BYTES ? every : RING_MAX_SAMPLE_BYTES;
}

/* How many bytes lie before the next pick: -ln(uniform) times the interval. */
static void draw(void)
{
	uint32_t shift =
		atomic_load_explicit(&ta_image.control->sample_shift, memory_order_relaxed) +
		pressure();

	if (!ta_tls.thread->pick_random)
		seed();
	shift = shift < MAX_SHIFT ? shift : MAX_SHIFT;
	ta_tls.pick_shift = (uint8_t)(shift + 1);
	uint64_t nats = (uint64_t)((unsigned __int128)minus_log2(next_random()) * LN2_Q32 >> 32);
	ta_tls.left = (uint64_t)((unsigned __int128)nats * interval_of(shift) >> 32);
}

uint64_t ta_pick_take(size_t size)
{
	if (!ta_image.picked)
		return 0;
	if (ta_pick_is_all()) {
		ta_tls.left = 0;
		ta_tls.thread->pick_random++;
		return TA_PICK_ALL;
	}
	bool is_first = !ta_tls.pick_shift;
	if (is_first)
		draw();
	if ((is_first || TA_IS_AGENT) && ta_pick_passes(size))
		return 0;
	uint64_t every = interval_of(ta_tls.pick_shift - 1u);
	draw();
	return every;
}

/* ---- The set ---- */

static _Atomic uint64_t *bucket_of(uint64_t hash, uint32_t level, unsigned which)
{
	uint64_t other = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	uint64_t number = which ? other >> 32 : hash >> 16;
	uint64_t n_buckets = UINT64_C(1) << levels[level].log2;

	return set + (levels[level].first + number % n_buckets) * TA_PICK_BUCKET;
}

static unsigned n_free(const _Atomic uint64_t *bucket)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TA_PICK_BUCKET; i++)
		n += atomic_load_explicit(&bucket[i], memory_order_relaxed) == 0;
	return n;
}

static bool has(const _Atomic uint64_t *bucket, const void *block)
{
	bool found = false;

	for (unsigned i = 0; i < TA_PICK_BUCKET; i++)
		found |= atomic_load_explicit(&bucket[i], memory_order_relaxed) == (uintptr_t)block;
	return found;
}

/* Change one place of a bucket from one value to another. */
static bool change(_Atomic uint64_t *bucket, uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < TA_PICK_BUCKET; i++) {
		uint64_t expected = from;

		if (atomic_load_explicit(&bucket[i], memory_order_relaxed) == from &&
		    atomic_compare_exchange_strong(&bucket[i], &expected, to))
			return true;
	}
	return false;
}

/*
 * The filter is raised before the block stands in the set, and lowered behind: whoever is
 * interrupted in between leaves it too high, never too low. One that is full stays so.
 */
static void count_in_filter(uint64_t hash, int by)
{
	uint8_t *byte = &filter[hash >> 48];
	uint8_t n = __atomic_load_n(byte, __ATOMIC_RELAXED);

	while (n != UINT8_MAX && !__atomic_compare_exchange_n(byte, &n, (uint8_t)(n + by), true,
							      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Does it stand in one of its buckets? */
static bool is_in_set(uint64_t hash, const void *block)
{
	bool found = false;

	for (uint32_t level = 0; level < atomic_load(&n_used) && !found; level++)
		found = has(bucket_of(hash, level, 0), block) ||
			has(bucket_of(hash, level, 1), block);
	return found;
}

/* False: there is no room in this level. */
static bool insert_in(uint32_t level, uint64_t hash, const void *block)
{
	_Atomic uint64_t *first = bucket_of(hash, level, 0), *second = bucket_of(hash, level, 1);
	bool is_second = n_free(second) > n_free(first);

	return change(is_second ? second : first, 0, (uintptr_t)block) ||
	       change(is_second ? first : second, 0, (uintptr_t)block);
}

bool ta_pick_insert(const void *block)
{
	uint64_t hash = ta_pick_hash(block);

	if (ta_pick_is_all())
		return true;
	if (!ta_pick_has_passed(block) && is_in_set(hash, block))
		return true;
	count_in_filter(hash, 1);
	for (uint32_t level = 0; level < N_LEVELS; level++) {
		uint32_t used = atomic_load(&n_used);

		/* Before the block: whoever frees it looks there. */
		while (used <= level && !atomic_compare_exchange_weak(&n_used, &used, level + 1))
			;
		if (!insert_in(level, hash, block))
			continue;
		atomic_fetch_add_explicit(&n_picked, 1, memory_order_relaxed);
		return true;
	}
	count_in_filter(hash, -1);
	return false;
}

bool ta_pick_remove(const void *block)
{
	uint64_t hash = ta_pick_hash(block);
	bool found = false;

	if (ta_pick_is_all())
		return true;
	for (uint32_t level = 0; block && level < atomic_load(&n_used) && !found; level++)
		found = change(bucket_of(hash, level, 0), (uintptr_t)block, 0) ||
			change(bucket_of(hash, level, 1), (uintptr_t)block, 0);
	if (!found)
		return false;
	count_in_filter(hash, -1);
	atomic_fetch_sub_explicit(&n_picked, 1, memory_order_relaxed);
	return true;
}
