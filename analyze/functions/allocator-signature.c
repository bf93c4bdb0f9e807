#include "analyze/functions/allocator-signature.h"

#include <errno.h>
#include <stdbool.h>

#include "analyze/functions/code-graph.h"
#include "common/array.h"

/*
 * Texts of glibc's checks, and the function of malloc.c that prints each. Those of one version need
 * not be in another one: of _int_malloc and _int_free most must be in one function.
 */
enum role {
	ROLE_INT_MALLOC,
	ROLE_INT_FREE,
	ROLE_REALLOC, /* and a realloc with checks */
	ROLE_INT_REALLOC,
	ROLE_MUNMAP_CHUNK,
	ROLE_COUNT
};

static const struct {
	const char *text;
	enum role role;
} texts[] = {
	{ "malloc(): smallbin double linked list corrupted", ROLE_INT_MALLOC },
	{ "malloc(): unsorted double linked list corrupted", ROLE_INT_MALLOC },
	{ "malloc(): invalid size (unsorted)", ROLE_INT_MALLOC },
	{ "malloc(): invalid next size (unsorted)", ROLE_INT_MALLOC },
	{ "malloc(): corrupted top size", ROLE_INT_MALLOC },
	{ "double free or corruption (!prev)", ROLE_INT_FREE },
	{ "double free or corruption (out)", ROLE_INT_FREE },
	{ "double free or corruption (top)", ROLE_INT_FREE },
	{ "free(): invalid next size (normal)", ROLE_INT_FREE },
	{ "realloc(): invalid pointer", ROLE_REALLOC },
	{ "realloc(): invalid old size", ROLE_INT_REALLOC },
	{ "realloc(): invalid next size", ROLE_INT_REALLOC },
	{ "munmap_chunk(): invalid pointer", ROLE_MUNMAP_CHUNK },
};
#define N_TEXTS (sizeof(texts) / sizeof(texts[0]))

#define MIN_CALLERS 8u

static const unsigned n_needed[ROLE_COUNT] = { 3, 3, 1, 1, 1 };

static bool reads_only(const struct code_graph *graph, uint32_t i, unsigned needed,
		       unsigned forbidden)
{
	unsigned reads = code_graph_reads(graph, i);

	return (reads & needed) == needed && !(reads & forbidden);
}

static bool has_signs(const struct code_graph *graph, uint32_t i, unsigned needed,
		      unsigned forbidden)
{
	uint32_t signs = graph->functions[i].signs;

	return (signs & needed) == needed && !(signs & forbidden);
}

/* What was found so far; GRAPH_NONE: not found. */
struct look {
	const struct code_graph *graph;
	uint32_t malloc;
	uint32_t calloc;
	uint32_t realloc;
	uint32_t free;
	uint32_t memalign;
	uint32_t roles[ROLE_COUNT]; /* of glibc */
};

typedef bool (*test_function)(const struct look *look, uint32_t i);

/* The one of all functions that a test takes; GRAPH_NONE: none, or several. */
static uint32_t find_one(const struct look *look, test_function is)
{
	uint32_t found = GRAPH_NONE;

	for (uint32_t i = 0; i < look->graph->n; i++) {
		if (look->graph->functions[i].whole != i || !is(look, i))
			continue;
		if (found != GRAPH_NONE)
			return GRAPH_NONE;
		found = i;
	}
	return found;
}

/* Nothing else is called as often: a program's C library alone calls them from tens of places. */
static bool is_called_much(const struct look *look, uint32_t i)
{
	return look->graph->functions[i].n_callers >= MIN_CALLERS;
}

static bool calls(const struct look *look, uint32_t from, uint32_t to)
{
	return to != GRAPH_NONE && code_graph_calls(look->graph, from, to);
}

/* As calloc has to, with a look at what is too large. */
static bool multiplies(const struct look *look, uint32_t i)
{
	return look->graph->functions[i].signs & (CODE_SIGN_MULTIPLIES | CODE_SIGN_DIVIDES);
}

