#include "analyze/live/block-tree.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/support/suite.h"

/* A naive live set: an array of blocks, searched from end to end. */
#define MAX_BLOCKS 3000
struct model {
	struct heap_block blocks[MAX_BLOCKS];
	size_t n;
};

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

static bool overlaps(const struct heap_block *block, uint64_t address, uint64_t size)
{
	if (block->address <= address)
		return block->address == address || address - block->address < block->size;
	return block->address - address < size;
}

static struct heap_block *model_overlap(struct model *model, uint64_t address, uint64_t size)
{
	struct heap_block *lowest = NULL;

	for (size_t i = 0; i < model->n; i++) {
		struct heap_block *block = &model->blocks[i];
		if (overlaps(block, address, size) && (!lowest || block->address < lowest->address))
			lowest = block;
	}
	return lowest;
}

static struct heap_block *model_find(struct model *model, uint64_t address)
{
	for (size_t i = 0; i < model->n; i++) {
		struct heap_block *block = &model->blocks[i];
		if (address >= block->address && address - block->address < block->size)
			return block;
	}
	return NULL;
}

static void ck_assert_same(const struct heap_block *a, const struct heap_block *b)
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

struct walked {
	struct model *model;
	size_t n;
	uint64_t last;
};

static int check_walked(void *context, const struct heap_block *block)
{
	struct walked *walked = context;
	struct heap_block *expected = model_overlap(walked->model, block->address, 0);

	check_equal(expected != NULL, true);
	ck_assert_same(block, expected);
	check_equal(walked->n == 0 || block->address > walked->last, true);
	walked->last = block->address;
	walked->n++;
	return 0;
}

static void ck_assert_equal(const struct heap *heap, struct model *model)
{
	struct walked walked = { .model = model };

	ck_assert_int_eq(heap_walk(heap, 0, check_walked, &walked), 0);
	ck_assert_uint_eq(walked.n, model->n);
	ck_assert_uint_eq(heap->n_blocks, model->n);

	/* And those above some id, as at the end of a forked child. */
	size_t n_newer = 0;
	uint64_t above_id = random_below(5000);
	for (size_t i = 0; i < model->n; i++)
		n_newer += model->blocks[i].id > above_id;
	walked = (struct walked){ .model = model };
	ck_assert_int_eq(heap_walk(heap, above_id, check_walked, &walked), 0);
	ck_assert_uint_eq(walked.n, n_newer);
}

/* Sizes that matter: none, small, and those that a leaf cannot hold. */
static uint64_t random_size(void)
{
	static const uint64_t large[] = { UINT32_MAX - UINT64_C(1), UINT32_MAX,
					  UINT32_MAX + UINT64_C(1), UINT64_C(1) << 40 };

	if (random_below(50) == 0)
		return large[random_below(4)];
	return random_below(3) ? random_below(64) : 0;
}

static void try_insert(struct heap *heap, struct model *model, uint64_t space, uint64_t id)
{
	struct heap_block block = {
		.address = random_below(space) * 8 + (UINT64_C(0x7f) << 32),
		.size = random_size(),
		.allocated_ns = (int64_t)(id * 1000),
		.id = id,
		.previous_id = random_below(2) ? id - 1 : 0,
		.thread = (uint32_t)random_below(UINT32_MAX),
		.site = (uint32_t)random_below(UINT32_MAX),
		.call = (uint8_t)random_below(14),
	};
	struct heap_block found;
	struct heap_block *expected = model_overlap(model, block.address, block.size);

	check_equal(heap_overlap(heap, block.address, block.size, &found), expected != NULL);
	if (expected)
		ck_assert_same(&found, expected);
	if (model->n == MAX_BLOCKS)
		return;
	check_equal(heap_insert(heap, &block), expected ? -EEXIST : 0);
	if (!expected)
		model->blocks[model->n++] = block;
}

static void try_remove(struct heap *heap, struct model *model, uint64_t space)
{
	struct heap_block found;

	if (model->n == 0 || random_below(10) == 0) {
		uint64_t address = random_below(space) * 8 + 4;
		check_equal(heap_remove(heap, address, &found), 0);
		return;
	}
	size_t i = random_below(model->n);
	check_equal(heap_remove(heap, model->blocks[i].address, &found), 1);
	ck_assert_same(&found, &model->blocks[i]);
	model->blocks[i] = model->blocks[--model->n];
}

static void try_find(const struct heap *heap, struct model *model, uint64_t space)
{
	uint64_t address = random_below(space * 8) + (UINT64_C(0x7f) << 32);
	struct heap_block found;
	struct heap_block *expected = model_find(model, address);

	check_equal(heap_find(heap, address, &found), expected != NULL);
	if (expected)
		ck_assert_same(&found, expected);
}

