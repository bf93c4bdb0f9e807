#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "schemas/trace-format.h"
#include "store/compact/compact.h"
#include "store/database-internal.h"
#include "store/schema.h"
#include "store/statement.h"
#include "trace/names.h"

/* Nobody sees a new database before it is whole, so it needs no journal and no syncs on the way. */
static const char new_pragmas[] = "PRAGMA page_size = 8192;"
				  "PRAGMA journal_mode = OFF;"
				  "PRAGMA synchronous = OFF;"
				  "PRAGMA locking_mode = EXCLUSIVE;";
static const char write_pragmas[] = "PRAGMA cache_size = -65536;"
				    "PRAGMA temp_store = FILE;"
				    "PRAGMA foreign_keys = OFF;"
				    "PRAGMA threads = 1;";

static const struct {
	int number;
	const char *name;
	const char *meaning;
} owners[] = {
#define OWNER(owner, owner_number, text) { owner_number, #owner, text },
#include "schemas/owner.def"
#undef OWNER
};

/* The names of numbers, as this version knows them. */
static int write_names(struct db *db)
{
	int r = 0;

	for (int i = 0; i < TRACE_CALL_COUNT && r == 0; i++)
		r = db_run(db, "INSERT OR REPLACE INTO call(id, name) VALUES(?1, ?2)", "it",
			   (int64_t)i, trace_call_name((unsigned)i));
	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]) && r == 0; i++)
		r = db_run(db, "INSERT OR REPLACE INTO owner(id, name, meaning) VALUES(?1, ?2, ?3)",
			   "itt", (int64_t)owners[i].number, owners[i].name, owners[i].meaning);
	return r;
}

/* Say in the file that it is a database of ours. */
static int sign(struct db *db)
{
	auto_free char *pragmas = NULL;

	if (asprintf(&pragmas, "PRAGMA user_version = %d; PRAGMA application_id = %d", DB_VERSION,
		     DB_APPLICATION_ID) < 0)
		return -ENOMEM;
	return db_exec(db, pragmas);
}

static int make_tables(struct db *db, bool is_compact)
{
	return sign(db) ?: db_exec(db, db_schema) ?: compact_make(db, is_compact);
}

static int begin(struct db *db)
{
	int r = db_exec(db, write_pragmas) ?: db_exec(db, "BEGIN IMMEDIATE");
	db->is_writing = r == 0;
	return r;
}

/* Add to a database that is there. */
static int begin_existing(struct db *db)
{
	int r = db_connect(db, db->path, SQLITE_OPEN_READWRITE) ?: db_check(db);
	r = r ?: begin(db);
	return r < 0 ? r : write_names(db);
}

/* Whether the file that was locked is still the one with this name. */
static bool is_still(const char *path, int fd)
{
	struct stat by_name, by_fd;

	return stat(path, &by_name) == 0 && fstat(fd, &by_fd) == 0 &&
	       by_name.st_dev == by_fd.st_dev && by_name.st_ino == by_fd.st_ino;
}

/*
 * Take the temporary name. It is always the same one, so that a killed writer leaves at most one
 * file, which the next writer takes over; the lock tells a living writer from a dead one.
 */
static int lock_temporary(struct db *db)
{
	if (asprintf(&db->temporary, "%s.partial", db->path) < 0) {
		db->temporary = NULL;
		return -ENOMEM;
	}
	auto_close int fd = open(db->temporary, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : 0;
	if (r == 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (r == 0 && !is_still(db->temporary, fd))
		r = -EBUSY;
	if (r == 0 && ftruncate(fd, 0) < 0) {
		r = -errno;
		unlink(db->temporary); /* ours by the lock */
	}
	if (r < 0) {
		free(steal_ptr(&db->temporary)); /* it is not ours to remove */
		return r;
	}
	db->lock_fd = steal_fd(&fd);
	return 0;
}

static int begin_new(struct db *db, bool is_compact)
{
	int r = lock_temporary(db);
	r = r ?: db_connect(db, db->temporary, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
	r = r ?: db_exec(db, new_pragmas);
	r = r ?: begin(db);
	r = r ?: make_tables(db, is_compact);
	return r < 0 ? r : write_names(db);
}

int db_begin(const char *path, unsigned mode, struct db **ret_db)
{
	struct stat st;
	bool is_there = stat(path, &st) == 0;

	if (!is_there && errno != ENOENT)
		return -errno;
	if (is_there && S_ISDIR(st.st_mode))
		return -EISDIR;

	auto_db struct db *db = db_new(path);
	if (!db)
		return -ENOMEM;
	db->replaces = is_there;
	bool adds = is_there && !(mode & DB_REPLACE) && st.st_size > 0;
	int r = adds ? begin_existing(db) : begin_new(db, mode & DB_COMPACT);
	if (r < 0)
		return r;
	*ret_db = steal_ptr(&db);
	return 0;
}

/* The bits of a trace's mode that a file of this owner and group may have. */
static mode_t mode_like(const struct stat *trace, const struct stat *mine)
{
	mode_t mode = trace->st_mode & 0666;

	if (mine->st_gid != trace->st_gid)
		mode &= ~(mode_t)0060; /* not the group that may read the trace */
	return mode | 0600;
}

int db_protect(struct db *db, const struct stat *trace)
{
	const char *path = db->temporary ? db->temporary : db->path;
	bool is_first = db->temporary && !db->is_protected;
	struct stat mine;

	/* What root makes of a user's trace is the user's. */
	if (is_first && fchown(db->lock_fd, trace->st_uid, trace->st_gid) < 0 && errno != EPERM)
		return -errno;
	/* By name: to close a file descriptor of a database would give up SQLite's locks on it. */
	if (stat(path, &mine) < 0)
		return -errno;

	mode_t mode = mode_like(trace, &mine);
	if (!is_first)
		mode &= mine.st_mode;
	if (mode != (mine.st_mode & 07777) && chmod(path, mode) < 0)
		return -errno;
	db->is_protected = true;
	return 0;
}

/* Give the finished file its name. */
static int publish(struct db *db)
{
	db_forget_last(db);
	if (sqlite3_close(db->handle) != SQLITE_OK)
		return -EBUSY;
	db->handle = NULL;
	if (fdatasync(db->lock_fd) < 0)
		return -errno;
	int r = new_file_publish(db->temporary, db->path, db->replaces);
	if (r < 0)
		return r;
	free(steal_ptr(&db->temporary));
	return 0;
}

int db_make_views(struct db *db)
{
	return db_exec(db, db_views);
}

int db_commit(struct db *db)
{
	int r = statement_kept(db->handle);
	if (r == 0 && !compact_is_database(db->handle))
		r = db_exec(db, db_indexes);
	r = r ?: db_exec(db, db_views);
	r = r ?: db_exec(db, "COMMIT");
	if (r < 0)
		return r;
	db->is_writing = false;
	return db->temporary ? publish(db) : 0;
}
