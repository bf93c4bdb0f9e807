#include "tests/analyze/picture-world.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/analyze/memory-db.h"

static const uint64_t bases[] = { 0x1000,	  0x555580000000,     0x7f1200000000,
				  0x7ffffff00000, 0xffff888000000000, UINT64_MAX - 0x10400000 };
static const int64_t words[] = { 0, 5, 6, 7 };

static int64_t time_of(struct picture_world *world)
{
	int64_t duration_ns = world->shape.duration_ns;

	if (duration_ns == 0)
		return 0;
	/* A third of all in one part in a thousand of the time. */
	int64_t span =
		picture_world_below(world, 3) == 0 ? duration_ns / 1000 + 1 : duration_ns + 1;
	return (int64_t)(trace_random_bits(&world->random) % (uint64_t)span);
}

static uint64_t address_of(struct picture_world *world)
{
	return bases[picture_world_below(world, 6)] +
	       picture_world_below(world, 1u << picture_world_below(world, 25)) * 16ull;
}

static int64_t end_of_process(const struct picture_world *world, int64_t process)
{
	return process == 2 ? world->shape.duration_ns / 2 : world->shape.duration_ns;
}

static int by_birth(const void *a, const void *b)
{
	const struct row_block *left = a, *right = b;

	return left->birth_ns < right->birth_ns ? -1 : left->birth_ns > right->birth_ns;
}

static void make_block(struct picture_world *world, struct row_block *block)
{
	*block = (struct row_block){
		.process = 1 + picture_world_below(world, (uint32_t)world->shape.n_processes),
		.birth_ns = time_of(world),
		.address = address_of(world),
		.size = picture_world_below(world, 1u << picture_world_below(world, 21)),
		.site = 100 + picture_world_below(world, 5),
		.is_freed = picture_world_below(world, 8) > 0,
	};
	int64_t most = world->shape.duration_ns >> picture_world_below(world, 30);
	int64_t life_ns = (int64_t)(trace_random_bits(&world->random) % ((uint64_t)most + 1));
	block->end_ns = block->birth_ns + life_ns;
	if (block->end_ns > world->shape.duration_ns)
		block->end_ns = world->shape.duration_ns;
}

void picture_world_exec(struct picture_world *world, const char *sql)
{
	ck_assert_msg(sqlite3_exec(world->handle, sql, NULL, NULL, NULL) == SQLITE_OK, "%s",
		      sqlite3_errmsg(world->handle));
}

static void bind_all(sqlite3_stmt *statement, const int64_t *values, int n)
{
	for (int i = 0; i < n; i++) {
		if (values[i] == INT64_MIN)
			sqlite3_bind_null(statement, i + 1);
		else
			sqlite3_bind_int64(statement, i + 1, values[i]);
	}
	ck_assert_int_eq(sqlite3_step(statement), SQLITE_DONE);
	sqlite3_reset(statement);
}

sqlite3_stmt *picture_world_prepare(struct picture_world *world, const char *sql)
{
	sqlite3_stmt *statement;

	ck_assert_msg(sqlite3_prepare_v2(world->handle, sql, -1, &statement, NULL) == SQLITE_OK,
		      "%s", sqlite3_errmsg(world->handle));
	return statement;
}

static void insert_blocks(struct picture_world *world)
{
	sqlite3_stmt *insert = picture_world_prepare(
		world,
		"INSERT INTO allocation(id, run_id, process_id, thread_id, address, size,"
		" birth_ns, death_ns, stack_id, call, death) VALUES(?, 1, ?, 1, ?, ?, ?, ?, ?, 1, 0)");

	for (size_t i = 0; i < world->shape.n_blocks; i++)
		make_block(world, &world->blocks[i]);
	qsort(world->blocks, world->shape.n_blocks, sizeof(*world->blocks), by_birth);
	for (size_t i = 0; i < world->shape.n_blocks; i++) {
		struct row_block *block = &world->blocks[i];
		block->id = (int64_t)i + 1000;
		bind_all(insert,
			 (int64_t[]){ block->id, block->process, (int64_t)block->address,
				      (int64_t)block->size, block->birth_ns,
				      block->is_freed ? block->end_ns : INT64_MIN, block->site },
			 7);
		if (!block->is_freed)
			block->end_ns = end_of_process(world, block->process);
		if (block->end_ns <= block->birth_ns)
			block->end_ns = block->birth_ns + 1;
		if (block->size == 0)
			block->size = 1;
	}
	sqlite3_finalize(insert);
}

static void make_touch(struct picture_world *world, struct row_touch *touch, size_t i)
{
	uint32_t word = picture_world_below(world, 4);

	*touch = (struct row_touch){
		.sample = (int64_t)i + 7,
		.process = 1 + picture_world_below(world, (uint32_t)world->shape.n_processes),
		.thread = picture_world_below(world, 20),
		.source = 1 + picture_world_below(world, 3),
		.time_ns = time_of(world),
		.level = words[word],
		.latency =
			picture_world_below(world, 2)
				? picture_world_below(world, 1u << picture_world_below(world, 22))
				: 0,
		.address = address_of(world),
		.is_write = (int)picture_world_below(world, 3) - 1,
	};
	/* Half of them where a block is. */
	if (world->shape.n_blocks > 0 && picture_world_below(world, 2)) {
		const struct row_block *block =
			&world->blocks[picture_world_below(world, (uint32_t)world->shape.n_blocks)];
		touch->address = block->address + picture_world_below(world, (uint32_t)block->size);
		touch->process = block->process;
	}
}

