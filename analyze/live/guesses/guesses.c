#include "analyze/live/guesses/guesses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/guesses/guess-model.h"
#include "common/array.h"
#include "common/hash-map.h"
#include "store/database.h"
#include "store/statement.h"

#define LEAST_PROBABILITY 0.9 /* of less nothing is said */
#define LEAST_BYTES	  8u /* that a block can have for one word */

/* Kinds of blocks, by what their looks can say. KIND_NOTHING: hardly more than a size. */
enum kind_bit { KIND_NOTHING = 0, KIND_HAS_FILES = 1, KIND_HAS_BLOCKS = 2, KIND_IS_POINTED_TO = 4 };

static const char *const kind_names[GUESS_N_KINDS] = {
	[KIND_NOTHING] = "no pointers",
	[KIND_HAS_FILES] = "has addresses of files",
	[KIND_HAS_BLOCKS] = "points to blocks",
	[KIND_HAS_BLOCKS | KIND_HAS_FILES] = "points to blocks, has addresses of files",
	[KIND_IS_POINTED_TO] = "is pointed to",
	[KIND_IS_POINTED_TO | KIND_HAS_FILES] = "is pointed to, has addresses of files",
	[KIND_IS_POINTED_TO | KIND_HAS_BLOCKS] = "is pointed to, points to blocks",
	[KIND_IS_POINTED_TO | KIND_HAS_BLOCKS | KIND_HAS_FILES] =
		"is pointed to, points to blocks, has addresses of files",
};

struct looked {
	struct trace_content content;
	uint32_t process;
	uint32_t referrer; /* number of a block that points to it, from 1; 0: none is known */
	uint32_t referrer_word;
	bool is_noted; /* it is in the live set, too */
	bool is_before;
	int64_t stack_id;
	int64_t born_ns;
	uint64_t size;
};

struct guesses {
	struct looked *blocks;
	size_t n, n_allocated;
	struct key_map numbers; /* (process, address) -> number in blocks, from 1 */
	struct key_map places; /* (stack.id) -> 1 + frame.id, 1: none */
	struct guess_block *asked; /* those of the process that is at hand */
	size_t n_asked;
	sqlite3_stmt *find_frame;
};

struct guesses *guesses_create(void)
{
	return calloc(1, sizeof(struct guesses));
}

struct guesses *guesses_destroy(struct guesses *guesses)
{
	if (!guesses)
		return NULL;
	free(guesses->blocks);
	free(guesses->asked);
	key_map_finish(&guesses->numbers);
	key_map_finish(&guesses->places);
	sqlite3_finalize(guesses->find_frame);
	free(guesses);
	return NULL;
}

int guesses_add(struct guesses *guesses, const struct trace_contents *contents)
{
	const char *items = (const char *)contents + contents->head.struct_bytes;
	size_t n = contents->blocks_bytes / sizeof(struct trace_content);
	int r = grow_array_by(&guesses->blocks, guesses->n, n, &guesses->n_allocated,
			      sizeof(*guesses->blocks));

	if (contents->blocks_bytes % sizeof(struct trace_content))
		return -EBADMSG;
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct looked *looked = &guesses->blocks[guesses->n];

		*looked = (struct looked){ .process = contents->process_id };
		memcpy(&looked->content, items + i * sizeof(looked->content),
		       sizeof(looked->content));
		r = key_map_put(&guesses->numbers, looked->process, looked->content.address,
				++guesses->n);
	}
	return r;
}

/* 0: none. */
static size_t number_of(const struct guesses *guesses, uint32_t process, uint64_t address)
{
	return key_map_get(&guesses->numbers, process, address);
}

void guesses_note(struct guesses *guesses, uint32_t process, const struct heap_block *block,
		  int64_t stack_id)
{
	size_t number = number_of(guesses, process, block->address);
	struct looked *looked = number ? &guesses->blocks[number - 1] : NULL;

	/* Given back between the look and the end of the recording, and made anew as another. */
	if (!looked || looked->content.usable_bytes < block->size)
		return;
	looked->is_noted = true;
	looked->is_before = block->call == TRACE_CALL_BEFORE;
	looked->stack_id = stack_id;
	looked->born_ns = block->allocated_ns;
	looked->size = block->size;
}

