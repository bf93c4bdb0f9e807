#include "analyze/functions/code-graph.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/objects.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/unwind-table.h"

#define MAX_CODE_BYTES ((uint64_t)1 << 28) /* in all */
#define MAX_STRAIGHT   64u /* instructions that are looked at for arguments */
#define ALIGNED_BYTES  16u
#define MMAP_THRESHOLD 131052u /* musl, src/malloc/mallocng/meta.h */
#define MAX_COLD_PARTS 4u /* one behind the other */
#define MANY	       (UINT32_MAX - 1)

struct graph_code {
	uint64_t start;
	uint8_t *bytes;
	size_t n;
};

enum mention_kind {
	MENTION_CALL,
	MENTION_JUMP,
	MENTION_BRANCH, /* a conditional jump */
	MENTION_TEXT, /* target: the number of the text */
	MENTION_SIGN, /* target: enum code_sign */
};

/* What one instruction says. */
struct mention {
	uint64_t at;
	uint64_t target;
	uint8_t kind;
};

struct text_place {
	uint64_t address;
	uint32_t number;
};

/* While a graph is made. */
struct maker {
	struct code_graph *graph;
	struct object *object;
	ZydisDecoder decoder;
	struct mention *mentions; /* in order of `at` */
	size_t n_mentions;
	size_t n_mentions_allocated;
	size_t n_allocated; /* of the graph's functions */
	struct text_place *places; /* by address */
	size_t n_places;
	size_t n_places_allocated;
};

static void finish_maker(struct maker *maker)
{
	code_graph_destroy(maker->graph);
	free_all(maker->mentions, maker->places);
}
#define auto_maker __attribute__((cleanup(finish_maker)))

/* ---- Bytes ---- */

static int add_code(struct maker *maker, uint64_t address, uint64_t n_bytes, uint64_t *n_all)
{
	struct code_graph *graph = maker->graph;
	struct graph_code code = { .start = address };

	if (n_bytes == 0)
		return 0;
	if (n_bytes > MAX_CODE_BYTES - *n_all)
		return -ENOEXEC;
	*n_all += n_bytes;
	if (grow_array_of(&graph->code, graph->n_codes, 1, sizeof(*graph->code)) < 0)
		return -ENOMEM;
	code.bytes = malloc(n_bytes);
	if (!code.bytes)
		return -ENOMEM;
	code.n = object_read(maker->object, address, code.bytes, n_bytes);
	graph->code[graph->n_codes++] = code;
	return 0;
}

DEFINE_ORDER(compare_codes, struct graph_code, BY(start));

/* Sections of code, so that no data is taken for it; segments of a file that has no sections. */
static int read_code(struct maker *maker)
{
	struct object *object = maker->object;
	struct code_graph *graph = maker->graph;
	Elf_Scn *section = NULL;
	uint64_t n_all = 0;
	int r = 0;

	while (r == 0 && (section = elf_nextscn(object->elf, section))) {
		GElf_Shdr head;

		if (gelf_getshdr(section, &head) && head.sh_type == SHT_PROGBITS &&
		    head.sh_flags & SHF_EXECINSTR)
			r = add_code(maker, head.sh_addr, head.sh_size, &n_all);
	}
	for (size_t i = 0; r == 0 && n_all == 0 && i < object->n_segments; i++)
		if (object->segments[i].is_executable)
			r = add_code(maker, object->segments[i].address,
				     object->segments[i].file_bytes, &n_all);
	if (r < 0)
		return r;
	if (graph->n_codes == 0)
		return -ENOEXEC;
	qsort(graph->code, graph->n_codes, sizeof(*graph->code), compare_codes);
	/* Sections of a damaged file may lie in each other. */
	for (size_t i = 1; i < graph->n_codes; i++)
		if (graph->code[i].start < graph->code[i - 1].start + graph->code[i - 1].n)
			return -ENOEXEC;
	return 0;
}

