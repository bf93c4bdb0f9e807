#include "analyze/samples/callchain.h"

#include <dwarf.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/modules.h"
#include "analyze/samples/samples-internal.h"
#include "analyze/symbols/dwarf-expression.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "perf/record.h"
#include "schemas/ring.h"
#include "schemas/trace-format.h"

struct sample_unwind {
	struct modules *modules;
	const struct tasks *tasks;
	const struct key_map *thunks;
	uint32_t process;
	int64_t time_ns;
	const struct pmu_sample *sample;
};

/*
 * Follow a sample's call stack by the unwind tables (.eh_frame) of the files that its image had
 * mapped, on the registers and stack bytes that were sampled. x86-64.
 */

#define THUNK_BYTES    16
#define STACK_POINTER  7
#define RETURN_ADDRESS 16

/* arch/x86/include/uapi/asm/perf_regs.h: traces of x86-64 are read on other processors too. */
enum {
	PERF_AX,
	PERF_BX,
	PERF_CX,
	PERF_DX,
	PERF_SI,
	PERF_DI,
	PERF_BP,
	PERF_SP,
	PERF_IP,
	PERF_R8 = 16,
	PERF_R9,
	PERF_R10,
	PERF_R11,
	PERF_R12,
	PERF_R13,
	PERF_R14,
	PERF_R15,
};

/* perf's registers by DWARF's numbers (System V ABI, AMD64, figure 3.36). */
static const uint8_t perf_registers[EXPRESSION_N_REGISTERS] = {
	PERF_AX, PERF_DX,  PERF_CX,  PERF_BX,  PERF_SI,	 PERF_DI,  PERF_BP,  PERF_SP, PERF_R8,
	PERF_R9, PERF_R10, PERF_R11, PERF_R12, PERF_R13, PERF_R14, PERF_R15, PERF_IP,
};

/* What a call keeps. */
static const int kept_registers[] = { 3, 6, 12, 13, 14, 15 };
#define MAX_ROWS_BACK 64 /* rows of a function before the one at hand */

struct walk {
	const struct sample_unwind *unwind;
	struct expression_frame frame;
	uint64_t stack_start; /* where the sampled bytes lie */
	enum trace_stop stop;
	bool is_exact; /* the pc is of an instruction, not behind a call */
};

/* Of a file; bias: its addresses in the process less those in the table. */
struct unwind_table {
	Dwarf_CFI *cfi;
	uint64_t bias;
};

/*
 * The address that a call would have returned to if its function had not been instrumented. What a
 * process knew of that when it forked its child has as well.
 */
static uint64_t return_of(const struct sample_unwind *unwind, uint64_t pc)
{
	uint64_t thunk = pc & -(uint64_t)THUNK_BYTES;
	uint32_t process = unwind->thunks && unwind->thunks->n ? unwind->process : 0;

	while (process) {
		uint64_t to = key_map_get(unwind->thunks, process, thunk);
		const struct task_process *task = to ? NULL : tasks_process(unwind->tasks, process);

		if (to)
			return to;
		process = task && task->birth == RING_BIRTH_FORK && task->parent != process
				  ? task->parent
				  : 0;
	}
	return pc;
}

static bool read_stack(void *user, uint64_t address, uint64_t *ret_value)
{
	struct walk *walk = user;
	const struct pmu_sample *sample = walk->unwind->sample;
	uint64_t offset = address - walk->stack_start;

	if (address < walk->stack_start || !sample->stack) {
		walk->stop = TRACE_STOP_BAD_STACK;
		return false;
	}
	if (sample->stack_bytes < sizeof(*ret_value) ||
	    offset > sample->stack_bytes - sizeof(*ret_value)) {
		walk->stop = TRACE_STOP_DEPTH;
		return false;
	}
	memcpy(ret_value, (const uint8_t *)sample->stack + offset, sizeof(*ret_value));
	return true;
}

static bool begin(struct walk *walk)
{
	const struct pmu_sample *sample = walk->unwind->sample;

	if (!pmu_sample_is_x86(sample))
		return false;
	for (unsigned i = 0; i < EXPRESSION_N_REGISTERS; i++)
		if (!pmu_sample_register(sample, perf_registers[i], &walk->frame.registers[i]))
			return false;
	walk->frame.read = read_stack;
	walk->frame.user = walk;
	walk->frame.known = EXPRESSION_ALL_REGISTERS;
	walk->stack_start = walk->frame.registers[STACK_POINTER];
	walk->is_exact = true;
	return true;
}

/*
 * The rules at pc, which is of the file that cfi is of. NULL: there are none. The caller frees it.
 */
static Dwarf_Frame *rules_at(const struct unwind_table *table, uint64_t pc)
{
	Dwarf_Frame *rules = NULL;

	return dwarf_cfi_addrframe(table->cfi, pc - table->bias, &rules) == 0 ? rules : NULL;
}

