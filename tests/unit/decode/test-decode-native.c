/*
 * The emulator against the processor: random instructions run in a child process with random
 * registers, some of whose bits the emulator is not told. Every bit that it claims to know -
 * registers, flags, stored memory, the next address - must be the processor's, and every byte
 * that the processor changes must lie in an access that was predicted.
 */
#include "decode/x86/execute.h"

#include <check.h>

#include "tests/unit/decode/native.h"
#include "tests/unit/decode/random-code.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define N_STEPS		  50000 /* compared instructions of each kind */
#define MAX_STEPS	  6
#define MAX_REPEATS	  4096
#define DATA_MIDDLE	  (NATIVE_DATA + 1024)
#define DATA_MIDDLE_BYTES (NATIVE_DATA_BYTES - 2048)

static struct native native;
static struct random seed = { 20240229 };
static uint8_t before[NATIVE_DATA_BYTES];

/* Of the rounds with vector registers. */
static bool has_vectors;
static struct vectors vectors;
static struct decode_vectors sampled_vectors, true_vectors;
static uint64_t n_of_form[ZYDIS_MNEMONIC_MAX_VALUE + 1];

static struct {
	uint64_t n_steps;
	uint64_t n_emulated; /* steps of instructions that are not just skipped */
	uint64_t n_faults;
	uint64_t n_known_bits;
	uint64_t n_bits;
	uint64_t n_words;
	uint64_t n_stores;
	uint64_t n_vectors; /* steps of vector instructions */
} seen;

static size_t read_fixed(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			 size_t n_bytes)
{
	(void)user;
	(void)process;
	(void)time;
	if (address - NATIVE_FIXED >= NATIVE_FIXED_BYTES)
		return 0;
	if (n_bytes > NATIVE_FIXED + NATIVE_FIXED_BYTES - address)
		n_bytes = NATIVE_FIXED + NATIVE_FIXED_BYTES - address;
	memcpy(bytes, native.fixed + (address - NATIVE_FIXED), n_bytes);
	return n_bytes;
}

static const struct decode_memory memory = { .constant = read_fixed };

/* What would leave the child in another state than registers and memory, or leave it altogether. */
static bool is_fit(const uint8_t *code)
{
	ZydisDecoder zydis;
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

	ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (ZYAN_FAILED(
		    ZydisDecoderDecodeFull(&zydis, code, INSTRUCTION_MAX_BYTES, &head, operands)))
		return false;
	for (unsigned i = 0; i < head.operand_count; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ZydisRegisterGetClass(operands[i].reg.value) == ZYDIS_REGCLASS_SEGMENT)
			return false;
	switch (head.meta.category) {
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_PKU:
	case ZYDIS_CATEGORY_SEGOP:
	case ZYDIS_CATEGORY_RDWRFSGS:
	case ZYDIS_CATEGORY_SYSTEM:
	case ZYDIS_CATEGORY_SGX:
	case ZYDIS_CATEGORY_WAITPKG:
		return false;
	default:
		return head.meta.branch_type != ZYDIS_BRANCH_TYPE_FAR &&
		       head.mnemonic != ZYDIS_MNEMONIC_IRET &&
		       head.mnemonic != ZYDIS_MNEMONIC_IRETD &&
		       head.mnemonic != ZYDIS_MNEMONIC_IRETQ;
	}
}

static char *hex(const struct instruction *instruction)
{
	static char text[3 * INSTRUCTION_MAX_BYTES + 1];

	for (unsigned i = 0; i < instruction->bytes; i++)
		snprintf(text + 3 * i, 4, "%02x ",
			 native.code[instruction->address - NATIVE_CODE + i]);
	return text;
}

static void check_value(const struct instruction *instruction, const char *what, unsigned n,
			struct value value, uint64_t truth)
{
	ck_assert_msg(((value.bits ^ truth) & value.known) == 0,
		      "%s: %s %u is %#lx, emulated %#lx (known %#lx)", hex(instruction), what, n,
		      (unsigned long)truth, (unsigned long)value.bits, (unsigned long)value.known);
	ck_assert_msg((value.bits & ~value.known) == 0, "%s: %s %u has bits that are not known",
		      hex(instruction), what, n);
	seen.n_known_bits += (unsigned)__builtin_popcountll(value.known);
}

static void check_regs(const struct machine *machine, const struct instruction *instruction,
		       const uint64_t *regs)
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		if (i != DECODE_IP)
			check_value(instruction, "register", i, machine->regs[i], regs[i]);
	seen.n_bits += 16 * 64 + 7;
	if (machine->end == MACHINE_GOES_ON)
		ck_assert_msg(machine->next == regs[DECODE_IP], "%s: goes to %#lx, emulated %#lx",
			      hex(instruction), (unsigned long)regs[DECODE_IP],
			      (unsigned long)machine->next);
}