static const struct graph_code *code_at(const struct code_graph *graph, uint64_t address)
{
	size_t i = array_n_until(graph->code, graph->n_codes, start, address);

	return i > 0 && address - graph->code[i - 1].start < graph->code[i - 1].n
		       ? &graph->code[i - 1]
		       : NULL;
}

/* A function begins there, if it is code. They are put in order afterwards. */
static int add_start(struct maker *maker, uint64_t address)
{
	struct code_graph *graph = maker->graph;

	if (!code_at(graph, address))
		return 0;
	if (grow_array(&graph->functions, graph->n, &maker->n_allocated,
		       sizeof(*graph->functions)) < 0)
		return -ENOMEM;
	graph->functions[graph->n++] = (struct graph_function){ .start = address };
	return 0;
}

static int take_begin(void *maker, uint64_t begin, uint64_t entry)
{
	(void)entry;
	return add_start(maker, begin);
}

DEFINE_ORDER(compare_functions, struct graph_function, BY(start));

static void sort_starts(struct code_graph *graph)
{
	size_t n = 0;

	if (graph->n)
		qsort(graph->functions, graph->n, sizeof(*graph->functions), compare_functions);
	for (size_t i = 0; i < graph->n; i++)
		if (n == 0 || graph->functions[n - 1].start != graph->functions[i].start)
			graph->functions[n++] = graph->functions[i];
	graph->n = n;
	for (size_t i = 0; i < n; i++) {
		const struct graph_code *code = code_at(graph, graph->functions[i].start);
		uint64_t end = code->start + code->n;

		graph->functions[i].end = i + 1 < n && graph->functions[i + 1].start < end
						  ? graph->functions[i + 1].start
						  : end;
	}
}

/* The function that an address lies in; GRAPH_NONE: none. */
static uint32_t function_at(const struct code_graph *graph, uint64_t address)
{
	size_t i = array_n_until(graph->functions, graph->n, start, address);

	return i > 0 && address < graph->functions[i - 1].end ? (uint32_t)(i - 1) : GRAPH_NONE;
}

/* ---- Texts ---- */

static int find_text(struct maker *maker, const struct graph_code *data, const char *text,
		     uint32_t number)
{
	size_t n_text = strlen(text) + 1;
	const uint8_t *from = data->bytes, *end = data->bytes + data->n, *found;

	while ((found = memmem(from, (size_t)(end - from), text, n_text))) {
		if (grow_array(&maker->places, maker->n_places, &maker->n_places_allocated,
			       sizeof(*maker->places)) < 0)
			return -ENOMEM;
		maker->places[maker->n_places++] = (struct text_place){
			.address = data->start + (uint64_t)(found - data->bytes),
			.number = number,
		};
		from = found + 1;
	}
	return 0;
}

DEFINE_ORDER(compare_places, struct text_place, BY(address));

static int find_texts(struct maker *maker, const char *const *texts)
{
	struct object *object = maker->object;
	int r = 0;

	for (size_t i = 0; r == 0 && i < object->n_segments; i++) {
		const struct object_segment *segment = &object->segments[i];

		if (segment->file_bytes > MAX_CODE_BYTES)
			continue;
		auto_free uint8_t *bytes = malloc(segment->file_bytes + 1);
		if (!bytes)
			return -ENOMEM;
		const struct graph_code data = {
			segment->address,
			bytes,
			object_read(object, segment->address, bytes, segment->file_bytes),
		};
		for (uint32_t k = 0; r == 0 && texts[k]; k++)
			r = find_text(maker, &data, texts[k], k);
	}
	if (maker->n_places)
		qsort(maker->places, maker->n_places, sizeof(*maker->places), compare_places);
	return r;
}

/* ---- Instructions ---- */

static int mention(struct maker *maker, uint64_t at, enum mention_kind kind, uint64_t target)
{
	if (grow_array(&maker->mentions, maker->n_mentions, &maker->n_mentions_allocated,
		       sizeof(*maker->mentions)) < 0)
		return -ENOMEM;
	maker->mentions[maker->n_mentions++] = (struct mention){ at, target, (uint8_t)kind };
	return 0;
}