/* ---- Looks ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static bool is_of_file(uint64_t word)
{
	return word >= TRACE_WORD_COUNT && !(word & TRACE_WORD_BLOCK);
}

/* A pointer to a block is what size that has. */
static uint64_t kind_of(const struct guesses *guesses, const struct looked *looked, uint64_t word)
{
	if (!(word & TRACE_WORD_BLOCK))
		return word;
	size_t number = number_of(guesses, looked->process, word & ~TRACE_WORD_BLOCK);
	return TRACE_WORD_BLOCK | (number ? guesses->blocks[number - 1].content.usable_bytes : 0);
}

/* Its size, and where which addresses of files are in it: tables of functions, names, types. */
static uint64_t files_look(const struct looked *looked)
{
	uint64_t hash = mix(1, looked->content.usable_bytes);

	for (unsigned i = 0; i < TRACE_CONTENT_WORDS; i++)
		hash = mix(hash,
			   is_of_file(looked->content.words[i]) ? looked->content.words[i] : 0);
	return hash;
}

/* Its size, what each word is, and how large a block is that it points to. */
static uint64_t words_look(const struct guesses *guesses, const struct looked *looked)
{
	uint64_t hash = mix(2, looked->content.usable_bytes);

	for (unsigned i = 0; i < TRACE_CONTENT_WORDS; i++)
		hash = mix(hash, kind_of(guesses, looked, looked->content.words[i]));
	return hash;
}

/* Who points to it, from where. */
static uint64_t referrer_look(const struct guesses *guesses, const struct looked *looked)
{
	return looked->referrer ? mix(files_look(&guesses->blocks[looked->referrer - 1]),
				      looked->referrer_word)
				: 0;
}

static void find_referrers(struct guesses *guesses)
{
	for (size_t i = 0; i < guesses->n; i++) {
		const struct looked *from = &guesses->blocks[i];

		for (unsigned k = 0; k < TRACE_CONTENT_WORDS; k++) {
			uint64_t word = from->content.words[k];
			size_t to = word & TRACE_WORD_BLOCK ? number_of(guesses, from->process,
									word & ~TRACE_WORD_BLOCK)
							    : 0;

			if (!to || guesses->blocks[to - 1].referrer)
				continue;
			guesses->blocks[to - 1].referrer = (uint32_t)i + 1;
			guesses->blocks[to - 1].referrer_word = k;
		}
	}
}

static uint64_t look_of(const struct guesses *guesses, const struct looked *looked)
{
	uint64_t words = words_look(guesses, looked);

	return looked->referrer ? mix(words, referrer_look(guesses, looked)) : words;
}

static unsigned kind_of_block(const struct looked *looked)
{
	unsigned kind = looked->referrer ? KIND_IS_POINTED_TO : KIND_NOTHING;

	for (unsigned i = 0; i < TRACE_CONTENT_WORDS; i++) {
		uint64_t word = looked->content.words[i];

		kind |= is_of_file(word) ? KIND_HAS_FILES : KIND_NOTHING;
		kind |= word & TRACE_WORD_BLOCK ? KIND_HAS_BLOCKS : KIND_NOTHING;
	}
	return kind;
}

/* ---- Places ---- */

/* The program's call that made a block: its code address, as a row of `frame`; 0: none. */
static int place_of(struct guesses *guesses, int64_t stack_id, uint32_t *ret_place)
{
	uint64_t place = key_map_get(&guesses->places, (uint64_t)stack_id, 0);
	int r = 0;

	if (!place) {
		statement_integer(guesses->find_frame, 1, stack_id);
		r = statement_step(guesses->find_frame);
		place = 1 + (r > 0 ? (uint64_t)sqlite3_column_int64(guesses->find_frame, 0) : 0);
		sqlite3_reset(guesses->find_frame);
		if (r >= 0)
			r = key_map_put(&guesses->places, (uint64_t)stack_id, 0, place);
	}
	*ret_place = (uint32_t)(place - 1);
	return r < 0 ? r : 0;
}