static void add(struct signature *signature, const struct look *look, uint8_t call, uint32_t i,
		const char *name)
{
	if (i != GRAPH_NONE)
		signature->functions[signature->n++] = (struct signature_function){
			call,
			name,
			look->graph->functions[i].start,
			look->graph->functions[i].end,
		};
}

static void add_all(struct signature *signature, const struct look *look, const char *memalign)
{
	add(signature, look, TRACE_CALL_MALLOC, look->malloc, "malloc");
	add(signature, look, TRACE_CALL_CALLOC, look->calloc, "calloc");
	add(signature, look, TRACE_CALL_REALLOC, look->realloc, "realloc");
	add(signature, look, TRACE_CALL_FREE, look->free, "free");
	add(signature, look, TRACE_CALL_MEMALIGN, look->memalign, memalign);
}

/* ---- glibc ---- */

static unsigned count_texts(const struct graph_function *function, enum role role)
{
	unsigned n = 0;

	for (size_t i = 0; i < N_TEXTS; i++)
		n += texts[i].role == role && function->texts >> i & 1;
	return n;
}

/* The only function that mentions enough texts of a role. */
static uint32_t find_role(const struct code_graph *graph, enum role role)
{
	uint32_t found = GRAPH_NONE;

	for (uint32_t i = 0; i < graph->n; i++) {
		unsigned n = count_texts(&graph->functions[i], role);

		if (n == 0)
			continue;
		if (n < n_needed[role] || found != GRAPH_NONE)
			return GRAPH_NONE;
		found = i;
	}
	return found;
}

/* Or by a function between: since 2.41 _int_free is in parts. */
static bool frees(const struct look *look, uint32_t i)
{
	uint32_t inner = look->roles[ROLE_INT_FREE];
	size_t n;
	const struct graph_edge *edges = code_graph_edges(look->graph, i, &n);

	for (size_t k = 0; k < n; k++)
		if (edges[k].to == inner || calls(look, edges[k].to, inner))
			return true;
	return false;
}

/* malloc(bytes): realloc of nothing is one. */
static bool is_glibc_malloc(const struct look *look, uint32_t i)
{
	return calls(look, look->realloc, i) && is_called_much(look, i) &&
	       calls(look, i, look->roles[ROLE_INT_MALLOC]) &&
	       !calls(look, i, look->roles[ROLE_INT_FREE]) &&
	       has_signs(look->graph, i, CODE_SIGN_ENOMEM, 0) &&
	       reads_only(look->graph, i, CODE_READS_FIRST, CODE_READS_SECOND);
}

/* free(block): realloc to nothing is one. What was mapped goes another way. */
static bool is_glibc_free(const struct look *look, uint32_t i)
{
	uint32_t chunk = look->roles[ROLE_MUNMAP_CHUNK];

	return calls(look, look->realloc, i) && is_called_much(look, i) && frees(look, i) &&
	       (calls(look, i, chunk) || i == chunk) &&
	       !calls(look, i, look->roles[ROLE_INT_MALLOC]) &&
	       reads_only(look->graph, i, CODE_READS_FIRST, CODE_READS_SECOND);
}

static bool is_glibc_calloc(const struct look *look, uint32_t i)
{
	return i != look->malloc && calls(look, i, look->roles[ROLE_INT_MALLOC]) &&
	       !calls(look, i, look->roles[ROLE_INT_FREE]) &&
	       has_signs(look->graph, i, CODE_SIGN_ENOMEM, 0) && multiplies(look, i) &&
	       reads_only(look->graph, i, CODE_READS_FIRST | CODE_READS_SECOND, CODE_READS_THIRD);
}

/* _int_memalign(arena, alignment, bytes) */
static bool is_glibc_int_memalign(const struct look *look, uint32_t i)
{
	return i != look->realloc && i != look->roles[ROLE_INT_REALLOC] &&
	       calls(look, i, look->roles[ROLE_INT_MALLOC]) && frees(look, i) &&
	       reads_only(look->graph, i, CODE_READS_FIRST | CODE_READS_SECOND | CODE_READS_THIRD,
			  CODE_READS_FOURTH);
}

