#include "analyze/live/live-blocks.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "analyze/live/block-tree-pool.h"
#include "tests/support/suite.h"
#include "tests/unit/analyze/fixtures/check-db.h"

/* What answers for the pages and the tree beside it: one tree of all. */
struct pair {
	struct live_blocks live;
	struct heap oracle;
	uint64_t *addresses; /* of blocks that may be there */
	size_t n;
};

#define MOST_ADDRESSES 200000

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

static void check_same(const struct heap_block *a, const struct heap_block *b)
{
	check_equal(a->address, b->address);
	check_equal(a->size, b->size);
	check_equal(a->allocated_ns, b->allocated_ns);
	check_equal(a->id, b->id);
	check_equal(a->previous_id, b->previous_id);
	check_equal(a->thread, b->thread);
	check_equal(a->site, b->site);
	check_equal(a->call, b->call);
}

static void open_pair(struct pair *pair, struct heap_pool *pool)
{
	*pair = (struct pair){ .addresses = calloc(MOST_ADDRESSES, sizeof(uint64_t)) };
	live_blocks_init(&pair->live, pool);
	heap_init(&pair->oracle, pool);
}

static void close_pair(struct pair *pair)
{
	live_blocks_finish(&pair->live);
	heap_finish(&pair->oracle);
	free(pair->addresses);
	ck_assert_uint_eq(live_blocks_count(&pair->live), 0);
}

/* How blocks of a program lie: how far, how large, how many not as malloc puts them. */
struct shape {
	uint64_t space; /* in units of 16 bytes */
	uint64_t small; /* most are smaller */
	unsigned odd; /* one in so many begins anywhere */
	unsigned large; /* one in so many is larger than a page */
	uint64_t largest;
};

static const struct shape shapes[] = {
	{ 300, 100, 4, 20, 5000 },
	{ 1000, 64, 1000, 1000, 20000 },
	{ 20000, 400, 20, 50, 100000 },
	{ 1000000, 4200, 10, 30, UINT64_C(1) << 24 },
	{ UINT64_C(1) << 36, 64, 10, 100, UINT64_C(1) << 50 },
	{ 50000, 30, 100000, 3, UINT64_C(1) << 30 }, /* wide ones until patience ends */
};

static uint64_t random_address(const struct shape *shape)
{
	uint64_t address = random_below(shape->space) * 16 + (UINT64_C(0x7f) << 32);

	return random_below(shape->odd) ? address : address + random_below(16);
}

static uint64_t random_size(const struct shape *shape)
{
	if (random_below(shape->large) == 0)
		return random_below(shape->largest);
	return random_below(4) ? random_below(shape->small) : random_below(17);
}

static void try_overlap(const struct pair *pair, uint64_t address, uint64_t size)
{
	struct heap_block found, expected;
	bool is_found = live_blocks_overlap(&pair->live, address, size, &found);

	check_equal(is_found, heap_overlap(&pair->oracle, address, size, &expected));
	if (is_found)
		check_same(&found, &expected);
}

static void try_insert(struct pair *pair, const struct shape *shape, uint64_t id)
{
	struct heap_block block = {
		.address = random_address(shape),
		.size = random_size(shape),
		.allocated_ns = (int64_t)(id * 1000) - 5000,
		.id = id + (UINT64_C(1) << 39),
		.previous_id = random_below(2) ? (UINT64_C(1) << 39) - random_below(1ull << 33) : 0,
		.thread = (uint32_t)random_below(1u << (random_below(2) ? 24 : 31)),
		.site = (uint32_t)random_below(UINT32_MAX),
		.call = (uint8_t)random_below(256),
	};

	try_overlap(pair, block.address, block.size);
	int r = live_blocks_insert(&pair->live, &block);
	check_equal(r, heap_insert(&pair->oracle, &block));
	if (r == 0 && pair->n < MOST_ADDRESSES)
		pair->addresses[pair->n++] = block.address;
}

