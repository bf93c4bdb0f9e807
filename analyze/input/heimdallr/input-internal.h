#pragma once
/* What heimdallr.c and definitions.c share. */
#include "analyze/input/heimdallr/access-dat.h"
#include "analyze/input/heimdallr/exit-frees.h"
#include "analyze/input/heimdallr/folder.h"
#include "analyze/input/heimdallr/stacks.h"
#include "analyze/input/record-list.h"
#include "analyze/input/run-discovery.h"

/* A log, what was read of it and not given yet, and its stacks. */
struct heimdallr_thread {
	struct heimdallr_log *log;
	struct heimdallr_stacks stacks;
	struct trace_event *events;
	size_t n; /* read */
	size_t n_given;
	bool is_over;
};

struct heimdallr {
	struct heimdallr_folder folder;
	struct result name; /* PROGRAM.MODE.N of the folder's name */
	struct heimdallr_segments *segments;
	struct heimdallr_access *access; /* NULL: none */
	bool is_bad_access; /* access.dat is there and cannot be read */
	struct heimdallr_thread *threads; /* of each log */
	size_t n_batch; /* events of each that are read at once */
	struct heimdallr_exit *exits; /* of each process */
	struct record_list records;
	struct trace_file_header header;
	struct trace_damage damage;
	struct trace_commit commit;
	uint64_t start_ns; /* of the first line */
	uint64_t last_ns;
	char *program; /* path of the executable, as far as cmd.log tells */
	unsigned stage; /* of what is given next */
	size_t at; /* thread whose turn it is */
	bool has_given_nodes;
};

/* The records that stand at the begin, and those of the end. Return 0 or -ENOMEM. */
int heimdallr_begin_records(struct heimdallr *heimdallr);
int heimdallr_end_records(struct heimdallr *heimdallr);

/* The path of the program in a command of Heimdallr's; allocated, "" when it cannot be told. */
char *heimdallr_program(const char *command, const char *name);
