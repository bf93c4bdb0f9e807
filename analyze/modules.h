#pragma once
/* The files that each process image has loaded, over time: rows of `module`, and pc -> module. */
#include <stdint.h>

#include "analyze/live.h"
#include "schemas/trace-format.h"

struct import;

/* A module was loaded or unloaded (MODULE, MODULE_UNLOAD), in time order. 0 or a negative errno. */
int modules_load(struct import *import, struct live_process *process,
		 const struct trace_module *record, int64_t time_ns);
int modules_unload(struct import *import, struct live_process *process,
		   const struct trace_module *record, int64_t time_ns);

/* child starts with the modules of its parent. 0 or -ENOMEM. */
int modules_fork(struct import *import, struct live_process *child, struct live_process *parent);

/* The image ended: forget its modules (process->modules becomes NULL). */
void modules_finish(struct live_process *process);