static bool has_constant(const ZydisDecodedInstruction *instruction, uint64_t value)
{
	return instruction->raw.imm[0].size >= 8 && instruction->raw.imm[0].value.u == value;
}

/* Memory that is so many bytes behind what a register says. */
static bool is_behind(const ZydisDecodedInstruction *instruction, int64_t offset)
{
	return instruction->raw.modrm.mod == 1 && instruction->raw.disp.value == offset;
}

/* enum code_sign, or 0 */
static uint32_t sign_of(const ZydisDecodedInstruction *instruction)
{
	bool is_memory =
		instruction->attributes & ZYDIS_ATTRIB_HAS_MODRM && instruction->raw.modrm.mod != 3;

	switch (instruction->mnemonic) {
	case ZYDIS_MNEMONIC_HLT:
		return CODE_SIGN_CRASHES;
	case ZYDIS_MNEMONIC_MUL:
		return CODE_SIGN_MULTIPLIES;
	case ZYDIS_MNEMONIC_DIV:
		return CODE_SIGN_DIVIDES;
	case ZYDIS_MNEMONIC_CMP:
		return has_constant(instruction, MMAP_THRESHOLD) ||
				       has_constant(instruction, MMAP_THRESHOLD - 1)
			       ? CODE_SIGN_THRESHOLD
			       : 0;
	case ZYDIS_MNEMONIC_MOVZX:
		return is_memory && instruction->opcode == 0xb7 && is_behind(instruction, -2)
			       ? CODE_SIGN_SLOT
			       : 0;
	case ZYDIS_MNEMONIC_MOV:
		break;
	default:
		return 0;
	}
	if (!is_memory)
		return has_constant(instruction, MMAP_THRESHOLD - 1) ? CODE_SIGN_THRESHOLD : 0;
	if (instruction->operand_width == 16)
		return is_behind(instruction, -2) ? CODE_SIGN_SLOT : 0;
	if (instruction->opcode == 0xc6)
		return is_behind(instruction, -3) && (instruction->raw.imm[0].value.u & 0xff) == 255
			       ? CODE_SIGN_MARKS_FREE
			       : 0;
	return instruction->opcode == 0xc7 && instruction->operand_width == 32 &&
			       has_constant(instruction, ENOMEM)
		       ? CODE_SIGN_ENOMEM
		       : 0;
}

static bool find_place(const struct maker *maker, uint64_t address, uint32_t *ret_number)
{
	size_t i = array_n_until(maker->places, maker->n_places, address, address);

	if (i == 0 || maker->places[i - 1].address != address)
		return false;
	*ret_number = maker->places[i - 1].number;
	return true;
}

/* A text is taken by lea, or by its address as a constant. */
static int look_for_text(struct maker *maker, const ZydisDecodedInstruction *instruction,
			 uint64_t address)
{
	uint64_t target = instruction->raw.imm[0].value.u;
	uint32_t number;

	if (instruction->mnemonic == ZYDIS_MNEMONIC_LEA &&
	    instruction->attributes & ZYDIS_ATTRIB_IS_RELATIVE)
		target = address + instruction->length + (uint64_t)instruction->raw.disp.value;
	else if ((instruction->mnemonic != ZYDIS_MNEMONIC_MOV &&
		  instruction->mnemonic != ZYDIS_MNEMONIC_PUSH) ||
		 instruction->raw.imm[0].size < 32)
		return 0;
	return find_place(maker, target, &number) ? mention(maker, address, MENTION_TEXT, number)
						  : 0;
}

