#include "decode/decode.h"

#include "decode/block.h"
#include "decode/decoder.h"
#include "decode/execute.h"
#include "decode/stall.h"

#include <errno.h>
#include <stdlib.h>

int decode_create(unsigned machine, const struct decode_memory *memory, size_t cache_entries,
		  struct decoder **ret_decoder)
{
	struct decoder *decoder;
	int err;

	if (machine != DECODE_MACHINE_X86_64)
		return -EOPNOTSUPP;
	if (!memory->code)
		return -EINVAL;
	decoder = calloc(1, sizeof(*decoder));
	if (!decoder)
		return -ENOMEM;
	decoder->memory = *memory;
	decoder->estimators = DECODE_ESTIMATORS;
	err = decode_cache_init(&decoder->cache,
				cache_entries ? cache_entries : DECODE_CACHE_ENTRIES);
	if (err < 0) {
		free(decoder);
		return err;
	}
	*ret_decoder = decoder;
	return 0;
}

struct decoder *decode_destroy(struct decoder *decoder)
{
	if (decoder)
		decode_cache_finish(&decoder->cache);
	free(decoder);
	return NULL;
}

void decode_invalidate(struct decoder *decoder, uint32_t process, uint64_t start, uint64_t end)
{
	decode_cache_drop(&decoder->cache, process, start, end);
	decode_behind_drop(&decoder->behind, process, start, end);
}

void decode_set_estimators(struct decoder *decoder, unsigned estimators)
{
	decoder->estimators = estimators;
}

uint64_t decode_n_decoded(const struct decoder *decoder)
{
	return decoder->n_decoded;
}

/* Decode what is not in the cache. NULL: there are no, or not enough, bytes of code. */
static const struct instruction *decode_new(struct decoder *decoder,
					    const struct decode_sample *sample, uint64_t address)
{
	uint8_t code[INSTRUCTION_MAX_BYTES];
	struct instruction instruction;
	size_t n_bytes;
	int err;

	n_bytes = decoder->memory.code(decoder->memory.user, sample->process, address, sample->time,
				       code, sizeof(code));
	if (n_bytes == 0)
		return NULL;
	decoder->n_decoded++;
	err = decode_instruction_fill(code, n_bytes, address, &instruction);
	if (err == -EAGAIN)
		return NULL;
	if (err < 0)
		instruction =
			(struct instruction){ .address = address, .execute = decode_execute_trap };
	instruction.process = sample->process;
	return decode_cache_add(&decoder->cache, &instruction);
}

const struct instruction *decode_find_instruction(struct decoder *decoder,
						  const struct decode_sample *sample,
						  uint64_t address)
{
	const struct instruction *instruction =
		decode_cache_find(&decoder->cache, sample->process, address);

	return instruction ? instruction : decode_new(decoder, sample, address);
}

/* The range of a repeated string instruction: from rcx and the direction flag. */
static void apply_repeat(const struct machine *machine, const struct instruction *instruction,
			 struct decode_access *access)
{
	struct value n = machine_get_reg(machine, DECODE_CX, instruction->address_width);
	struct value flags = machine->regs[DECODE_FLAGS];

	if (!value_is_exact(n) || !(flags.known & FLAG_DIRECTION) ||
	    instruction->repeat == REPEAT_UNTIL) {
		if (access->state == DECODE_RESOLVED)
			access->state = DECODE_BASE_ONLY;
		return;
	}
	access->count = n.bits > UINT32_MAX ? UINT32_MAX : (uint32_t)n.bits;
	if (access->state == DECODE_RESOLVED && flags.bits & FLAG_DIRECTION)
		access->address -= (uint64_t)(access->count - 1) * access->size;
}

static uint8_t find_state(const struct machine *machine, const struct memory_operand *operand,
			  struct value address)
{
	if (!value_is_exact(address))
		return operand->flags & MEMORY_GS ||
				       (operand->flags & MEMORY_FS && !machine->fs_base)
			       ? DECODE_UNKNOWN_SEGMENT
			       : DECODE_UNKNOWN_REGISTER;
	return operand->flags & MEMORY_BASE_ONLY ? DECODE_BASE_ONLY : DECODE_RESOLVED;
}

bool decode_is_repeated_never(const struct machine *machine, const struct instruction *instruction)
{
	struct value n = machine_get_reg(machine, DECODE_CX, instruction->address_width);

	return instruction->repeat != REPEAT_NONE && value_is_exact(n) && n.bits == 0;
}

