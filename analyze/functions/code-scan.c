#include "analyze/functions/code-scan.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/objects.h"
#include "common/array.h"
#include "common/cleanup.h"

#define MAX_CODE_BYTES	 ((size_t)1 << 30) /* of one segment */
#define MAX_TABLE_ROWS	 4096u
#define MAX_TABLES	 64u /* of one function */
#define DATA_CHUNK_BYTES 65536u
#define ENDBR_BYTES	 4u
#define CODE_NEAR	 256u /* functions in which filling is looked for: more than is in reach */

/* Bytes of one executable segment. */
struct code {
	uint64_t start;
	uint8_t *bytes;
	size_t n;
};

/* What is known while a segment is looked through. */
struct sweep {
	ZydisDecoder decoder;
	struct object *object;
	struct code_function *functions;
	size_t n;
	struct code_probe *probes;
	size_t n_probes;
	/* of the function that is looked through: */
	uint64_t tables[MAX_TABLES]; /* addresses that it takes, or jumps through */
	size_t n_tables;
	bool jumps_by_table;
	uint64_t open_slot; /* where the address of dlopen is put; 0: it is not called */
	uint64_t open_stub; /* code of the linker's that jumps there; 0: not met yet */
};

/* The function that an address lies in or behind; NULL: it lies before all of them. */
static struct code_function *function_at(const struct sweep *sweep, uint64_t address)
{
	size_t i = array_n_until(sweep->functions, sweep->n, start, address);

	return i ? &sweep->functions[i - 1] : NULL;
}

/* The first probe around which this address lies may be; the others are behind it. */
static struct code_probe *probes_around(const struct sweep *sweep, uint64_t address)
{
	uint64_t before = address < CODE_AROUND ? 0 : address - CODE_AROUND;

	return &sweep->probes[array_n_until(sweep->probes, sweep->n_probes, place, before)];
}

static bool is_around(const struct sweep *sweep, const struct code_probe *probe, uint64_t address)
{
	return probe < sweep->probes + sweep->n_probes && probe->place <= address + CODE_AROUND &&
	       address + CODE_AROUND - probe->place < 2 * CODE_AROUND;
}

static uint64_t bit_of(const struct code_probe *probe, uint64_t address)
{
	return UINT64_C(1) << (address + CODE_AROUND - probe->place);
}

static void note_start(const struct sweep *sweep, uint64_t address)
{
	if (sweep->n_probes == 0)
		return;
	for (struct code_probe *probe = probes_around(sweep, address);
	     is_around(sweep, probe, address); probe++)
		probe->starts |= bit_of(probe, address);
}

/* Control may come to this address: by a branch from there, or else (0). */
static void note_way_from(const struct sweep *sweep, uint64_t address, uint64_t branch)
{
	struct code_function *function = function_at(sweep, address);

	if (function && address - function->start < CODE_HEAD_BYTES)
		function->entered |= 1u << (address - function->start);
	if (sweep->n_probes == 0)
		return;
	for (struct code_probe *probe = probes_around(sweep, address);
	     is_around(sweep, probe, address); probe++) {
		probe->entered |= bit_of(probe, address);
		if (address != probe->nop)
			continue;
		probe->is_led_to |= branch == 0;
		if (branch && probe->n_branches < CODE_BRANCHES)
			probe->branches[probe->n_branches] = branch;
		probe->n_branches += branch && probe->n_branches <= CODE_BRANCHES;
	}
}

static void note_way_in(const struct sweep *sweep, uint64_t address)
{
	note_way_from(sweep, address, 0);
}

/* A jump within a function to where it begins is a loop, or a call of itself: nobody can tell. */
static void note_loop(struct sweep *sweep, const ZydisDecodedInstruction *instruction,
		      uint64_t address, uint64_t target)
{
	struct code_function *function =
		instruction->mnemonic == ZYDIS_MNEMONIC_CALL ? NULL : function_at(sweep, address);

	if (!function || address >= function->end)
		return;
	function->loops |= target == function->start;
	function->loops_behind |= target == function->start + ENDBR_BYTES;
}

static void note_table(struct sweep *sweep, uint64_t address)
{
	if (sweep->n_tables < MAX_TABLES)
		sweep->tables[sweep->n_tables++] = address;
}

