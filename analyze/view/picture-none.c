/* Until analyze/picture.c is there: no database has pictures. */
#include "analyze/picture.h"

#include <errno.h>

#define UNTIL __attribute__((weak))

UNTIL int picture_store_open(sqlite3 *db, struct picture_store **ret_store)
{
	(void)db;
	(void)ret_store;
	return -ENODATA;
}

UNTIL struct picture_store *picture_store_close(struct picture_store *store)
{
	(void)store;
	return NULL;
}

UNTIL int picture_bands(struct picture_store *store, int64_t run_id, int64_t process_id,
			const struct picture_band **ret_bands, size_t *ret_n)
{
	(void)store;
	(void)run_id;
	(void)process_id;
	(void)ret_bands;
	(void)ret_n;
	return -ENOENT;
}

UNTIL int picture_make(struct picture_store *store, const struct picture_request *request,
		       struct picture **ret_picture)
{
	(void)store;
	(void)request;
	(void)ret_picture;
	return -ENOENT;
}

UNTIL struct picture *picture_free(struct picture *picture)
{
	(void)picture;
	return NULL;
}