static int look_at(struct maker *maker, const ZydisDecodedInstruction *instruction,
		   uint64_t address)
{
	if (instruction->raw.imm[0].is_relative) {
		uint64_t target =
			address + instruction->length + (uint64_t)instruction->raw.imm[0].value.s;

		if (!code_at(maker->graph, target))
			return 0;
		return mention(maker, address,
			       instruction->mnemonic == ZYDIS_MNEMONIC_CALL  ? MENTION_CALL
			       : instruction->mnemonic == ZYDIS_MNEMONIC_JMP ? MENTION_JUMP
									     : MENTION_BRANCH,
			       target);
	}
	uint32_t sign = sign_of(instruction);
	int r = sign ? mention(maker, address, MENTION_SIGN, sign) : 0;

	return r < 0 || maker->n_places == 0 ? r : look_for_text(maker, instruction, address);
}

static int sweep(struct maker *maker, const struct graph_code *code)
{
	const struct code_graph *graph = maker->graph;
	size_t next =
		code->start ? array_n_until(graph->functions, graph->n, start, code->start - 1) : 0;
	int r = 0;

	for (size_t at = 0; r == 0 && at < code->n;) {
		ZydisDecodedInstruction instruction;

		if (next < graph->n && code->start + at >= graph->functions[next].start)
			at = (size_t)(graph->functions[next++].start - code->start);
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			    &maker->decoder, NULL, &code->bytes[at], code->n - at, &instruction))) {
			at++;
			continue;
		}
		r = look_at(maker, &instruction, code->start + at);
		at += instruction.length;
	}
	return r;
}

/* ---- The graph ---- */

static int add_called(struct maker *maker)
{
	GElf_Ehdr head;
	int r = gelf_getehdr(maker->object->elf, &head) ? add_start(maker, head.e_entry) : 0;

	for (size_t i = 0; r == 0 && i < maker->n_mentions; i++)
		if (maker->mentions[i].kind == MENTION_CALL)
			r = add_start(maker, maker->mentions[i].target);
	sort_starts(maker->graph);
	return r;
}

/* A jump to an aligned place of another function is to one that begins there. */
static int add_jumped_to(struct maker *maker)
{
	struct code_graph *graph = maker->graph;
	size_t n = graph->n;
	int r = 0;

	for (size_t i = 0; r == 0 && i < maker->n_mentions; i++) {
		const struct mention *jump = &maker->mentions[i];

		if (jump->kind != MENTION_JUMP || jump->target % ALIGNED_BYTES)
			continue;
		/* Those that are added here stand behind the n that are in order. */
		size_t from = array_n_until(graph->functions, n, start, jump->at);
		size_t to = array_n_until(graph->functions, n, start, jump->target);
		if (from != to)
			r = add_start(maker, jump->target);
	}
	sort_starts(graph);
	return r;
}

/*
 * Parts that lie elsewhere: nothing calls them, branches of one function lead there. A function
 * that is jumped to alone is one.
 */
static int join_parts(struct maker *maker)
{
	struct code_graph *graph = maker->graph;
	auto_free uint32_t *from = malloc((graph->n + 1) * sizeof(*from));
	auto_free bool *is_branched_to = calloc(graph->n + 1, sizeof(*is_branched_to));

	if (!from || !is_branched_to)
		return -ENOMEM;
	for (size_t i = 0; i < graph->n; i++)
		from[i] = GRAPH_NONE;
	for (size_t i = 0; i < maker->n_mentions; i++) {
		const struct mention *way = &maker->mentions[i];
		uint32_t at, to;

		if (way->kind > MENTION_BRANCH ||
		    (to = function_at(graph, way->target)) == GRAPH_NONE)
			continue;
		at = function_at(graph, way->at);
		if (way->kind == MENTION_CALL) {
			graph->functions[to].n_callers++;
			from[to] = MANY;
		} else if (at != to && at != GRAPH_NONE) {
			from[to] = from[to] == GRAPH_NONE || from[to] == at ? at : MANY;
			is_branched_to[to] |= way->kind == MENTION_BRANCH;
		}
	}
	for (uint32_t i = 0; i < graph->n; i++) {
		uint32_t whole = i;

		for (unsigned k = 0;
		     k < MAX_COLD_PARTS && from[whole] < MANY && is_branched_to[whole]; k++)
			whole = from[whole];
		graph->functions[i].whole = whole;
	}
	return 0;
}