/* The table of the file that holds the frame's instruction. False: there is none. */
static bool find_table(const struct walk *walk, uint64_t pc, struct unwind_table *ret_table)
{
	const struct sample_unwind *unwind = walk->unwind;
	const struct module *module =
		modules_find(unwind->modules, unwind->process, pc, unwind->time_ns);
	Dwarf_Addr bias = 0;

	if (!module || !object_open(module->object) || !module->object->module)
		return false;
	ret_table->cfi = dwfl_module_eh_cfi(module->object->module, &bias);
	ret_table->bias = module->bias + bias;
	return ret_table->cfi != NULL;
}

static bool find_cfa(const struct walk *walk, Dwarf_Frame *rules, uint64_t *ret_cfa)
{
	Dwarf_Op *ops;
	size_t n_ops;
	bool is_value;

	return dwarf_frame_cfa(rules, &ops, &n_ops) == 0 && n_ops > 0 &&
	       expression_evaluate(&walk->frame, ops, n_ops, ret_cfa, &is_value);
}

enum found { FOUND_NONE, FOUND_VALUE, FOUND_SAME, FOUND_SLOT, FOUND_END };

/* The rule of a register: its value, or the address of the slot where it is saved. */
static enum found find_rule(const struct walk *walk, Dwarf_Frame *rules, int number,
			    uint64_t *ret_value)
{
	Dwarf_Op memory[3];
	Dwarf_Op *ops;
	size_t n_ops;
	bool is_value;

	if (dwarf_frame_register(rules, number, memory, &ops, &n_ops) != 0)
		return FOUND_NONE;
	if (n_ops == 0)
		/* Undefined is, of the return address, the outermost frame. */
		return ops == memory ? FOUND_END : FOUND_SAME;
	if (!expression_evaluate(&walk->frame, ops, n_ops, ret_value, &is_value))
		return FOUND_NONE;
	return is_value ? FOUND_VALUE : FOUND_SLOT;
}

enum slot {
	SLOT_NONE, /* the register is not saved there */
	SLOT_BELOW, /* it is, below the stack pointer */
	SLOT_INSIDE, /* it is, and the stack reaches down to it */
	/* it is; where the stack ends is not told: the CFA hangs on another register */
	SLOT_FRAMED,
};

/* What a row says of the slot that lies `below` bytes below the CFA. */
static enum slot find_slot(const struct walk *walk, Dwarf_Frame *rules, int number, uint64_t below)
{
	struct walk there = *walk;
	uint64_t address = 0;
	Dwarf_Op *ops;
	size_t n_ops;

	if (!find_cfa(&there, rules, &there.frame.cfa) ||
	    find_rule(&there, rules, number, &address) != FOUND_SLOT ||
	    there.frame.cfa - address != below || dwarf_frame_cfa(rules, &ops, &n_ops) != 0)
		return SLOT_NONE;
	if (ops[0].atom != DW_OP_breg0 + STACK_POINTER)
		return SLOT_FRAMED;
	return ops[0].number >= below ? SLOT_INSIDE : SLOT_BELOW;
}

/*
 * A slot below the stack pointer, of which nothing was sampled: the epilogue has given it back, and
 * compilers do not say that the register has its value again. It has, unless the function never put
 * its stack pointer below the slot: then the slot is in the red zone, and the register may have
 * changed.
 */
static bool is_restored(const struct walk *walk, int number, uint64_t below)
{
	uint64_t pc = walk->frame.registers[RETURN_ADDRESS];
	struct unwind_table table;
	enum slot slot = SLOT_BELOW;

	if (!walk->is_exact || !find_table(walk, pc, &table))
		return false;
	for (size_t i = 0; i < MAX_ROWS_BACK && slot == SLOT_BELOW; i++) {
		auto_free Dwarf_Frame *rules = rules_at(&table, pc);
		Dwarf_Addr start = 0, end;

		if (!rules || dwarf_frame_info(rules, &start, &end, NULL) < 0)
			return false;
		slot = find_slot(walk, rules, number, below);
		if (slot == SLOT_FRAMED)
			return i > 0;
		pc = start + table.bias - 1;
	}
	return slot == SLOT_INSIDE;
}

/* The caller's value of a register. FOUND_NONE: it is not known. */
static enum found find_register(struct walk *walk, Dwarf_Frame *rules, int number,
				uint64_t *ret_value)
{
	uint64_t value = 0;
	enum found found = find_rule(walk, rules, number, &value);

	if (found == FOUND_SLOT && value < walk->stack_start && number != RETURN_ADDRESS)
		found = is_restored(walk, number, walk->frame.cfa - value) ? FOUND_SAME
									   : FOUND_NONE;
	else if (found == FOUND_SLOT)
		found = read_stack(walk, value, &value) ? FOUND_VALUE : FOUND_NONE;
	if (found == FOUND_SAME && walk->frame.known >> number & 1) {
		value = walk->frame.registers[number];
		found = FOUND_VALUE;
	}
	if (found == FOUND_VALUE)
		*ret_value = value;
	return found;
}

/* What a call keeps; what is not known of it is missed only where a rule asks for it. */
static void find_kept(struct walk *walk, Dwarf_Frame *rules, struct expression_frame *caller)
{
	for (size_t i = 0; i < sizeof(kept_registers) / sizeof(*kept_registers); i++) {
		int number = kept_registers[i];
		enum found found = find_register(walk, rules, number, &caller->registers[number]);

		if (found != FOUND_VALUE && found != FOUND_END)
			caller->known &= ~(UINT32_C(1) << number);
	}
}