/* _mid_memalign(alignment, bytes ...): all of memalign's kind come by it. */
static uint32_t find_glibc_memalign(const struct look *look)
{
	uint32_t inner = find_one(look, is_glibc_int_memalign), found = GRAPH_NONE;

	for (uint32_t i = 0; inner != GRAPH_NONE && i < look->graph->n; i++) {
		if (!calls(look, i, inner) || !calls(look, i, look->malloc) ||
		    !reads_only(look->graph, i, CODE_READS_FIRST | CODE_READS_SECOND, 0))
			continue;
		if (found != GRAPH_NONE)
			return GRAPH_NONE;
		found = i;
	}
	return found;
}

/* With this function as realloc: is all of it there, and right? */
static bool find_by_realloc(struct look *look, uint32_t i)
{
	look->realloc = i;
	if (!calls(look, i, look->roles[ROLE_INT_REALLOC]) ||
	    !reads_only(look->graph, i, CODE_READS_FIRST | CODE_READS_SECOND, CODE_READS_THIRD))
		return false;
	look->malloc = find_one(look, is_glibc_malloc);
	look->free = find_one(look, is_glibc_free);
	look->calloc = find_one(look, is_glibc_calloc);
	look->memalign = find_glibc_memalign(look);
	return look->malloc != GRAPH_NONE && look->free != GRAPH_NONE && look->calloc != GRAPH_NONE;
}

/* Up to 2.33 there is a realloc with checks, too, which calls others of its kind. */
static void find_glibc(struct look *look, struct signature *signature)
{
	struct look found = *look;
	unsigned n = 0;

	signature->libc = ENTRY_LIBC_GLIBC;
	if (look->roles[ROLE_INT_MALLOC] != GRAPH_NONE && look->roles[ROLE_INT_FREE] != GRAPH_NONE)
		for (uint32_t i = 0; i < look->graph->n; i++) {
			struct look trial = *look;

			if (!count_texts(&look->graph->functions[i], ROLE_REALLOC) ||
			    !find_by_realloc(&trial, i))
				continue;
			found = trial;
			n++;
		}
	if (n != 1) {
		signature->why = "it has glibc's allocator, but its malloc, calloc, realloc and "
				 "free cannot be told for certain";
		return;
	}
	if (found.memalign == GRAPH_NONE)
		signature->why = "posix_memalign and its kind were not found: their blocks are not "
				 "seen";
	add_all(signature, &found, "memalign");
}

/* ---- musl ---- */

/* Two functions that lock the same. */
static bool share_callee(const struct look *look, uint32_t a, uint32_t b)
{
	size_t n;
	const struct graph_edge *edges = code_graph_edges(look->graph, a, &n);

	for (size_t i = 0; i < n; i++)
		if (calls(look, b, edges[i].to))
			return true;
	return false;
}

static bool is_musl_malloc(const struct look *look, uint32_t i)
{
	return has_signs(look->graph, i, CODE_SIGN_THRESHOLD | CODE_SIGN_SLOT | CODE_SIGN_ENOMEM,
			 0) &&
	       reads_only(look->graph, i, CODE_READS_FIRST, CODE_READS_SECOND);
}

/* It writes over the header of the slot, so that a second free crashes. */
static bool is_musl_free(const struct look *look, uint32_t i)
{
	return has_signs(look->graph, i, CODE_SIGN_MARKS_FREE | CODE_SIGN_SLOT | CODE_SIGN_CRASHES,
			 CODE_SIGN_THRESHOLD | CODE_SIGN_ENOMEM) &&
	       reads_only(look->graph, i, CODE_READS_FIRST, CODE_READS_SECOND) &&
	       share_callee(look, look->malloc, i);
}

static bool is_musl_realloc(const struct look *look, uint32_t i)
{
	return has_signs(look->graph, i, CODE_SIGN_THRESHOLD | CODE_SIGN_SLOT | CODE_SIGN_CRASHES,
			 0) &&
	       reads_only(look->graph, i, CODE_READS_FIRST | CODE_READS_SECOND, 0) &&
	       calls(look, i, look->malloc) && calls(look, i, look->free);
}