static void check_word(const struct instruction *instruction, uint64_t address, struct value value)
{
	uint64_t truth;

	if (address - NATIVE_DATA > NATIVE_DATA_BYTES - sizeof(truth))
		return;
	memcpy(&truth, native.data + (address - NATIVE_DATA), sizeof(truth));
	check_value(instruction, "word at +", (unsigned)(address - NATIVE_DATA), value, truth);
	seen.n_words++;
}

/* All that the machine knows of memory. */
static void check_words(const struct machine *machine, const struct instruction *instruction)
{
	for (unsigned i = 0; i < machine->n_stack; i++)
		if (machine->stack_loaded >> i & machine->stack_stable >> i & 1)
			check_word(instruction, machine->stack_start + i * 8, machine->stack[i]);
	for (unsigned i = 0; i < MACHINE_WORDS; i++)
		if (machine->words_used >> i & machine->words_stable >> i & 1)
			check_word(instruction, machine->words[i].address, machine->words[i].value);
}

static void check_vectors(const struct machine *machine, const struct instruction *instruction)
{
	if (!has_vectors)
		return;
	ck_assert_int_eq(native_vectors_get(native.child, &true_vectors), 0);
	for (unsigned reg = 0; reg < 16; reg++) {
		if (!(machine->vectors->known >> reg & 1))
			continue;
		for (unsigned i = 0; i < true_vectors.n_bytes / 8; i++) {
			uint64_t truth;

			memcpy(&truth, true_vectors.regs[reg] + i * 8, sizeof(truth));
			check_value(instruction, "vector word", reg * 10 + i,
				    machine->vectors->regs[reg].words[i], truth);
		}
	}
	seen.n_bits += 16 * true_vectors.n_bytes * 8;
}

/* Whether the byte at address may be written by the instruction; n: how often it repeats. */
static bool is_predicted(const struct machine *machine, const struct instruction *instruction,
			 uint64_t address, uint64_t n, bool is_backward)
{
	for (unsigned i = 0; i < instruction->n_memory; i++) {
		const struct memory_operand *operand = &instruction->memory[i];
		uint64_t start = machine->addresses[i].bits;

		if (!(operand->flags & MEMORY_WRITE))
			continue;
		if (!value_is_exact(machine->addresses[i]) ||
		    operand->flags & (MEMORY_GATHER | MEMORY_OPEN_END))
			return true;
		if (is_backward)
			start -= (n - 1) * operand->size;
		if (address - start < n * operand->size)
			return true;
	}
	return false;
}

static void check_stores(const struct machine *machine, const struct instruction *instruction,
			 const uint64_t *regs)
{
	bool repeats = instruction->repeat != REPEAT_NONE;
	uint64_t n = repeats ? regs[DECODE_CX] : 1;

	if (memcmp(before, native.data, sizeof(before)) == 0)
		return;
	seen.n_stores++;
	if (machine->stack_stable == 0)
		return; /* declared: it may have stored anywhere */
	for (unsigned i = 0; i < NATIVE_DATA_BYTES; i++)
		if (before[i] != native.data[i])
			ck_assert_msg(is_predicted(machine, instruction, NATIVE_DATA + i, n,
						   repeats && regs[DECODE_FLAGS] & 0x400),
				      "%s: changes byte +%u", hex(instruction), i);
}

/* A division that the emulator has carried out must not have trapped. */
static void check_fault(const struct machine *machine, const struct instruction *instruction,
			int signal)
{
	bool divides = instruction->execute == decode_execute_div ||
		       instruction->execute == decode_execute_idiv;

	seen.n_faults++;
	if (signal == SIGFPE && divides && machine->end != DECODE_END_TRAP)
		ck_assert_msg(!value_is_exact(machine->regs[DECODE_AX]), "%s: traps",
			      hex(instruction));
}

/* Stops within: between two repetitions, or two lanes of a gather. */
static bool goes_on(const struct instruction *instruction)
{
	return instruction->repeat != REPEAT_NONE || instruction->execute == decode_execute_gather;
}

