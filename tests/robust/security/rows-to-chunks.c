/* rows-to-chunks X.db: make the chunks of a plain database anew from its rows. */
#include "store/database.h"
#include "tests/unit/analyze/fixtures/chunk-rows.h"

int main(int argc, char **argv)
{
	auto_db struct db *db = NULL;

	if (argc != 2 || db_begin(argv[1], DB_ADD, &db) < 0)
		return 2;
	return chunk_rows(db) < 0 || db_commit(db) < 0;
}
