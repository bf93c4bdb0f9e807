/*
 * Fills a database in memory, and stands amid a statement. Prints how many pieces of memory SQLite
 * itself counts then, and those that end with the statement; ends without giving any back.
 */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>

static int count(void)
{
	int n = 0, most = 0;

	sqlite3_status(SQLITE_STATUS_MALLOC_COUNT, &n, &most, 0);
	return n;
}

int main(void)
{
	sqlite3 *database = NULL, *other = NULL;
	sqlite3_stmt *statement = NULL;

	sqlite3_open(":memory:", &database);
	sqlite3_open(":memory:", &other);
	sqlite3_exec(
		database,
		"CREATE TABLE t (a, b TEXT); CREATE INDEX i ON t (b);"
		"WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000)"
		"INSERT INTO t SELECT n, printf('%d text', n * n) FROM c",
		NULL, NULL, NULL);
	sqlite3_exec(other, "CREATE TABLE u (a); SELECT group_concat(name) FROM sqlite_schema",
		     NULL, NULL, NULL);
	sqlite3_prepare_v2(database, "SELECT group_concat(b) FROM t WHERE a % 7 = ?", -1,
			   &statement, NULL);
	sqlite3_bind_int(statement, 1, 3);
	sqlite3_step(statement);
	printf("%d\n", count());
	fflush(stdout);
	raise(SIGKILL);
}
