#pragma once
/*
 * Running `memsight record` in a folder of its own and reading what it wrote, for the tests of the
 * whole program. Failures of the machinery itself end the test.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/trace-format.h"

#define RECORDED_NOBODY	       65534
#define RECORDED_MAX_PROCESSES 64
#define RECORDED_MAX_THREADS   256
#define RECORDED_MAX_LOSSES    32

struct recorded_process {
	uint32_t id;
	uint32_t parent_id;
	uint32_t pid;
	uint32_t exec_seq;
	uint16_t birth;
	uint16_t why_not;
	int32_t status; /* of its end; -99: no end in the trace */
	char exe[256];
	uint64_t n_allocs; /* of all its threads */
	uint64_t n_frees;
	uint64_t n_allocs_of_64; /* bytes */
};

struct recorded_loss {
	uint64_t count;
	char source[32];
	char reason[64];
};

/* One run: its folder, what it said, what it wrote. */
struct recorded {
	char folder[64];
	uid_t uid;
	char out[16384];
	char err[16384];
	int status; /* as from wait() */
	char trace[512]; /* path of the only trace in the folder; "" */
	int n_traces;

	struct recorded_process processes[RECORDED_MAX_PROCESSES];
	int n_processes;
	struct recorded_loss losses[RECORDED_MAX_LOSSES];
	int n_losses;
	uint64_t n_events;
	uint64_t n_perf_bytes;
	uint64_t n_secret_bytes; /* of perf records that carry registers or stack bytes */
	uint64_t n_code_bytes;
	uint64_t n_accesses; /* decoded while recording */
	uint64_t n_misordered; /* events stamped before a COMMIT that came before them */
	uint64_t n_clocks;
	uint64_t n_maps;
	uint64_t n_facts[2]; /* at the start, at the end */
	uint64_t n_memory_samples;
	uint64_t max_rss_bytes;
	int32_t exit_status; /* of the EXIT record; -99: none */
	bool is_whole; /* index and footer are there, nothing damaged */
	bool can_be_read;
	char program[64];
};

/* Make an empty folder for the user (0: our own); the run and its trace live in it. */
void recorded_init(struct recorded *recorded, uid_t uid);
void recorded_finish(struct recorded *recorded);

/*
 * Start memsight with these words (the first is the sub-command), in the folder, as the user, with
 * stdout and stderr into files there. Returns its pid.
 */
pid_t recorded_start(struct recorded *recorded, const char *const *words);

/*
 * The same for a shell script in which $MEMSIGHT is the binary and $VICTIMS the folder of victims.
 * Standard input is the file `in` in the folder, if the test has put one there.
 */
pid_t recorded_start_shell(struct recorded *recorded, const char *script);
void recorded_run_shell(struct recorded *recorded, const char *script);

/* Wait until the start line is out (at most 20 s). Returns the program's pid, as the line says. */
pid_t recorded_wait_for_start(struct recorded *recorded);

/* Write a file into the folder. */
void recorded_put(const struct recorded *recorded, const char *name, const char *text);

/* Read a file of the folder; what is not there is "". The text is valid until the next call. */
const char *recorded_get(const struct recorded *recorded, const char *name);

/* Find the trace, and read what it said so far, without waiting for its end. */
void recorded_look(struct recorded *recorded);

/* Wait for it, then read what it said and find its trace. */
void recorded_wait(struct recorded *recorded, pid_t pid);

/* Both. */
void recorded_run(struct recorded *recorded, const char *const *words);

/* Read the trace into the lower half of the struct. */
void recorded_read(struct recorded *recorded);

/* The last process whose exe ends in name, or NULL. */
struct recorded_process *recorded_process(struct recorded *recorded, const char *name);

/* Sum of the losses with that reason. */
uint64_t recorded_loss(const struct recorded *recorded, const char *reason);

/* Path of a victim. */
const char *recorded_victim(const char *name);

/* The users that each test runs as: ours, and when that is root also nobody. */
int recorded_n_users(void);
uid_t recorded_user(int i);

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
