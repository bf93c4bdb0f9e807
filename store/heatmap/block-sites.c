#include "store/heatmap/block-sites.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/hash-map.h"
#include "common/io.h"
#include "store/database-internal.h"
#include "store/statement.h"
#include "store/touch.h"

#define BUFFER 65536u
/* Room is made for so many ids for each block that was met: more is damage. */
#define IDS_OF_BLOCK 64u
#define LEAST_BLOCKS 1024u

struct picture_sites {
	struct db *db;
	int fd;
	int64_t first_id;
	uint64_t n; /* of ids from first_id on, that were written or wait */
	uint64_t n_met;
	uint32_t *waiting; /* BUFFER */
	size_t n_waiting;
	const uint32_t *sites; /* n, mapped: 1 + stack.id; 0: no block */
	struct key_map named; /* of object_name.id: allocation.id */
};

struct picture_sites *picture_sites_close(struct picture_sites *sites)
{
	if (!sites)
		return NULL;
	if (sites->sites)
		munmap((void *)sites->sites, sites->n * sizeof(*sites->sites));
	if (sites->fd >= 0)
		close(sites->fd);
	free(sites->waiting);
	key_map_finish(&sites->named);
	free(sites);
	return NULL;
}

/* Beside the database; where that cannot be written, where temporary files are. */
static int open_file(const struct db *db)
{
	const char *slash = db->path ? strrchr(db->path, '/') : NULL;
	const char *temporary = getenv("TMPDIR");
	auto_free char *folder = slash ? strndup(db->path, (size_t)(slash - db->path) + 1) : NULL;
	int fd = io_open_unnamed(folder ? folder : ".");

	return fd >= 0 ? fd : io_open_unnamed(temporary && *temporary ? temporary : "/tmp");
}

int picture_sites_open(struct db *db, struct picture_sites **ret_sites)
{
	struct picture_sites *sites = calloc(1, sizeof(*sites));

	if (!sites)
		return -ENOMEM;
	sites->db = db;
	sites->waiting = malloc(BUFFER * sizeof(*sites->waiting));
	sites->fd = open_file(db);
	if (sites->fd < 0 || !sites->waiting) {
		int r = sites->fd < 0 ? sites->fd : -ENOMEM;
		picture_sites_close(sites);
		return r;
	}
	*ret_sites = sites;
	return 0;
}

static int flush(struct picture_sites *sites)
{
	int r = io_write_all(sites->fd, sites->waiting, sites->n_waiting * sizeof(*sites->waiting));

	sites->n_waiting = 0;
	return r;
}

static int append(struct picture_sites *sites, uint32_t site)
{
	sites->waiting[sites->n_waiting++] = site;
	sites->n++;
	return sites->n_waiting == BUFFER ? flush(sites) : 0;
}

int picture_sites_add(struct picture_sites *sites, const struct picture_row_block *block)
{
	int r = 0;

	if (sites->n == 0)
		sites->first_id = block->id;
	uint64_t place = (uint64_t)block->id - (uint64_t)sites->first_id;
	uint64_t limit = (++sites->n_met + LEAST_BLOCKS) * IDS_OF_BLOCK;
	if (place < sites->n || place >= limit)
		return 0;
	while (sites->n < place && r == 0)
		r = append(sites, 0);
	bool fits = block->stack_id >= 0 && block->stack_id < UINT32_MAX;
	return r < 0 ? r : append(sites, fits ? (uint32_t)block->stack_id + 1 : 1);
}

static int read_named(struct picture_sites *sites)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(sites->db),
				  "SELECT id, allocation_id FROM object_name"
				  " WHERE allocation_id IS NOT NULL",
				  &row);

	while (r >= 0 && (r = statement_step(row)) > 0) {
		int put = key_map_put(&sites->named, (uint64_t)sqlite3_column_int64(row, 0), 0,
				      (uint64_t)sqlite3_column_int64(row, 1));
		if (put < 0)
			return put;
	}
	return r;
}

int picture_sites_settle(struct picture_sites *sites)
{
	int r = flush(sites);

	if (r == 0)
		r = read_named(sites);
	if (r < 0 || sites->n == 0)
		return r;
	void *map =
		mmap(NULL, sites->n * sizeof(*sites->sites), PROT_READ, MAP_SHARED, sites->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	sites->sites = map;
	return 0;
}

int64_t picture_sites_of(const struct picture_sites *sites, const struct picture_row_touch *touch)
{
	int64_t id = touch->owner_kind == OWNER_heap ? touch->owner_id : 0;

	if (touch->owner_kind == OWNER_named)
		id = (int64_t)key_map_get(&sites->named, (uint64_t)touch->owner_id, 0);
	uint64_t place = (uint64_t)id - (uint64_t)sites->first_id;
	return id && sites->sites && place < sites->n ? (int64_t)sites->sites[place] - 1 : -1;
}