/*
 * Tables of jumps of one function: offsets of 4 bytes from the table's begin, as position
 * independent code has them, or addresses of 8 bytes. A table ends where an entry leads elsewhere.
 */
static void read_table(const struct sweep *sweep, const struct code_function *function,
		       uint64_t table, unsigned entry_bytes)
{
	for (uint64_t i = 0; i < MAX_TABLE_ROWS; i++) {
		int64_t entry = 0;
		int32_t offset = 0;
		uint64_t target;

		if (entry_bytes == 4) {
			if (object_read(sweep->object, table + i * 4, &offset, 4) < 4)
				return;
			target = table + (uint64_t)(int64_t)offset;
		} else {
			if (object_read(sweep->object, table + i * 8, &entry, 8) < 8)
				return;
			target = (uint64_t)entry;
		}
		if (target < function->start || target >= function->end)
			return;
		note_way_in(sweep, target);
	}
}

static void end_function(struct sweep *sweep, const struct code_function *function)
{
	for (size_t i = 0; function && sweep->jumps_by_table && i < sweep->n_tables; i++) {
		read_table(sweep, function, sweep->tables[i], 4);
		read_table(sweep, function, sweep->tables[i], 8);
	}
	sweep->n_tables = 0;
	sweep->jumps_by_table = false;
}

static bool is_nop(const ZydisDecodedInstruction *instruction)
{
	return instruction->mnemonic == ZYDIS_MNEMONIC_NOP ||
	       instruction->mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* Does nothing run behind it, unless control comes there in another way? */
static bool ends_flow(const ZydisDecodedInstruction *instruction)
{
	switch (instruction->mnemonic) {
	case ZYDIS_MNEMONIC_JMP:
	case ZYDIS_MNEMONIC_RET:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_INT3:
		return true;
	default:
		return false;
	}
}

/*
 * Where an operand that is relative to the next instruction leads: of the raw form, since all
 * others are decoded for nothing. False: there is none.
 */
static bool find_relative(const ZydisDecodedInstruction *instruction, uint64_t address,
			  uint64_t *ret_target)
{
	if (!(instruction->attributes & ZYDIS_ATTRIB_IS_RELATIVE))
		return false;
	for (unsigned i = 0; i < 2; i++) {
		if (!instruction->raw.imm[i].is_relative)
			continue;
		*ret_target =
			address + instruction->length + (uint64_t)instruction->raw.imm[i].value.s;
		return true;
	}
	*ret_target = address + instruction->length + (uint64_t)instruction->raw.disp.value;
	return true;
}

static bool is_branch(const ZydisDecodedInstruction *instruction)
{
	return instruction->raw.imm[0].is_relative;
}

/*
 * dlopen finds libraries by the RUNPATH of the file that its return address lies in. Of a function
 * that ends by jumping to it that would be ours. The linker's stubs lie before all functions.
 */
static void note_open(struct sweep *sweep, const ZydisDecodedInstruction *instruction,
		      uint64_t address, uint64_t target)
{
	struct code_function *function = function_at(sweep, address);
	bool is_in_function = function && address < function->end;
	bool is_by_slot = !is_branch(instruction) && target == sweep->open_slot;

	if (!sweep->open_slot || instruction->mnemonic != ZYDIS_MNEMONIC_JMP)
		return;
	/* _init, which has no size, reaches over the stubs. */
	if (is_by_slot)
		sweep->open_stub = address;
	if (is_in_function && (is_by_slot || (sweep->open_stub && target <= sweep->open_stub &&
					      sweep->open_stub - target <= ENDBR_BYTES)))
		function->ends_in_open = true;
}

static void look_at(struct sweep *sweep, const ZydisDecodedInstruction *instruction,
		    uint64_t address)
{
	bool is_by_memory = instruction->raw.modrm.mod != 3;
	uint64_t target;

	if (find_relative(instruction, address, &target)) {
		note_open(sweep, instruction, address, target);
		if (is_branch(instruction)) {
			note_way_from(sweep, target,
				      instruction->mnemonic == ZYDIS_MNEMONIC_CALL ? 0 : address);
			note_loop(sweep, instruction, address, target);
		} else if (instruction->mnemonic == ZYDIS_MNEMONIC_LEA) {
			note_way_in(sweep, target);
			note_table(sweep, target);
		}
		return;
	}
	if (instruction->mnemonic != ZYDIS_MNEMONIC_JMP)
		return;
	sweep->jumps_by_table = true;
	if (is_by_memory && instruction->raw.disp.size == 32)
		note_table(sweep, (uint64_t)instruction->raw.disp.value);
}

/* All of a segment, from one instruction to the next; each function's begin sets it right. */
static void sweep_code(struct sweep *sweep, const struct code *code)
{
	/* The first that is not before it: a segment with the file's head begins at 0. */
	size_t next =
		code->start ? array_n_until(sweep->functions, sweep->n, start, code->start - 1) : 0;
	struct code_function *function = NULL;
	uint64_t filling = 0; /* bytes of filling before `at` */
	bool has_ended = true; /* nothing runs into that */

	for (size_t at = 0; at < code->n;) {
		uint64_t address = code->start + at;
		ZydisDecodedInstruction instruction;
		size_t left = code->n - at;

		if (next < sweep->n && address >= sweep->functions[next].start) {
			end_function(sweep, function);
			function = &sweep->functions[next++];
			address = function->start;
			at = (size_t)(address - code->start);
			left = code->n - at;
			function->filling_bytes = has_ended ? (uint32_t)filling : 0;
		}
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			    &sweep->decoder, NULL, &code->bytes[at], left, &instruction))) {
			at++;
			filling = 0;
			has_ended = false;
			continue;
		}
		note_start(sweep, address);
		look_at(sweep, &instruction, address);
		if (function && address < function->end) {
			function->n_instructions++;
			filling = 0;
			has_ended = ends_flow(&instruction);
		} else if (is_nop(&instruction)) {
			filling += instruction.length;
		} else {
			filling = 0;
			has_ended = ends_flow(&instruction);
		}
		at += instruction.length;
	}
	end_function(sweep, function);
}