static void try_remove(struct pair *pair, const struct shape *shape)
{
	struct heap_block found, expected;
	uint64_t address = random_address(shape);

	if (pair->n > 0 && random_below(10)) {
		size_t i = random_below(pair->n);
		address = pair->addresses[i];
		pair->addresses[i] = pair->addresses[--pair->n];
	}
	int r = live_blocks_remove(&pair->live, address, &found);
	check_equal(r, heap_remove(&pair->oracle, address, &expected));
	if (r > 0)
		check_same(&found, &expected);
}

static void try_find(const struct pair *pair, const struct shape *shape)
{
	uint64_t address = random_address(shape) + random_below(40);
	struct heap_block found, expected;
	bool is_found = live_blocks_find(&pair->live, address, &found);

	check_equal(is_found, heap_find(&pair->oracle, address, &expected));
	if (is_found)
		check_same(&found, &expected);
	try_overlap(pair, address, random_size(shape));
}

static void step(struct pair *pair, const struct shape *shape, uint64_t id)
{
	bool grows = id / 2000 % 2 == 0;

	if (random_below(4) < (grows ? 3 : 1))
		try_insert(pair, shape, id);
	else
		try_remove(pair, shape);
	try_find(pair, shape);
}

struct walked {
	struct heap_block *blocks;
	size_t n;
};

static int note(void *context, const struct heap_block *block)
{
	struct walked *walked = context;

	walked->blocks[walked->n++] = *block;
	return 0;
}

static void check_walks(const struct pair *pair, uint64_t above_id)
{
	struct walked found = { 0 }, expected = { 0 };
	size_t n = live_blocks_count(&pair->live);

	ck_assert_uint_eq(n, pair->oracle.n_blocks);
	found.blocks = calloc(n + 1, sizeof(*found.blocks));
	expected.blocks = calloc(n + 1, sizeof(*found.blocks));
	ck_assert_int_eq(live_blocks_walk(&pair->live, above_id, note, &found), 0);
	ck_assert_int_eq(heap_walk(&pair->oracle, above_id, note, &expected), 0);
	ck_assert_uint_eq(found.n, expected.n);
	for (size_t i = 0; i < found.n; i++)
		check_same(&found.blocks[i], &expected.blocks[i]);
	free(found.blocks);
	free(expected.blocks);
}

/* What pages hold of blocks, and the sizes of those that are visited by themselves. */
struct page_sum {
	uint64_t bytes;
	uint64_t next; /* page */
};

static int add_page(void *context, uint64_t number, unsigned n_bytes)
{
	struct page_sum *sum = context;

	ck_assert_uint_le(sum->next, number);
	ck_assert_uint_le(n_bytes, BLOCK_SUM_BYTES);
	sum->next = number + 1;
	sum->bytes += n_bytes;
	return 0;
}

static int add_block(void *context, const struct heap_block *block)
{
	((struct page_sum *)context)->bytes += block->size;
	return 0;
}

static void check_sums(const struct pair *pair)
{
	struct page_sum found = { 0 }, expected = { 0 };

	ck_assert_int_eq(live_blocks_walk_pages(&pair->live, add_page, add_block, &found), 0);
	ck_assert_int_eq(heap_walk(&pair->oracle, 0, add_block, &expected), 0);
	ck_assert_uint_eq(found.bytes, expected.bytes);
}

START_TEST(pages_and_a_tree_answer_like_one_tree)
{
	const struct shape *shape = &shapes[_i % 6];
	struct heap_pool *pool;
	struct pair pair;

	random_state = 88172645463325252u + (uint64_t)_i;
	ck_assert_int_eq(heap_pool_open(&pool), 0);
	open_pair(&pair, pool);
	for (uint64_t id = 1; id < 8000; id++) {
		step(&pair, shape, id);
		if (id % 3000 != 0)
			continue;
		check_walks(&pair, (UINT64_C(1) << 39) + random_below(id));
		check_sums(&pair);
	}
	check_walks(&pair, 0);
	close_pair(&pair);
	heap_pool_close(pool);
}
END_TEST