DEFINE_ORDER(compare_edges, struct graph_edge, BY(from) ?: BY(to));

/* Give each function what its instructions, and those of its parts, have mentioned. */
static int add_mentions(struct maker *maker)
{
	struct code_graph *graph = maker->graph;
	size_t n = 0;

	graph->edges = malloc((maker->n_mentions + 1) * sizeof(*graph->edges));
	if (!graph->edges)
		return -ENOMEM;
	for (size_t i = 0; i < maker->n_mentions; i++) {
		const struct mention *mention = &maker->mentions[i];
		uint32_t part = function_at(graph, mention->at), to;

		if (part == GRAPH_NONE)
			continue;
		uint32_t whole = graph->functions[part].whole;
		if (mention->kind == MENTION_TEXT)
			graph->functions[whole].texts |= UINT32_C(1) << mention->target;
		else if (mention->kind == MENTION_SIGN)
			graph->functions[whole].signs |= (uint32_t)mention->target;
		else if ((to = function_at(graph, mention->target)) != GRAPH_NONE && to != whole &&
			 graph->functions[to].start == mention->target)
			graph->edges[n++] = (struct graph_edge){ whole, to };
	}
	if (n)
		qsort(graph->edges, n, sizeof(*graph->edges), compare_edges);
	for (size_t i = 0; i < n; i++)
		if (graph->n_edges == 0 ||
		    compare_edges(&graph->edges[graph->n_edges - 1], &graph->edges[i]) != 0)
			graph->edges[graph->n_edges++] = graph->edges[i];
	return 0;
}

int code_graph_create(struct object *object, const char *const *texts,
		      struct code_graph **ret_graph)
{
	auto_maker struct maker maker = { .object = object,
					  .graph = calloc(1, sizeof(*maker.graph)) };

	if (!maker.graph)
		return -ENOMEM;
	ZydisDecoderInit(&maker.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	int r = read_code(&maker) ?: find_texts(&maker, texts);
	r = r ?: unwind_each_begin(maker.object->elf, take_begin, &maker);
	sort_starts(maker.graph);
	for (size_t i = 0; r == 0 && i < maker.graph->n_codes; i++)
		r = sweep(&maker, &maker.graph->code[i]);
	r = r ?: add_called(&maker);
	r = r ?: add_jumped_to(&maker);
	r = r ?: join_parts(&maker);
	r = r ?: add_mentions(&maker);
	if (r == 0)
		*ret_graph = steal_ptr(&maker.graph);
	return r;
}

struct code_graph *code_graph_destroy(struct code_graph *graph)
{
	for (size_t i = 0; graph && i < graph->n_codes; i++)
		free(graph->code[i].bytes);
	if (graph) {
		free_all(graph->code, graph->functions, graph->edges);
	}
	free(graph);
	return NULL;
}

/* ---- Questions ---- */

const struct graph_edge *code_graph_edges(const struct code_graph *graph, uint32_t from,
					  size_t *ret_n)
{
	size_t end = array_n_until(graph->edges, graph->n_edges, from, from);
	size_t begin = from ? array_n_until(graph->edges, graph->n_edges, from, from - 1) : 0;

	*ret_n = end - begin;
	return graph->edges + begin;
}

bool code_graph_calls(const struct code_graph *graph, uint32_t from, uint32_t to)
{
	size_t n;
	const struct graph_edge *edges = code_graph_edges(graph, from, &n);
	size_t i = array_n_until(edges, n, to, to);

	return i > 0 && edges[i - 1].to == to;
}

/* The bytes of a function, and how many there are. */
static const uint8_t *bytes_of(const struct graph_function *function,
			       const struct code_graph *graph, size_t *ret_n)
{
	const struct graph_code *code = code_at(graph, function->start);

	*ret_n = (size_t)(function->end - function->start);
	return code->bytes + (function->start - code->start);
}

uint64_t code_graph_end(const struct code_graph *graph, uint32_t function)
{
	const struct graph_function *of = &graph->functions[function];
	ZydisDecodedInstruction instruction;
	size_t n, end = 0;
	const uint8_t *bytes = bytes_of(of, graph, &n);
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < n; at += instruction.length) {
		bool is_known = ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			&decoder, NULL, bytes + at, n - at, &instruction));

		instruction.length = is_known ? instruction.length : 1;
		if (!is_known || (instruction.mnemonic != ZYDIS_MNEMONIC_NOP &&
				  instruction.mnemonic != ZYDIS_MNEMONIC_INT3))
			end = at + instruction.length;
	}
	return of->start + end;
}

