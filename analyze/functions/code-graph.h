#pragma once
/*
 * What the code of a file without symbols says of its functions: where they begin, who calls whom,
 * and which of them mention a text or do what few others do. For x86-64.
 *
 * A function begins where a row of .eh_frame does, where a call leads to, or a jump to an aligned
 * place of another function; it reaches to the next one. The part of a function that a compiler has
 * put elsewhere (.cold) belongs to the one that branches there.
 *
 * Code is decoded from one instruction to the next, begins of functions set it right. Data amid
 * code may add functions and calls that are none: what is concluded from a graph needs several
 * signs.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an instruction of a function does. */
enum code_sign {
	CODE_SIGN_ENOMEM = 1, /* stores 12 in memory, as int */
	CODE_SIGN_MULTIPLIES = 2, /* by mul, whose result has 128 bits */
	CODE_SIGN_DIVIDES = 4,
	CODE_SIGN_CRASHES = 8, /* hlt */
	CODE_SIGN_THRESHOLD = 16, /* has 131051 or 131052 in it: musl's mallocng */
	CODE_SIGN_SLOT = 32, /* reads or writes the 16 bits that end 2 bytes before a block */
	CODE_SIGN_MARKS_FREE = 64, /* writes 255 3 bytes before it */
};

/* Registers of arguments that it reads before it writes them, as far as it runs straight on. */
enum code_argument {
	CODE_READS_FIRST = 1, /* rdi */
	CODE_READS_SECOND = 2, /* rsi */
	CODE_READS_THIRD = 4, /* rdx */
	CODE_READS_FOURTH = 8, /* rcx */
};

struct graph_function {
	uint64_t start;
	uint64_t end;
	uint32_t whole; /* the function that it is a part of: itself, unless it is a cold part */
	uint32_t n_callers; /* calls of it, in all of the file */
	uint32_t signs; /* enum code_sign; those of parts are the whole's, as below */
	uint32_t texts; /* bit i: mentions text i */
};

struct graph_edge {
	uint32_t from; /* calls or jumps to */
	uint32_t to;
};

struct code_graph {
	struct graph_function *functions; /* by start */
	size_t n;
	struct graph_edge *edges; /* by from, then to; each once */
	size_t n_edges;
	struct graph_code *code; /* the bytes */
	size_t n_codes;
};

#define GRAPH_MAX_TEXTS 32u
#define GRAPH_NONE	UINT32_MAX

struct object;

/*
 * Look through an object that is open. texts: whole strings, NULL at the end, at most
 * GRAPH_MAX_TEXTS. Returns 0; -ENOEXEC: there is no code, or too much of it; -ENOMEM.
 */
int code_graph_create(struct object *object, const char *const *texts,
		      struct code_graph **ret_graph);
struct code_graph *code_graph_destroy(struct code_graph *graph); /* accepts NULL, returns NULL */

static inline void code_graph_cleanup(struct code_graph **graph)
{
	*graph = code_graph_destroy(*graph);
}
#define auto_code_graph __attribute__((cleanup(code_graph_cleanup)))

bool code_graph_calls(const struct code_graph *graph, uint32_t from, uint32_t to);

/* The edges of a function: sets *ret_n. */
const struct graph_edge *code_graph_edges(const struct code_graph *graph, uint32_t from,
					  size_t *ret_n);

/* Where a function's code ends: what fills the place up to the next one is left out. */
uint64_t code_graph_end(const struct code_graph *graph, uint32_t function);

/* enum code_argument */
unsigned code_graph_reads(const struct code_graph *graph, uint32_t function);

/* The function that this one is nothing but a jump to, behind endbr64; GRAPH_NONE: it is more. */
uint32_t code_graph_leads_to(const struct code_graph *graph, uint32_t function);