static void insert_touches(struct picture_world *world)
{
	sqlite3_stmt *sample = picture_world_prepare(
		world, "INSERT INTO sample(id, run_id, source_id, process_id, thread_id,"
		       " time_ns, weight, is_kernel) VALUES(?, 1, ?, ?, ?, ?, 1, 0)");
	sqlite3_stmt *touch = picture_world_prepare(
		world,
		"INSERT INTO touch(sample_id, run_id, role, share, address, is_write,"
		" owner_kind, phase, data_src) SELECT ?1, 1, source_id = 1, 1, ?2, ?3, 13, 0,"
		" ?4 FROM sample WHERE id = ?1");
	sqlite3_stmt *detail = picture_world_prepare(
		world, "INSERT INTO access_detail(sample_id, run_id, latency) VALUES(?, 1, ?)");

	for (size_t i = 0; i < world->shape.n_touches; i++) {
		struct row_touch *row = &world->touches[i];
		make_touch(world, row, i);
		bind_all(sample,
			 (int64_t[]){ row->sample, row->source, row->process,
				      row->thread ? row->thread : INT64_MIN, row->time_ns },
			 5);
		bind_all(touch,
			 (int64_t[]){ row->sample, (int64_t)row->address,
				      row->is_write < 0 ? INT64_MIN : row->is_write,
				      row->level ? row->level : INT64_MIN },
			 4);
		if (i % 50 == 0) /* not resolved */
			bind_all(touch, (int64_t[]){ row->sample, INT64_MIN, INT64_MIN, INT64_MIN },
				 4);
		if (row->latency)
			bind_all(detail, (int64_t[]){ row->sample, row->latency }, 2);
	}
	sqlite3_finalize(sample);
	sqlite3_finalize(touch);
	sqlite3_finalize(detail);
}

static void insert_run(struct picture_world *world)
{
	char text[1600];

	snprintf(
		text, sizeof(text),
		"INSERT INTO run(id, program, mode, repetition, command, directory, trace,"
		" recording_id, start_unix_ns, duration_ns, clock_error_ns, ended_cleanly,"
		" committed_ns) VALUES (1,'a','default',1,'a','/','a.mst','00',0,%lld,0,1,0);"
		"INSERT INTO timeline VALUES (1,0,%lld,0,0,0,0,0,0);"
		"INSERT INTO data_source(data_src, level) VALUES (5,'L1'), (6,'RAM'), (7,NULL);"
		"INSERT INTO source(id, run_id, number, name, unit, exclude_kernel, error) VALUES"
		" (1,1,1,'clock','ns',0,0), (2,1,2,'faults','f',0,0), (3,1,3,'loads','l',0,0);"
		"INSERT INTO process(id, run_id, number, pid, ns_pid, exec_seq, birth, exe, command,"
		" traced, start_ns, end_ns) VALUES (1,1,1,10,10,0,'exec','/a','a',1,0,NULL),"
		" (2,1,2,11,11,0,'exec','/a','a',1,0,%lld), (3,1,3,12,12,0,'exec','/a','a',1,0,NULL);"
		"INSERT INTO module(run_id, process_id, path, bias, start, end, load_ns) VALUES"
		" (1,1,'/a',0,%lld,%lld,0);"
		"INSERT INTO mapping(run_id, process_id, address, size, birth_ns, prot, flags, path,"
		" is_nested) VALUES (1,1,%lld,65536,0,3,2,'/data',0), (1,1,%lld,99999,0,3,2,'/late',0);",
		(long long)world->shape.duration_ns, (long long)world->shape.duration_ns / 900 + 1,
		(long long)end_of_process(world, 2), (long long)bases[1],
		(long long)bases[1] + 40960, (long long)bases[2] + 5000,
		(long long)bases[2] + 9000);
	picture_world_exec(world, text);
}

struct picture_world *picture_world_make_in(const struct shape *shape, sqlite3 *handle)
{
	struct picture_world *world = calloc(1, sizeof(*world));

	ck_assert_ptr_nonnull(world);
	world->shape = *shape;
	world->random = (struct trace_random){ shape->seed };
	world->handle = handle;
	world->db = (struct db){ .handle = world->handle, .lock_fd = -1 };
	world->blocks = calloc(shape->n_blocks + 1, sizeof(*world->blocks));
	world->touches = calloc(shape->n_touches + 1, sizeof(*world->touches));
	insert_run(world);
	insert_blocks(world);
	insert_touches(world);
	return world;
}

struct picture_world *picture_world_make(const struct shape *shape)
{
	sqlite3 *handle = memory_db_open();

	sqlite3_exec(handle, "BEGIN", NULL, NULL, NULL);
	struct picture_world *world = picture_world_make_in(shape, handle);
	picture_world_exec(world, "COMMIT");
	return world;
}

void picture_world_free(struct picture_world *world)
{
	free(world->blocks);
	free(world->touches);
	free(world);
}

void picture_world_end(struct picture_world *world)
{
	sqlite3_close(world->handle);
	picture_world_free(world);
}