static const ZydisRegister arguments[] = { ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI,
					   ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RCX };
#define N_ARGUMENTS (sizeof(arguments) / sizeof(arguments[0]))

/* Note what an operand does with a register of an argument. */
static void use_register(ZydisRegister reg, bool is_read, unsigned *reads, unsigned *writes)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	for (unsigned i = 0; i < N_ARGUMENTS; i++) {
		if (whole != arguments[i])
			continue;
		if (is_read && !(*writes & 1u << i))
			*reads |= 1u << i;
		else if (!is_read)
			*writes |= 1u << i;
	}
}

static void use_operands(const ZydisDecodedInstruction *instruction,
			 const ZydisDecodedOperand *operands, unsigned *reads, unsigned *writes)
{
	bool clears = (instruction->mnemonic == ZYDIS_MNEMONIC_XOR ||
		       instruction->mnemonic == ZYDIS_MNEMONIC_SUB) &&
		      operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		      operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		      operands[0].reg.value == operands[1].reg.value;

	for (unsigned i = 0; i < instruction->operand_count; i++) {
		const ZydisDecodedOperand *operand = &operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			use_register(operand->mem.base, true, reads, writes);
			use_register(operand->mem.index, true, reads, writes);
		} else if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && !clears &&
			   operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ) {
			use_register(operand->reg.value, true, reads, writes);
		}
	}
	for (unsigned i = 0; i < instruction->operand_count; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			use_register(operands[i].reg.value, false, reads, writes);
}

unsigned code_graph_reads(const struct code_graph *graph, uint32_t function)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction instruction;
	unsigned reads = 0, writes = 0;
	ZydisDecoder decoder;
	size_t n, at = 0;
	const uint8_t *bytes = bytes_of(&graph->functions[function], graph, &n);

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (unsigned i = 0; i < MAX_STRAIGHT && at < n; i++) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes + at, n - at, &instruction,
							 operands)))
			break;
		at += instruction.length;
		if (instruction.mnemonic == ZYDIS_MNEMONIC_CALL ||
		    instruction.mnemonic == ZYDIS_MNEMONIC_JMP ||
		    instruction.mnemonic == ZYDIS_MNEMONIC_RET)
			break;
		use_operands(&instruction, operands, &reads, &writes);
	}
	return reads;
}

uint32_t code_graph_leads_to(const struct code_graph *graph, uint32_t function)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const struct graph_function *from = &graph->functions[function];
	size_t n, n_edges, at = 0;
	const uint8_t *bytes = bytes_of(from, graph, &n);
	const struct graph_edge *edges = code_graph_edges(graph, function, &n_edges);
	int32_t distance;

	if (n >= sizeof(endbr64) && memcmp(bytes, endbr64, sizeof(endbr64)) == 0)
		at = sizeof(endbr64);
	if (n_edges != 1 || n < at + 5 || bytes[at] != 0xe9)
		return GRAPH_NONE;
	memcpy(&distance, bytes + at + 1, sizeof(distance));
	return graph->functions[edges->to].start ==
			       from->start + at + 5 + (uint64_t)(int64_t)distance
		       ? edges->to
		       : GRAPH_NONE;
}