/* Returns false when the round ends: a fault, a store that may have hit the stack, an end. */
static bool run_step(struct machine *machine, uint64_t regs[DECODE_N_REGS])
{
	uint64_t address = machine->next, regs_before[DECODE_N_REGS];
	struct instruction instruction;
	int signal;

	if (address - NATIVE_CODE > NATIVE_CODE_BYTES - INSTRUCTION_MAX_BYTES ||
	    !is_fit(native.code + (address - NATIVE_CODE)) ||
	    decode_instruction_fill(native.code + (address - NATIVE_CODE), INSTRUCTION_MAX_BYTES,
				    address, &instruction) < 0)
		return false;
	memcpy(before, native.data, sizeof(before));
	memcpy(regs_before, regs, sizeof(regs_before));
	regs[DECODE_IP] = address;
	signal = native_step(&native, goes_on(&instruction) ? MAX_REPEATS : 1, regs);
	ck_assert_int_ge(signal, 0);
	decode_machine_prepare(machine, &instruction);
	machine->next += instruction.bytes;
	instruction.execute(machine, &instruction);
	if (signal != 0) {
		check_fault(machine, &instruction, signal);
		return false;
	}
	if (regs[DECODE_IP] == address && goes_on(&instruction))
		return false; /* longer than the oracle waits */
	seen.n_steps++;
	seen.n_emulated += instruction.execute != decode_execute_skip;
	ck_assert_msg(machine->end != DECODE_END_TRAP, "%s: does not trap", hex(&instruction));
	check_regs(machine, &instruction, regs);
	check_stores(machine, &instruction, regs_before);
	check_words(machine, &instruction);
	check_vectors(machine, &instruction);
	seen.n_vectors += instruction.element != 0;
	return machine->end == MACHINE_GOES_ON && machine->stack_stable == UINT64_MAX;
}

/* Hide some bits of some registers from the emulator. */
static void hide_bits(struct machine *machine)
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++) {
		struct value *value = &machine->regs[i];

		switch (random_below(&seed, 8)) {
		case 0:
			value->known = 0;
			break;
		case 1:
			value->known &= random_next(&seed) | random_next(&seed);
			break;
		default:
			break;
		}
		value->bits &= value->known;
	}
}

static void choose_regs(uint64_t regs[DECODE_N_REGS])
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		regs[i] = random_reg(&seed, DATA_MIDDLE, DATA_MIDDLE_BYTES);
	if (random_below(&seed, 4) == 0)
		regs[DECODE_BX] = NATIVE_FIXED + random_below(&seed, NATIVE_FIXED_BYTES);
	if (random_below(&seed, 4) != 0)
		regs[DECODE_SP] = DATA_MIDDLE + random_below(&seed, DATA_MIDDLE_BYTES);
	regs[DECODE_FLAGS] = (random_next(&seed) & FLAGS_STATUS) | 0x202;
	if (random_below(&seed, 8) == 0)
		regs[DECODE_FLAGS] |= FLAG_DIRECTION;
}

/* An emulated vector instruction, of the forms one as often as the other. */
static bool is_chosen(const struct instruction *instruction, const uint8_t *code)
{
	ZydisDecoder zydis;
	ZydisDecodedInstruction head;

	if (!instruction->element)
		return false;
	ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&zydis, NULL, code, INSTRUCTION_MAX_BYTES,
						      &head)))
		return false;
	if (n_of_form[head.mnemonic] > N_STEPS / 500 && random_below(&seed, 16))
		return false;
	n_of_form[head.mnemonic]++;
	return true;
}

/* Small numbers, so that gathers find memory, or anything; some bits of some are not told. */
static void choose_vectors(struct machine *machine)
{
	sampled_vectors.n_regs = 16;
	sampled_vectors.n_bytes = 32;
	for (unsigned reg = 0; reg < 16; reg++) {
		unsigned kind = random_below(&seed, 4);

		for (unsigned i = 0; i < 8; i++) {
			uint32_t lane = (uint32_t)random_reg(&seed, 0, 4096);

			if (kind == 0)
				lane = random_below(&seed, 64);
			if (kind == 1)
				lane = random_below(&seed, 2) ? UINT32_MAX : 0;
			memcpy(sampled_vectors.regs[reg] + i * 4, &lane, sizeof(lane));
		}
	}
	ck_assert_int_eq(native_vectors_set(native.child, &sampled_vectors), 0);
	ck_assert_int_eq(native_vectors_get(native.child, &sampled_vectors), 0);
	decode_vectors_init(machine, &vectors);
	for (unsigned i = 0; i < 16 * VECTOR_WORDS; i++) {
		struct value *word = &vectors.regs[i / VECTOR_WORDS].words[i % VECTOR_WORDS];

		if (random_below(&seed, 8) == 0)
			word->known &= random_below(&seed, 2) ? random_next(&seed) : 0;
		word->bits &= word->known;
	}
}