void decode_fill_access(const struct machine *machine, const struct instruction *instruction,
			unsigned i, struct decode_access *ret_access)
{
	const struct memory_operand *operand = &instruction->memory[i];

	*ret_access = (struct decode_access){
		.ip = instruction->address,
		.address = machine->addresses[i].bits,
		.size = operand->size,
		.count = operand->count,
		.state = find_state(machine, operand, machine->addresses[i]),
		.is_read = operand->flags & MEMORY_READ,
		.is_write = operand->flags & MEMORY_WRITE,
	};
	if (instruction->repeat != REPEAT_NONE)
		apply_repeat(machine, instruction, ret_access);
}

static void note_accesses(struct decode_window *window, const struct machine *machine,
			  const struct instruction *instruction)
{
	if (decode_is_repeated_never(machine, instruction))
		return;
	for (unsigned i = 0; i < instruction->n_memory; i++) {
		struct decode_access *access = &window->accesses[window->n_accesses++];

		decode_fill_access(machine, instruction, i, access);
		access->position = (uint16_t)window->n_instructions;
	}
}

bool decode_is_loop_closed(const struct machine *machine, const struct decode_sample *sample)
{
	struct value stack_pointer = machine->regs[DECODE_SP];

	return machine->next == sample->ip && value_is_exact(stack_pointer) &&
	       stack_pointer.bits == sample->regs[DECODE_SP];
}

/* Run one instruction. Returns false, with window->end set, when the window ends. */
static bool run_instruction(struct decoder *decoder, struct machine *machine,
			    struct decode_window *window)
{
	const struct decode_sample *sample = machine->sample;
	const struct instruction *instruction;

	window->previous_ip = window->end_ip;
	window->end_ip = machine->next;
	if (machine->next < window->head_ip)
		window->head_ip = machine->next;
	instruction = decode_find_instruction(decoder, sample, machine->next);
	if (!instruction || instruction->bytes == 0) {
		window->end = instruction ? DECODE_END_BAD_CODE : DECODE_END_NO_CODE;
		return false;
	}
	decode_machine_prepare(machine, instruction);
	note_accesses(window, machine, instruction);
	machine->next += instruction->bytes;
	instruction->execute(machine, instruction);
	window->n_instructions++;
	if (window->n_block == 0 && decode_execute_is_flow(instruction->execute))
		window->n_block = window->n_instructions;
	if (machine->end == MACHINE_GOES_ON && decode_is_loop_closed(machine, sample))
		machine->end = DECODE_END_LOOP;
	if (machine->end == MACHINE_GOES_ON)
		return true;
	window->end = machine->end;
	return false;
}

static const struct instruction *find_for_block(void *user, const struct decode_sample *sample,
						uint64_t address)
{
	return decode_find_instruction(user, sample, address);
}

static void look_behind(struct decoder *decoder, const struct decode_sample *sample,
			struct decode_window *window)
{
	const struct block_code code = {
		.memory = &decoder->memory,
		.behind = &decoder->behind,
		.find = find_for_block,
		.user = decoder,
	};

	/* A closed loop needs no block, unless it may not be used. */
	if (window->end != DECODE_END_LOOP || !(window->estimators & DECODE_BY_WINDOW))
		decode_block_behind(&code, sample, window);
	decode_stall_find(&code, sample, window);
}

int decode_window(struct decoder *decoder, const struct decode_sample *sample,
		  unsigned max_instructions, struct decode_window *ret_window)
{
	struct machine machine;

	if (max_instructions == 0 || max_instructions > DECODE_MAX_INSTRUCTIONS)
		return -EINVAL;
	decode_machine_init(&machine, &decoder->memory, sample);
	ret_window->estimators = decoder->estimators;
	ret_window->end = DECODE_END_LIMIT;
	ret_window->end_ip = sample->ip;
	ret_window->head_ip = sample->ip;
	ret_window->stall = DECODE_STALL_UNKNOWN;
	ret_window->stall_ip = 0;
	ret_window->n_stalled = 0;
	ret_window->n_instructions = 0;
	ret_window->n_block = 0;
	ret_window->n_accesses = 0;
	ret_window->n_behind = 0;
	while (ret_window->n_instructions < max_instructions)
		if (!run_instruction(decoder, &machine, ret_window))
			break;
	if (ret_window->n_block == 0)
		ret_window->n_block = ret_window->n_instructions;
	if (ret_window->n_instructions > 0)
		look_behind(decoder, sample, ret_window);
	return 0;
}