/* Addresses of code in data: of labels that are taken, of tables in files at a fixed address. */
static int sweep_data(const struct sweep *sweep, const struct object_segment *segment)
{
	auto_free uint64_t *words = malloc(DATA_CHUNK_BYTES);
	uint64_t begin = (segment->address + 7) & ~UINT64_C(7);
	uint64_t end = segment->address + segment->file_bytes;

	if (!words)
		return -ENOMEM;
	for (uint64_t at = begin; at < end; at += DATA_CHUNK_BYTES) {
		size_t n = object_read(sweep->object, at, words, DATA_CHUNK_BYTES) / 8;

		/* What a damaged head promises need not be there. */
		if (n == 0)
			break;
		for (size_t i = 0; i < n; i++)
			note_way_in(sweep, words[i]);
	}
	return 0;
}

/* The same of those that the loader puts there. */
static void sweep_relocations(const struct sweep *sweep)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(sweep->object->elf, section))) {
		GElf_Shdr head;
		Elf_Data *data;

		if (!gelf_getshdr(section, &head) || head.sh_type != SHT_RELA ||
		    !(data = elf_getdata(section, NULL)) || !head.sh_entsize)
			continue;
		for (size_t i = 0; i < data->d_size / head.sh_entsize; i++) {
			GElf_Rela row;

			if (gelf_getrela(data, (int)i, &row) &&
			    GELF_R_TYPE(row.r_info) == R_X86_64_RELATIVE)
				note_way_in(sweep, (uint64_t)row.r_addend);
		}
	}
}

/* Where the loader puts the address of dlopen. */
static void find_open(struct sweep *sweep)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(sweep->object->elf, section))) {
		GElf_Shdr head, symbols;
		Elf_Data *data, *names;
		Elf_Scn *other;

		if (!gelf_getshdr(section, &head) || head.sh_type != SHT_RELA || !head.sh_entsize ||
		    !(other = elf_getscn(sweep->object->elf, head.sh_link)) ||
		    !gelf_getshdr(other, &symbols) || symbols.sh_type != SHT_DYNSYM ||
		    !(data = elf_getdata(section, NULL)) || !(names = elf_getdata(other, NULL)))
			continue;
		for (size_t i = 0; i < data->d_size / head.sh_entsize; i++) {
			GElf_Rela row;
			GElf_Sym symbol;

			if (!gelf_getrela(data, (int)i, &row) ||
			    !gelf_getsym(names, (int)GELF_R_SYM(row.r_info), &symbol))
				continue;
			const char *name =
				elf_strptr(sweep->object->elf, symbols.sh_link, symbol.st_name);
			if (name && strcmp(name, "dlopen") == 0 &&
			    GELF_R_TYPE(row.r_info) != R_X86_64_64)
				sweep->open_slot = row.r_offset;
		}
	}
}