/* The instructions of a round lie one behind the other. */
static uint64_t choose_code(void)
{
	unsigned offset = 64 + random_below(&seed, 1024);
	uint64_t start = NATIVE_CODE + offset;
	struct instruction instruction;

	for (unsigned i = 0; i < MAX_STEPS; i++) {
		bool is_vector = has_vectors && random_below(&seed, 4);

		do {
			if (is_vector)
				random_vector_instruction(&seed, native.code + offset);
			else
				random_instruction(&seed, native.code + offset);
		} while (decode_instruction_fill(native.code + offset, INSTRUCTION_MAX_BYTES,
						 NATIVE_CODE + offset, &instruction) < 0 ||
			 (is_vector && !is_chosen(&instruction, native.code + offset)));
		offset += instruction.bytes;
	}
	return start;
}

static void run_round(bool hides)
{
	uint8_t stack[DECODE_STACK_BYTES];
	struct decode_sample sample = { .ip = choose_code(),
					.stack = stack,
					.vectors = &sampled_vectors };
	uint64_t regs[DECODE_N_REGS];
	struct machine machine;

	choose_regs(sample.regs);
	if (sample.regs[DECODE_SP] - NATIVE_DATA < NATIVE_DATA_BYTES - sizeof(stack)) {
		sample.stack_bytes = 1 + random_below(&seed, DECODE_STACK_BYTES);
		memcpy(stack, native.data + (sample.regs[DECODE_SP] - NATIVE_DATA), sizeof(stack));
	}
	memcpy(regs, sample.regs, sizeof(regs));
	decode_machine_init(&machine, &memory, &sample);
	if (has_vectors)
		choose_vectors(&machine);
	if (hides)
		hide_bits(&machine);
	for (unsigned i = 0; i < MAX_STEPS; i++)
		if (!run_step(&machine, regs))
			break;
}

static void fill(uint8_t *bytes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		bytes[i] = (uint8_t)(random_next(&seed) >> 56);
}

/* DECODE_SEED=N runs other rounds than usual. */
static void run_rounds(bool hides)
{
	const char *arg_seed = getenv("DECODE_SEED");
	unsigned n_wanted = has_vectors ? N_STEPS / 4 : N_STEPS;

	if (arg_seed)
		seed.state ^= strtoull(arg_seed, NULL, 0) * 2 + (hides ? 1u << 31 : 0);
	ck_assert_int_eq(native_open(&native), 0);
	fill(native.fixed, NATIVE_FIXED_BYTES);
	for (unsigned i = 0; seen.n_steps < n_wanted; i++) {
		if (i % 256 == 0)
			fill(native.data, NATIVE_DATA_BYTES);
		run_round(hides);
	}
	native_close(&native);
	printf("%lu steps, %lu emulated, %lu faults, %lu with stores, %lu words compared, "
	       "%.1f %% of the bits known\n",
	       seen.n_steps, seen.n_emulated, seen.n_faults, seen.n_stores, seen.n_words,
	       100.0 * (double)seen.n_known_bits / (double)seen.n_bits);
	ck_assert_uint_gt(seen.n_emulated, n_wanted / 2);
	ck_assert_uint_gt(seen.n_stores, n_wanted / 40);
	ck_assert_uint_gt(seen.n_known_bits, seen.n_bits / 2);
}

START_TEST(what_the_emulator_knows_is_what_the_processor_has)
{
	run_rounds(false);
}
END_TEST

START_TEST(bits_that_are_hidden_never_come_back_wrong)
{
	seed.state = 19720101;
	run_rounds(true);
}
END_TEST

/* SSE and AVX2 in registers, stack and constant data: what the processor lacks is a fault. */
START_TEST(vector_registers_are_the_processors)
{
	unsigned n_forms = 0;

	seed.state = 19991011;
	has_vectors = true;
	run_rounds(false);
	for (unsigned i = 0; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++)
		n_forms += n_of_form[i] > 0;
	printf("%lu steps of vector instructions, %u forms\n", seen.n_vectors, n_forms);
	ck_assert_uint_gt(seen.n_vectors, N_STEPS / 8);
	ck_assert_uint_gt(n_forms, 200);
}
END_TEST

static bool has_oracle(void)
{
	int err = native_open(&native);

	if (err == 0)
		native_close(&native);
	return err == 0;
}

int main(void)
{
	Suite *suite = suite_create("decode-native");
	TCase *tcase = tcase_create("native"), *tcase_vectors = tcase_create("vectors");

	if (!has_oracle()) {
		puts("needs ptrace of own children");
		return 77;
	}
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, what_the_emulator_knows_is_what_the_processor_has);
	tcase_add_test(tcase, bits_that_are_hidden_never_come_back_wrong);
	tcase_set_timeout(tcase_vectors, 300);
	tcase_add_test(tcase_vectors, vector_registers_are_the_processors);
	suite_add_tcase(suite, tcase);
	suite_add_tcase(suite, tcase_vectors);
	return suite_run(suite);
}