#define N_IMAGES 5

START_TEST(forked_images_change_apart)
{
	const struct shape *shape = &shapes[_i % 6];
	struct heap_pool *pool;
	struct pair pairs[N_IMAGES];

	random_state = 1181783497276652981u + (uint64_t)_i;
	ck_assert_int_eq(heap_pool_open(&pool), 0);
	for (int i = 0; i < N_IMAGES; i++)
		open_pair(&pairs[i], pool);
	for (uint64_t id = 1; id < 8000; id++) {
		uint64_t i = random_below(N_IMAGES), from = random_below(N_IMAGES);
		if (random_below(500) || i == from) {
			step(&pairs[i], shape, id);
			continue;
		}
		close_pair(&pairs[i]);
		open_pair(&pairs[i], pool);
		ck_assert_int_eq(live_blocks_fork(&pairs[i].live, &pairs[from].live), 0);
		heap_fork(&pairs[i].oracle, &pairs[from].oracle);
		for (pairs[i].n = 0; pairs[i].n < pairs[from].n; pairs[i].n++)
			pairs[i].addresses[pairs[i].n] = pairs[from].addresses[pairs[i].n];
		check_walks(&pairs[from], 0);
	}
	for (int i = 0; i < N_IMAGES; i++) {
		check_walks(&pairs[i], (UINT64_C(1) << 39) + random_below(8000));
		close_pair(&pairs[i]);
	}
	heap_pool_close(pool);
}
END_TEST

/* Blocks that lie apart go to the tree when that is smaller. */
START_TEST(blocks_far_apart_answer_as_well)
{
	static const struct shape shape = { UINT64_C(1) << 30, 64, 1000, 1000, 20000 };
	struct heap_pool *pool;
	struct pair pair;

	random_state = 7;
	ck_assert_int_eq(heap_pool_open(&pool), 0);
	open_pair(&pair, pool);
	for (uint64_t id = 1; id < 180000; id++)
		try_insert(&pair, &shape, id);
	ck_assert_uint_gt(pair.live.tree.n_blocks, 50000);
	for (uint64_t id = 180000; id < 300000; id++)
		step(&pair, &shape, id);
	check_walks(&pair, 0);
	close_pair(&pair);
	heap_pool_close(pool);
}
END_TEST

static uint64_t dense(uint64_t i)
{
	return 4096 + i * 32;
}

static uint64_t shuffled(uint64_t i)
{
	return 4096 + i * 7919 % 1000000 * 80;
}

static uint64_t scattered(uint64_t i)
{
	return (i * UINT64_C(0x9e3779b97f4a7c15) >> 24) * 32;
}

START_TEST(a_live_block_takes_at_most_64_bytes)
{
	static uint64_t (*const orders[])(uint64_t) = { dense, shuffled, scattered };
	const uint64_t n = 1000000;
	struct heap_pool *pool;
	struct live_blocks live;
	size_t most = 0;

	ck_assert_int_eq(heap_pool_open(&pool), 0);
	live_blocks_init(&live, pool);
	for (uint64_t i = 0; i < n; i++) {
		struct heap_block block = { .address = orders[_i](i), .size = 16, .id = i + 1 };
		check_equal(live_blocks_insert(&live, &block), 0);
		size_t bytes = heap_pool_bytes(pool) + block_pages_bytes(&live.pages);
		most = bytes > most ? bytes : most;
	}
	ck_assert_uint_le(most,
			  64 * n + (10u << 20)); /* pages that lie apart, until they are many */
	live_blocks_finish(&live);
	heap_pool_close(pool);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("blocks");
	TCase *tcase = tcase_create("blocks");

	tcase_add_loop_test(tcase, pages_and_a_tree_answer_like_one_tree, 0, 48);
	tcase_add_loop_test(tcase, forked_images_change_apart, 0, 24);
	tcase_add_test(tcase, blocks_far_apart_answer_as_well);
	tcase_add_loop_test(tcase, a_live_block_takes_at_most_64_bytes, 0, 3);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