static int read_code(struct object *object, const struct object_segment *segment,
		     struct code *ret_code)
{
	struct code code = { .start = segment->address };

	if (segment->file_bytes > MAX_CODE_BYTES)
		return -ENOEXEC;
	code.bytes = malloc(segment->file_bytes + 1);
	if (!code.bytes)
		return -ENOMEM;
	code.n = object_read(object, code.start, code.bytes, segment->file_bytes);
	*ret_code = code;
	return 0;
}

/* ---- Where the jump can be ---- */

/* The first instructions of a function. */
struct head {
	const struct code *code;
	struct code_function *function;
	uint64_t next; /* the function behind, or the end of the code */
};

/*
 * Can it run elsewhere, being the last one that moves or not? What is relative to its place is
 * written anew; a call must return to where it would, behind the jump, and may not be counted from
 * the stack pointer, as its return address is pushed by other instructions then.
 */
static bool can_move(const ZydisDecodedInstruction *instruction, bool is_last)
{
	bool is_by_stack = instruction->raw.modrm.mod != 3 && instruction->raw.modrm.rm == 4 &&
			   instruction->raw.sib.base == 4;

	switch (instruction->mnemonic) {
	case ZYDIS_MNEMONIC_CALL:
		return is_last && !is_by_stack;
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_SYSCALL:
	case ZYDIS_MNEMONIC_SYSENTER:
		return false;
	default:
		return true;
	}
}

/* Are the first n_needed of these n bytes within nops? */
static bool is_filling(const uint8_t *bytes, uint64_t n, uint64_t n_needed)
{
	ZydisDecodedInstruction instruction;
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (uint64_t at = 0; at < n_needed; at += instruction.length)
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes + at, n - at,
								&instruction)) ||
		    !is_nop(&instruction))
			return false;
	return true;
}

/*
 * Walk over instructions from `at` on until a jump of n_bytes fits. Behind one that ends the
 * function nothing runs but what something leads to: there is room up to the next function, if it
 * is filling. Returns why it does not fit; sets *ret_moved to the bytes of instructions that move,
 * *ret_does_nothing when all of them are nops.
 */
static enum code_why walk_head(const struct head *head, uint64_t at, unsigned n_bytes,
			       unsigned *ret_moved, bool *ret_does_nothing)
{
	const struct code_function *function = head->function;
	const uint8_t *bytes = head->code->bytes + (at - head->code->start);
	uint64_t room = head->next - at;
	uint64_t within = function->end - at;
	ZydisDecodedInstruction instruction;
	ZydisDecoder decoder;
	unsigned done = 0;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	*ret_does_nothing = true;
	while (done < n_bytes) {
		if (done >= within)
			return CODE_WHY_SHORT;
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes + done,
								within - done, &instruction)))
			return CODE_WHY_UNKNOWN;
		done += instruction.length;
		bool has_ended = ends_flow(&instruction);
		if (!can_move(&instruction, done >= n_bytes))
			return CODE_WHY_FIXED;
		*ret_does_nothing &= instruction.mnemonic == ZYDIS_MNEMONIC_NOP;
		if (has_ended && done < n_bytes) {
			if (done < within || room < n_bytes ||
			    !is_filling(bytes + done, room - done, n_bytes - done))
				return CODE_WHY_SHORT;
			break;
		}
	}
	*ret_moved = done;
	return CODE_WHY_NOT;
}

static bool is_entered(const struct code_function *function, uint64_t at, unsigned n_bytes)
{
	uint32_t first = (uint32_t)(at - function->start) + 1;
	uint32_t bits = ((UINT32_C(1) << (n_bytes - 1)) - 1) << first;

	return function->entered & bits;
}

/* What is there now, for those who change it. */
static void take_bytes(const struct head *head, uint64_t at)
{
	uint64_t offset = at - head->code->start, left = head->code->n - offset;

	memcpy(head->function->head, head->code->bytes + offset,
	       left < CODE_HEAD_BYTES ? left : CODE_HEAD_BYTES);
}