START_TEST(a_heap_answers_like_a_list_of_its_blocks)
{
	struct heap_pool *pool;
	struct heap heap;
	struct model *model = calloc(1, sizeof(*model));
	uint64_t space = UINT64_C(50) << (_i % 12);

	random_state = 88172645463325252u + (uint64_t)_i;
	ck_assert_int_eq(heap_pool_open(&pool), 0);
	heap_init(&heap, pool);
	for (uint64_t id = 1; id < 4000; id++) {
		bool grows = id / 1000 % 2 == 0; /* and shrinks, to merge nodes */
		if (random_below(4) < (grows ? 3 : 1))
			try_insert(&heap, model, space, id);
		else
			try_remove(&heap, model, space);
		try_find(&heap, model, space);
	}
	ck_assert_equal(&heap, model);
	heap_finish(&heap);
	ck_assert_uint_eq(heap.n_blocks, 0);
	heap_pool_close(pool);
	free(model);
}
END_TEST

#define N_HEAPS 6

START_TEST(forked_heaps_change_apart)
{
	struct heap_pool *pool;
	struct heap heaps[N_HEAPS];
	struct model *models = calloc(N_HEAPS, sizeof(*models));

	random_state = 1181783497276652981u + (uint64_t)_i;
	ck_assert_int_eq(heap_pool_open(&pool), 0);
	for (int i = 0; i < N_HEAPS; i++)
		heap_init(&heaps[i], pool);
	for (uint64_t id = 1; id < 5000; id++) {
		uint64_t i = random_below(N_HEAPS);
		if (random_below(300) == 0) {
			uint64_t from = random_below(N_HEAPS);
			if (from == i)
				continue;
			heap_finish(&heaps[i]);
			heap_fork(&heaps[i], &heaps[from]);
			models[i] = models[from];
		} else if (random_below(3)) {
			try_insert(&heaps[i], &models[i], 2000, id);
		} else {
			try_remove(&heaps[i], &models[i], 2000);
		}
		try_find(&heaps[i], &models[i], 2000);
	}
	for (int i = 0; i < N_HEAPS; i++) {
		ck_assert_equal(&heaps[i], &models[i]);
		heap_finish(&heaps[i]);
	}
	heap_pool_close(pool);
	free(models);
}
END_TEST

static void insert_many(struct heap *heap, uint64_t n, uint64_t (*address_of)(uint64_t i))
{
	for (uint64_t i = 1; i <= n; i++) {
		struct heap_block block = { .address = address_of(i), .size = 16, .id = i };
		check_equal(heap_insert(heap, &block), 0);
	}
}

static uint64_t ascending(uint64_t i)
{
	return 4096 + i * 32;
}

static uint64_t scattered(uint64_t i)
{
	return (i * UINT64_C(0x9e3779b97f4a7c15) >> 24) * 32;
}

static uint64_t (*const orders[])(uint64_t) = { ascending, scattered };

START_TEST(a_live_block_takes_at_most_64_bytes)
{
	const uint64_t n = 1000000;
	struct heap_pool *pool;
	struct heap heap;

	ck_assert_int_eq(heap_pool_open(&pool), 0);
	heap_init(&heap, pool);
	insert_many(&heap, n, orders[_i]);
	ck_assert_uint_le(heap_pool_bytes(pool), 64 * n);
	heap_finish(&heap);
	heap_pool_close(pool);
}
END_TEST

START_TEST(a_fork_storm_takes_no_memory)
{
	struct heap_pool *pool;
	struct heap parent, children[1000];

	ck_assert_int_eq(heap_pool_open(&pool), 0);
	heap_init(&parent, pool);
	insert_many(&parent, 100000, scattered);
	size_t bytes = heap_pool_bytes(pool);
	for (int i = 0; i < 1000; i++) {
		heap_init(&children[i], pool);
		heap_fork(&children[i], &parent);
	}
	ck_assert_uint_eq(heap_pool_bytes(pool), bytes);
	for (int i = 0; i < 1000; i++)
		heap_finish(&children[i]);
	ck_assert_uint_eq(parent.n_blocks, 100000);
	heap_finish(&parent);
	heap_pool_close(pool);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("heap");
	TCase *tcase = tcase_create("heap");

	tcase_add_loop_test(tcase, a_heap_answers_like_a_list_of_its_blocks, 0, 48);
	tcase_add_loop_test(tcase, forked_heaps_change_apart, 0, 24);
	tcase_add_loop_test(tcase, a_live_block_takes_at_most_64_bytes, 0, 2);
	tcase_add_test(tcase, a_fork_storm_takes_no_memory);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