/* Registers of the caller. False at the end, which stop tells of. */
static bool apply(struct walk *walk, Dwarf_Frame *rules)
{
	bool is_signal = false;
	Dwarf_Addr start, end;

	walk->stop = TRACE_STOP_NO_RULE;
	dwarf_frame_info(rules, &start, &end, &is_signal);
	if (!find_cfa(walk, rules, &walk->frame.cfa))
		return false;
	struct expression_frame caller = walk->frame;
	find_kept(walk, rules, &caller);
	enum found found =
		find_register(walk, rules, RETURN_ADDRESS, &caller.registers[RETURN_ADDRESS]);
	if (found == FOUND_END)
		walk->stop = TRACE_STOP_NONE;
	if (found != FOUND_VALUE)
		return false;
	caller.registers[RETURN_ADDRESS] =
		return_of(walk->unwind, caller.registers[RETURN_ADDRESS]);
	caller.registers[STACK_POINTER] = walk->frame.cfa;
	if (caller.registers[STACK_POINTER] <= walk->frame.registers[STACK_POINTER] && !is_signal) {
		walk->stop = TRACE_STOP_BAD_STACK; /* it would never end */
		return false;
	}
	walk->frame = caller;
	walk->is_exact = is_signal;
	return true;
}

static bool step(struct walk *walk)
{
	uint64_t pc = walk->frame.registers[RETURN_ADDRESS] - !walk->is_exact;
	struct unwind_table table;
	auto_free Dwarf_Frame *rules = find_table(walk, pc, &table) ? rules_at(&table, pc) : NULL;

	if (!rules) {
		walk->stop = TRACE_STOP_NO_RULE;
		return false;
	}
	bool is_done = apply(walk, rules);
	if (is_done && walk->frame.registers[RETURN_ADDRESS] == 0) {
		walk->stop = TRACE_STOP_NONE;
		return false;
	}
	return is_done;
}

/*
 * The instruction itself, then return addresses outwards, into pcs (at least 1 of max). *ret_stop:
 * why it ends; TRACE_STOP_NONE: it is whole; TRACE_STOP_DEPTH: the sampled bytes or max end.
 * Returns how many, or 0: the sample has no 64-bit registers.
 */
static size_t sample_unwind(const struct sample_unwind *unwind, uint64_t *pcs, size_t max,
			    enum trace_stop *ret_stop)
{
	struct walk walk = { .unwind = unwind };
	size_t n = 0;

	if (!begin(&walk))
		return 0;
	pcs[n++] = walk.frame.registers[RETURN_ADDRESS];
	while (step(&walk)) {
		if (n == max) {
			walk.stop = TRACE_STOP_DEPTH;
			break;
		}
		pcs[n++] = walk.frame.registers[RETURN_ADDRESS] + walk.is_exact;
	}
	*ret_stop = walk.stop;
	return n;
}

/* What the kernel writes between the addresses: whose they are. PERF_CONTEXT_MAX is the lowest. */
static bool is_marker(uint64_t word)
{
	return word >= (uint64_t)PERF_CONTEXT_MAX;
}

/* The user's part of a chain, innermost first. */
static size_t take_user(const struct pmu_sample *sample, uint64_t *pcs, size_t max)
{
	bool is_user = true;
	size_t n = 0;

	for (uint64_t i = 0; i < sample->n_callchain && n < max; i++) {
		uint64_t word = sample->callchain[i];

		if (is_marker(word))
			is_user = word == (uint64_t)PERF_CONTEXT_USER;
		else if (is_user && word != 0)
			pcs[n++] = word;
	}
	return n;
}

/* Clock samples carry a little of the stack anyway, for their accesses. */
static bool is_kept_for_unwinding(const struct sample_source *source)
{
	return source->stack_bytes > DECODE_STACK_BYTES;
}

int64_t sample_stack(struct samples *samples, const struct sample_source *source,
		     const struct pmu_sample *sample, uint32_t process, int64_t time_ns)
{
	uint64_t pcs[STACKS_MAX_PATH];
	struct stacks_path path = { .process = process, .pcs = pcs, .time_ns = time_ns };
	const struct sample_unwind unwind = {
		.modules = samples->context.modules,
		.tasks = samples->context.tasks,
		.thunks = samples->context.thunks,
		.process = process,
		.time_ns = time_ns,
		.sample = sample,
	};

	if (source->format.sample_type & PERF_SAMPLE_CALLCHAIN)
		path.n = take_user(sample, pcs, STACKS_MAX_PATH);
	for (size_t i = 1; i < path.n; i++)
		pcs[i] = return_of(&unwind, pcs[i]);
	if (path.n == STACKS_MAX_PATH)
		path.stop = TRACE_STOP_DEPTH;
	if (path.n == 0 && is_kept_for_unwinding(source))
		path.n = sample_unwind(&unwind, pcs, STACKS_MAX_PATH, &path.stop);
	return path.n ? stacks_path(samples->context.stacks, &path) : 0;
}
