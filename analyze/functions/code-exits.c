#include "analyze/functions/code-exits.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/functions/code-scan.h"
#include "analyze/symbols/objects.h"
#include "common/array.h"
#include "common/cleanup.h"

#define MAX_PARTS      16u
#define MAX_PART_BYTES (16u << 20)
#define TABLE_REACH    8u /* instructions before a jump that read the table */

/* The function, and parts of it that lie elsewhere. */
struct part {
	uint64_t start;
	uint64_t end;
};

struct walk {
	struct object *object;
	struct part parts[MAX_PARTS];
	size_t n_parts;
	struct code_exits *exits;
	unsigned since_table; /* instructions */
};

static bool is_inside(const struct walk *walk, uint64_t address)
{
	return array_find(walk->parts, walk->n_parts, it,
			  address >= it->start && address < it->end);
}

/* Is the address in a cold part? Then that is walked through as well. */
static bool take_cold(struct walk *walk, uint64_t address)
{
	GElf_Off offset = 0;
	GElf_Sym symbol;
	const char *name = dwfl_module_addrinfo(walk->object->module, address, &offset, &symbol,
						NULL, NULL, NULL);

	if (!name || !strstr(name, ".cold"))
		return false;
	if (walk->n_parts < MAX_PARTS && symbol.st_size > 0)
		walk->parts[walk->n_parts++] =
			(struct part){ address - offset, address - offset + symbol.st_size };
	return true;
}

static int add_exit(struct walk *walk, uint64_t address)
{
	struct code_exits *exits = walk->exits;

	return array_add(exits->items, exits->n, exits->n_allocated, address);
}

static bool has_index(const ZydisDecodedInstruction *instruction)
{
	return instruction->raw.modrm.mod != 3 && instruction->raw.modrm.rm == 4 &&
	       (instruction->raw.sib.index != 4 || instruction->raw.rex.X);
}

/* What comes before a jump by a table: its entry is read, and perhaps added to where it begins. */
static bool reads_table(const ZydisDecodedInstruction *instruction)
{
	switch (instruction->mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVSXD:
		return has_index(instruction);
	case ZYDIS_MNEMONIC_ADD:
		return instruction->raw.modrm.mod == 3 && !instruction->raw.imm[0].size;
	default:
		return false;
	}
}

static bool is_direct(const ZydisDecodedInstruction *instruction)
{
	return instruction->attributes & ZYDIS_ATTRIB_IS_RELATIVE &&
	       instruction->raw.imm[0].is_relative;
}

/* Does the function end here, by a return or in another function? */
static bool ends(struct walk *walk, const ZydisDecodedInstruction *instruction, uint64_t address)
{
	uint64_t target;

	if (instruction->mnemonic == ZYDIS_MNEMONIC_RET)
		return true;
	if (is_direct(instruction) && instruction->mnemonic != ZYDIS_MNEMONIC_CALL) {
		target = address + instruction->length + (uint64_t)instruction->raw.imm[0].value.s;
		return !is_inside(walk, target) && !take_cold(walk, target) &&
		       instruction->mnemonic == ZYDIS_MNEMONIC_JMP;
	}
	return instruction->mnemonic == ZYDIS_MNEMONIC_JMP && !has_index(instruction) &&
	       walk->since_table > TABLE_REACH;
}

static int walk_part(struct walk *walk, const ZydisDecoder *decoder, struct part part)
{
	size_t n_bytes = part.end - part.start, at = 0;
	int r = 0;

	if (n_bytes > MAX_PART_BYTES)
		return -ENODATA;
	auto_free uint8_t *bytes = malloc(n_bytes + 1);
	if (!bytes)
		return -ENOMEM;
	if (object_read(walk->object, part.start, bytes, n_bytes) < n_bytes)
		return -ENODATA;
	walk->since_table = TABLE_REACH + 1;
	while (r == 0 && at < n_bytes) {
		ZydisDecodedInstruction instruction;

		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, NULL, bytes + at,
								n_bytes - at, &instruction)))
			return -ENODATA;
		walk->since_table = reads_table(&instruction) ? 0 : walk->since_table + 1;
		if (ends(walk, &instruction, part.start + at))
			r = add_exit(walk, part.start + at);
		at += instruction.length;
	}
	return r;
}

int code_exits_find(struct object *object, const struct code_function *function,
		    struct code_exits *exits)
{
	struct walk walk = { .object = object, .exits = exits, .n_parts = 1 };
	ZydisDecoder decoder;
	int r = 0;

	walk.parts[0] = (struct part){ function->start, function->end };
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t i = 0; r == 0 && i < walk.n_parts; i++)
		r = walk_part(&walk, &decoder, walk.parts[i]);
	return r;
}
