#pragma once
/*
 * How memsight talks to its library inside a process that was not started with it: the argument of
 * memsight_1_attach(), which a thread of the process is made to call (runner/attach/). Same build
 * only, like ring.h; what is at the head of the struct stays where it is, so that a library of
 * another version can say so.
 */
#include <stdint.h>

#include "schemas/ring.h"

#define ATTACH_MAGIC	    UINT32_C(0x48435441) /* "ATCH" */
#define ATTACH_ENTRY	    "memsight_1_attach"
#define ATTACH_THUNKS	    "memsight_1_thunks" /* return addresses that stand for others */
#define ATTACH_SOCKET_BYTES 112

enum attach_step {
	/* Say hello, map the pool, look everything up. Other threads run; nothing is hooked. */
	ATTACH_BEGIN,
	/* Hook and record. All other threads stand, none in malloc or the loader. */
	ATTACH_COMMIT,
	/* Put the tables back. All other threads stand, or nothing is hooked. */
	ATTACH_UNBIND,
	/* Undo the rest. The same, and none is in us. Takes no lock. */
	ATTACH_END,
	/* Copy heads of chunks of malloc: a look at each from outside costs more. */
	ATTACH_HEADS,
	/*
	 * Which functions of the allocator can be redirected at their entries; of a library that is
	 * at work, those that are.
	 */
	ATTACH_ENTRIES,
	/*
	 * Make what jumps of functions lead to, and list these jumps, in place of those of a plan
	 * that came with the welcome (schemas/functions-plan.h); of a library that is at work, what
	 * it has. Other threads run.
	 */
	ATTACH_FUNCTIONS,
	/*
	 * Load plug-ins, where the recorder has named some (ring_control.load), behind
	 * ATTACH_COMMIT; and end them, before ATTACH_UNBIND: none is asked any more. Other threads
	 * run. They stay loaded, as some code of theirs may lie on stacks.
	 */
	ATTACH_PLUGINS,
	ATTACH_PLUGINS_END,
};

/*
 * A function whose first instructions were moved, so that a jump to us has room: also calls that go
 * through no table come to us then. Whoever enters writes and takes back, the library remembers.
 */
struct attach_entry {
	char name[24];
	uint64_t function; /* the allocator's */
	uint64_t hook; /* ours for it */
	uint64_t moved; /* its first instructions, and back to the others; 0: it is left alone */
	uint8_t before[8]; /* what stood at its entry ... */
	uint8_t jump[8]; /* ... and what stands there now */
};
#define ATTACH_MAX_ENTRIES 16u

/* As glibc has them: malloc/malloc.c, struct malloc_chunk. */
struct attach_head {
	uint64_t before; /* size of the one before, where that is free */
	uint64_t size; /* and flags in its lowest three bits */
};

/*
 * Code of a function that becomes a jump to us. Whoever enters writes it when all threads stand and
 * takes it back, in reverse order; the library remembers.
 */
struct attach_jump {
	uint64_t address;
	uint8_t n; /* bytes that change */
	uint8_t n_moved; /* of instructions: no thread may go on at any but the first */
	uint8_t before[5]; /* what stood there ... */
	uint8_t jump[5]; /* ... and what stands there now */
	uint8_t is_filling; /* no thread comes there but by a jump of ours */
	uint8_t padding[3];
};
_Static_assert(sizeof(struct attach_jump) == 24, "it is shared");

/* Code of ours that is not in the library. */
struct attach_area {
	uint64_t start;
	uint64_t end;
};

#define ATTACH_THUNK_BYTES 16u

/* What functions need: addresses and numbers of lists in the library's memory. */
struct attach_functions {
	uint64_t jumps;
	uint64_t n_jumps;
	uint64_t areas;
	uint64_t n_areas;
};

struct attach_call {
	uint32_t magic;
	uint32_t version; /* RING_VERSION of the caller */
	uint32_t step; /* enum attach_step */
	uint32_t n_threads; /* ATTACH_END: that stand, ourselves among them */
	uint64_t threads; /* address of their thread pointers */
	/* What came of it: */
	uint32_t n_slots; /* places in tables that lead to us, or did */
	int32_t result; /* 0 or a negative errno */
	char socket[ATTACH_SOCKET_BYTES]; /* ATTACH_BEGIN: as MEMSIGHT_RECORDING */
	/* ATTACH_BEGIN: what ta_sandbox_take() wants of filters of seccomp(2), and how many. */
	uint64_t filters;
	uint32_t n_filters;
	/* ATTACH_HEADS: */
	uint32_t most_heads; /* that fit into the list */
	uint64_t first; /* the first chunk; ATTACH_PLUGINS: the thread's own stack pointer */
	uint64_t end; /* of the memory that may be read */
	uint64_t heads; /* address of a list of struct attach_head, of neighbours */
	uint32_t n_heads; /* that were copied; the last one may be no chunk */
	/* ATTACH_ENTRIES: how many came of it; ATTACH_COMMIT: how many there are. */
	uint32_t n_entries;
	uint64_t entries; /* address of a list of ATTACH_MAX_ENTRIES of them */
	/*
	 * ATTACH_BEGIN: the process as its caller calls it; who is forked from it keeps that.
	 * ATTACH_BEGIN and ATTACH_ENTRIES: address of that word (uint32_t).
	 */
	uint32_t root;
	uint32_t padding;
	uint64_t root_at;
	struct ring_recorder recorder; /* ATTACH_BEGIN that failed by EBUSY: whose it still is */
	struct attach_functions functions; /* ATTACH_FUNCTIONS */
};
_Static_assert(sizeof(struct attach_call) == 160 + ATTACH_SOCKET_BYTES, "it is shared");
