#pragma once
/*
 * A thread that does jobs, one at a time, while its owner goes on: the database's half of an import
 * runs on another processor. SQLite's own mutex keeps the owner's statements and the thread's
 * apart.
 */

struct db_writer;

/* What was given away, until it has been done. */
struct db_job {
	int (*work)(void *context); /* 0 or a negative errno */
	void *context;
	int result; /* what work returned */
	int is_going; /* private */
};

/* Start the thread. It takes no signals. Returns 0 or a negative errno. */
int db_writer_open(struct db_writer **ret_writer);

/* Do what was given, and end the thread. Accepts NULL, returns NULL. */
struct db_writer *db_writer_close(struct db_writer *writer);

/* Give a job away, after those before it have been taken. It must stay until db_writer_wait(). */
void db_writer_give(struct db_writer *writer, struct db_job *job);

/* Wait until the job has been done; at once for one that was never given. */
void db_writer_wait(struct db_writer *writer, struct db_job *job);

/*
 * Wait for what was given; the first error that a job had since this was asked last, or 0. Others
 * may follow from it.
 */
int db_writer_take_error(struct db_writer *writer);