/* Of one process: those that both the heap and the live set know. */
static int take_process(struct guesses *guesses, uint32_t process)
{
	int r = 0;

	guesses->n_asked = 0;
	for (size_t i = 0; r == 0 && i < guesses->n; i++) {
		const struct looked *looked = &guesses->blocks[i];
		struct guess_block block = { .is_known = !looked->is_before, .number = i };

		if (looked->process != process || !looked->is_noted ||
		    looked->content.usable_bytes < LEAST_BYTES)
			continue;
		block.born_ns = looked->born_ns;
		block.look = look_of(guesses, looked);
		block.kind = kind_of_block(looked);
		if (block.is_known)
			r = place_of(guesses, looked->stack_id, &block.place);
		if (!block.is_known || block.place)
			guesses->asked[guesses->n_asked++] = block;
	}
	return r;
}

/* ---- Rows ---- */

/* Of these alone a guess is told. */
static double probability_of(const struct guess_kind *kinds, unsigned kind)
{
	return kind != KIND_NOTHING && kinds[kind].probability >= LEAST_PROBABILITY
		       ? kinds[kind].probability
		       : 0;
}

static int write_test(struct db *db, int64_t run_id, int64_t process,
		      const struct guess_kind *kinds)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < GUESS_N_KINDS; i++) {
		const struct guess_kind *kind = &kinds[i];

		if (kind->n_asked)
			r = db_run(
				db,
				"INSERT INTO probable_test(run_id, process_id, kind, probability,"
				" guessed_blocks, right_blocks, n_calls, withheld_blocks,"
				" taken_blocks, before_blocks, new_blocks, alike_blocks)"
				" VALUES(?1, ?2, ?3, nullif(?4, 0), ?5, ?6, ?7, ?8, ?9, ?10,"
				" ?11, ?12)",
				"nntrnnnnnnnn", run_id, process, kind_names[i],
				probability_of(kinds, i), (int64_t)kind->n_guessed,
				(int64_t)kind->n_right, (int64_t)kind->n_places,
				(int64_t)kind->n_withheld, (int64_t)kind->n_taken,
				(int64_t)kind->n_asked, (int64_t)kind->n_new,
				(int64_t)kind->n_named);
	}
	return r;
}

static int write_process(const struct guesses *guesses, struct db *db, int64_t run_id,
			 int64_t process, const struct guess_kind *kinds)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < guesses->n_asked; i++) {
		const struct guess_block *block = &guesses->asked[i];
		const struct looked *looked = &guesses->blocks[block->number];
		double probability = probability_of(kinds, block->kind);

		if (block->is_known || !block->place || probability == 0)
			continue;
		r = db_run(db,
			   "INSERT OR REPLACE INTO probable_site(run_id, process_id, address, size,"
			   " frame_id, probability) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
			   "nnnnnr", run_id, process, (int64_t)looked->content.address,
			   (int64_t)looked->size, (int64_t)block->place, probability);
	}
	return r;
}

static int guess_process(struct guesses *guesses, struct db *db, int64_t run_id, uint32_t process,
			 int64_t row)
{
	struct guess_kind kinds[GUESS_N_KINDS];
	int r = take_process(guesses, process);

	r = r ?: guess_places(guesses->asked, guesses->n_asked, kinds);
	r = r ?: write_test(db, run_id, row, kinds);
	return r < 0 ? r : write_process(guesses, db, run_id, row, kinds);
}

int guesses_write(struct guesses *guesses, struct db *db, int64_t run_id, const struct tasks *tasks)
{
	uint32_t last = 0;

	if (guesses->n == 0)
		return 0;
	guesses->asked = calloc(guesses->n, sizeof(*guesses->asked));
	if (!guesses->asked)
		return -ENOMEM;
	int r = statement_prepare(db_handle(db),
				  "SELECT coalesce(user.frame_id, stack.frame_id) FROM stack"
				  " LEFT JOIN stack AS user ON user.id = stack.user_id"
				  " WHERE stack.id = ?1",
				  &guesses->find_frame);
	if (r == 0)
		find_referrers(guesses);
	for (size_t i = 0; r == 0 && i < guesses->n; i++) {
		uint32_t process = guesses->blocks[i].process;
		const struct task_process *task = tasks_process(tasks, process);

		if (process == last || !task)
			continue;
		last = process;
		r = guess_process(guesses, db, run_id, process, task->row);
	}
	return r;
}