/* Of malloc: itself, or a function that is nothing but a jump there. */
static bool calls_malloc(const struct look *look, uint32_t i)
{
	size_t n;
	const struct graph_edge *edges = code_graph_edges(look->graph, i, &n);

	return array_find(edges, n, it,
			  it->to == look->malloc ||
				  code_graph_leads_to(look->graph, it->to) == look->malloc);
}

static bool is_musl_aligned(const struct look *look, uint32_t i)
{
	return i != look->realloc &&
	       has_signs(look->graph, i, CODE_SIGN_SLOT | CODE_SIGN_ENOMEM | CODE_SIGN_CRASHES,
			 CODE_SIGN_THRESHOLD) &&
	       reads_only(look->graph, i, CODE_READS_FIRST | CODE_READS_SECOND, CODE_READS_THIRD) &&
	       calls_malloc(look, i);
}

/* It asks whether all of the block is zero, which looks at the slot. */
static bool is_musl_calloc(const struct look *look, uint32_t i)
{
	size_t n;
	const struct graph_edge *edges = code_graph_edges(look->graph, i, &n);
	bool asks = false;

	for (size_t k = 0; k < n; k++)
		asks |= edges[k].to != look->malloc && edges[k].to != look->free &&
			edges[k].to != look->realloc && edges[k].to != look->memalign &&
			has_signs(look->graph, edges[k].to, CODE_SIGN_CRASHES,
				  CODE_SIGN_THRESHOLD | CODE_SIGN_MARKS_FREE) &&
			reads_only(look->graph, edges[k].to, CODE_READS_FIRST, CODE_READS_SECOND);
	return asks && i != look->realloc && i != look->memalign &&
	       has_signs(look->graph, i, CODE_SIGN_ENOMEM, CODE_SIGN_SLOT) && multiplies(look, i) &&
	       reads_only(look->graph, i, CODE_READS_FIRST | CODE_READS_SECOND, CODE_READS_THIRD) &&
	       calls_malloc(look, i);
}

/* realloc, calloc and aligned_alloc are there if the program uses them; the others always are. */
static void find_musl(struct look *look, struct signature *signature)
{
	look->malloc = find_one(look, is_musl_malloc);
	if (look->malloc == GRAPH_NONE)
		return;
	*signature = (struct signature){ .libc = ENTRY_LIBC_MUSL };
	look->free = find_one(look, is_musl_free);
	if (look->free == GRAPH_NONE) {
		signature->why = "it has musl's malloc, but its free cannot be told for certain";
		return;
	}
	look->realloc = find_one(look, is_musl_realloc);
	look->memalign = find_one(look, is_musl_aligned);
	look->calloc = find_one(look, is_musl_calloc);
	add_all(signature, look, "aligned_alloc");
}

int allocator_signature_find(struct object *object, struct signature *ret_signature)
{
	auto_code_graph struct code_graph *graph = NULL;
	const char *wanted[N_TEXTS + 1] = { NULL };
	struct signature signature = { 0 };
	struct look look = {
		.malloc = GRAPH_NONE,
		.calloc = GRAPH_NONE,
		.realloc = GRAPH_NONE,
		.free = GRAPH_NONE,
		.memalign = GRAPH_NONE,
	};
	bool has_text = false;

	for (size_t i = 0; i < N_TEXTS; i++)
		wanted[i] = texts[i].text;
	int r = code_graph_create(object, wanted, &graph);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		*ret_signature = (struct signature){ .why = "it has no code that can be read" };
		return 0;
	}
	look.graph = graph;
	for (unsigned i = 0; i < ROLE_COUNT; i++)
		look.roles[i] = find_role(graph, i);
	for (size_t i = 0; i < graph->n; i++)
		has_text |= graph->functions[i].texts != 0;
	/* A program may have the texts for reasons of its own. */
	if (has_text)
		find_glibc(&look, &signature);
	if (signature.n == 0)
		find_musl(&look, &signature);
	if (signature.n == 0 && !signature.why)
		signature.why = "no allocator of glibc or musl was recognised in it";
	*ret_signature = signature;
	return 0;
}