/* Its begin is a loop's, or what it ends in looks at who has called it. */
static bool is_barred(const struct code_function *function)
{
	return function->loops || (function->at && function->loops_behind) ||
	       function->ends_in_open;
}

static void judge(const struct code *code, struct code_function *function, uint64_t next)
{
	static const uint8_t endbr64[ENDBR_BYTES] = { 0xf3, 0x0f, 0x1e, 0xfa };
	struct head head = { .code = code, .function = function, .next = next };
	const uint8_t *bytes = code->bytes + (function->start - code->start);
	uint64_t at = function->start;
	bool does_nothing;
	unsigned n_moved = 0;

	if (next - at >= sizeof(endbr64) && memcmp(bytes, endbr64, sizeof(endbr64)) == 0)
		at += sizeof(endbr64);
	function->at = (uint8_t)(at - function->start);
	take_bytes(&head, at);
	enum code_why why = walk_head(&head, at, CODE_JUMP_BYTES, &n_moved, &does_nothing);
	if (why == CODE_WHY_NOT && is_entered(function, at, CODE_JUMP_BYTES))
		why = CODE_WHY_ENTERED;
	if (is_barred(function))
		why = function->ends_in_open ? CODE_WHY_CALLER : CODE_WHY_ENTERED;
	function->why = (uint8_t)why;
	function->way = CODE_WAY_NONE;
	if (why == CODE_WHY_NOT) {
		function->way = does_nothing ? CODE_WAY_NOPS : CODE_WAY_JUMP;
		function->n_moved_bytes = (uint8_t)n_moved;
	}
}

/* What a jump of n bytes takes of the filling behind function i is not there for others. */
static void take_behind(const struct sweep *sweep, size_t i, unsigned n)
{
	const struct code_function *function = &sweep->functions[i];
	struct code_function *next = &sweep->functions[i + 1];
	uint64_t taken = function->start + function->at + n;

	if (i + 1 < sweep->n && next->start - taken < next->filling_bytes)
		next->filling_bytes = (uint32_t)(next->start - taken);
}

/*
 * Can the long jump lie before function i, out of what a short one covers and within its reach?
 * That counts from behind it, by 8 bits.
 */
static bool take_filling(const struct sweep *sweep, const struct code *code, size_t i,
			 struct code_function *function)
{
	struct code_function *before = &sweep->functions[i];
	uint64_t at = function->start + function->at;
	uint64_t taken = before->n_taken + CODE_JUMP_BYTES;
	int64_t by = (int64_t)(before->start - taken - at);

	if (taken > before->filling_bytes || by < INT8_MIN + (int)CODE_SHORT_BYTES ||
	    by > INT8_MAX + (int)CODE_SHORT_BYTES ||
	    (by > -(int)CODE_JUMP_BYTES && by < (int)CODE_JUMP_BYTES))
		return false;
	before->n_taken = (uint32_t)taken;
	function->long_at = (int16_t)by;
	memcpy(function->filling, code->bytes + (at + (uint64_t)by - code->start), CODE_JUMP_BYTES);
	return true;
}

/* Its own one at best; else that of a function near by. */
static bool find_filling(const struct sweep *sweep, const struct code *code, size_t i)
{
	struct code_function *function = &sweep->functions[i];
	uint64_t start = function->start;
	bool is_found = take_filling(sweep, code, i, function);

	for (size_t k = i; !is_found && k-- > 0 && start - sweep->functions[k].start < CODE_NEAR;)
		is_found = sweep->functions[k].start > code->start &&
			   take_filling(sweep, code, k, function);
	for (size_t k = i + 1;
	     !is_found && k < sweep->n && sweep->functions[k].start - start < CODE_NEAR; k++)
		is_found = sweep->functions[k].start < code->start + code->n &&
			   take_filling(sweep, code, k, function);
	return is_found;
}

/* A short jump, where a long one has no room. */
static void judge_short(const struct sweep *sweep, const struct code *code, size_t i, uint64_t next)
{
	struct code_function *function = &sweep->functions[i];
	struct head head = { .code = code, .function = function, .next = next };
	uint64_t at = function->start + function->at;
	bool does_nothing;
	unsigned n_moved = 0;

	if (i + 1 < sweep->n && sweep->functions[i + 1].start == next)
		head.next -= sweep->functions[i + 1].n_taken;
	if (is_barred(function) ||
	    walk_head(&head, at, CODE_SHORT_BYTES, &n_moved, &does_nothing) != CODE_WHY_NOT ||
	    is_entered(function, at, CODE_SHORT_BYTES) || !find_filling(sweep, code, i))
		return;
	function->way = CODE_WAY_SHORT_JUMP;
	function->why = CODE_WHY_NOT;
	function->n_moved_bytes = (uint8_t)n_moved;
	take_behind(sweep, i, CODE_SHORT_BYTES);
}

/* All long ones first: what they leave of the filling others may have. */
static void judge_all(const struct sweep *sweep, const struct code *code)
{
	uint64_t end = code->start + code->n;

	for (unsigned is_short = 0; is_short < 2; is_short++) {
		for (size_t i = 0; i < sweep->n; i++) {
			struct code_function *function = &sweep->functions[i];
			uint64_t next = i + 1 < sweep->n ? sweep->functions[i + 1].start : end;

			if (function->start < code->start || function->start >= end)
				continue;
			if (function->end > end || function->end <= function->start)
				function->end = end;
			next = next < end ? next : end;
			if (!is_short)
				judge(code, function, next);
			else if (function->way == CODE_WAY_NONE)
				judge_short(sweep, code, i, next);
			if (!is_short && function->way != CODE_WAY_NONE)
				take_behind(sweep, i, CODE_JUMP_BYTES);
		}
	}
}

/* ---- Probes ---- */

static size_t bytes_at(const struct code *code, uint64_t address, ZydisDecodedInstruction *ret)
{
	uint64_t at = address - code->start;
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (at >= code->n || !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
				     &decoder, NULL, &code->bytes[at], code->n - at, ret)))
		return 0;
	return ret->length;
}

/* Is anything led to these bytes but to the first of them, from first + 1 to end - 1? */
static bool is_led_into(const struct code_probe *probe, uint64_t first, uint64_t end)
{
	for (uint64_t at = first + 1; at < end; at++)
		if (probe->entered & bit_of(probe, at))
			return true;
	return false;
}

/*
 * Would a jump at `first` do, which covers the place? What moves are whole instructions up to
 * behind it, and as many more as the jump takes; limit: where the next probe is.
 */
static enum code_why fits_at(const struct code *code, struct code_probe *probe, uint64_t first,
			     uint64_t limit)
{
	uint64_t at = first, jump_end = first + CODE_JUMP_BYTES;
	ZydisDecodedInstruction instruction;
	unsigned n = 0;

	while (at <= probe->place || at < jump_end) {
		size_t n_bytes = at < limit ? bytes_at(code, at, &instruction) : 0;

		if (at >= limit)
			return CODE_WHY_NEAR;
		if (n_bytes == 0)
			return CODE_WHY_UNKNOWN;
		at += n_bytes;
		n++;
		if (!can_move(&instruction, at > probe->place && at >= jump_end))
			return CODE_WHY_FIXED;
		if (!ends_flow(&instruction) || (at > probe->place && at >= jump_end))
			continue;
		if (at <= probe->place || jump_end > limit || jump_end - code->start > code->n ||
		    !is_filling(&code->bytes[at - code->start], code->n - (at - code->start),
				jump_end - at))
			return CODE_WHY_SHORT;
		break;
	}
	if (at - first > CODE_HEAD_BYTES)
		return CODE_WHY_SHORT;
	if (is_led_into(probe, first, jump_end > probe->place + 1 ? jump_end : probe->place + 1))
		return CODE_WHY_ENTERED;
	probe->code.n_moved_bytes = (uint8_t)(at - first);
	probe->code.n_instructions = n;
	return CODE_WHY_NOT;
}

/* Does control come to the nop from the instruction before it? Behind what ends it is filling. */
static bool is_run_into(const struct code *code, const struct code_probe *probe)
{
	for (uint64_t at = probe->nop - 1; at + CODE_AROUND > probe->nop && at >= code->start;
	     at--) {
		ZydisDecodedInstruction instruction;

		if (!(probe->starts & bit_of(probe, at)))
			continue;
		if (bytes_at(code, at, &instruction) == 0)
			return true;
		if (!is_nop(&instruction))
			return !ends_flow(&instruction);
		if (probe->entered & bit_of(probe, at))
			return true;
	}
	return true;
}

/* before: where the last probe's code ends. Intel SDM: 90 is a nop. */
static void judge_probe(const struct code *code, struct code_probe *probe, uint64_t before,
			uint64_t limit)
{
	enum code_why first_why = CODE_WHY_NOT, why = CODE_WHY_UNKNOWN;
	bool is_nop_there = code->bytes[probe->place - code->start] == 0x90;
	uint64_t first = probe->place;

	if ((probe->place == probe->nop && !is_nop_there) ||
	    !(probe->starts & bit_of(probe, first))) {
		probe->code.why = CODE_WHY_UNKNOWN;
		probe->n_branches = 0;
		return;
	}
	for (unsigned back = 0; back < CODE_HEAD_BYTES && why != CODE_WHY_NOT; back++) {
		first = probe->place - back;
		if (first < before || first < code->start)
			break;
		if (!(probe->starts & bit_of(probe, first)))
			continue;
		why = fits_at(code, probe, first, limit);
		first_why = first_why == CODE_WHY_NOT ? why : first_why;
	}
	if (probe->place != probe->nop || probe->is_led_to || probe->n_branches > CODE_BRANCHES ||
	    is_run_into(code, probe))
		probe->n_branches = 0;
	probe->code.why = (uint8_t)(why == CODE_WHY_NOT ? why : first_why);
	if (why != CODE_WHY_NOT)
		return;
	probe->code.way = CODE_WAY_JUMP;
	probe->code.start = first;
	probe->code.place = (uint8_t)(probe->place - first);
	memcpy(probe->code.head, &code->bytes[first - code->start],
	       code->n - (first - code->start) < CODE_HEAD_BYTES ? code->n - (first - code->start)
								 : CODE_HEAD_BYTES);
}

static void judge_probes(const struct sweep *sweep, const struct code *code)
{
	uint64_t before = 0, end = code->start + code->n;

	for (size_t i = 0; i < sweep->n_probes; i++) {
		struct code_probe *probe = &sweep->probes[i];
		uint64_t next = i + 1 < sweep->n_probes ? probe[1].place : end;

		if (probe->place < code->start || probe->place >= end)
			continue;
		judge_probe(code, probe, before, next < end ? next : end);
		if (probe->code.way == CODE_WAY_JUMP)
			before = probe->code.start + probe->code.n_moved_bytes;
	}
}

int code_scan(struct object *object, const struct code_wish *wish)
{
	struct sweep sweep = {
		.object = object,
		.functions = wish->functions,
		.n = wish->n_functions,
		.probes = wish->probes,
		.n_probes = wish->n_probes,
	};
	GElf_Ehdr head;
	int r = 0;

	if (!object_open(object) || !gelf_getehdr(object->elf, &head) ||
	    head.e_machine != EM_X86_64 || head.e_ident[EI_CLASS] != ELFCLASS64)
		return -ENOEXEC;
	ZydisDecoderInit(&sweep.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t i = 0; i < sweep.n; i++)
		sweep.functions[i] = (struct code_function){
			.start = sweep.functions[i].start,
			.end = sweep.functions[i].end,
			.way = CODE_WAY_NONE,
			.why = CODE_WHY_MISSING,
		};
	for (size_t i = 0; i < sweep.n_probes; i++)
		sweep.probes[i].code = (struct code_function){
			.start = sweep.probes[i].place,
			.way = CODE_WAY_NONE,
			.why = CODE_WHY_MISSING,
		};
	find_open(&sweep);
	auto_free struct code *codes = calloc(object->n_segments + 1, sizeof(*codes));
	if (!codes)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < object->n_segments; i++) {
		const struct object_segment *segment = &object->segments[i];

		if (!segment->is_executable)
			r = sweep_data(&sweep, segment);
		else if ((r = read_code(object, segment, &codes[i])) == 0)
			sweep_code(&sweep, &codes[i]);
	}
	sweep_relocations(&sweep);
	for (size_t i = 0; r == 0 && i < object->n_segments; i++)
		if (codes[i].bytes) {
			judge_all(&sweep, &codes[i]);
			judge_probes(&sweep, &codes[i]);
		}
	for (size_t i = 0; i < object->n_segments; i++)
		free(codes[i].bytes);
	return r;
}
