#include "analyze/sample-unwind.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/expression.h"

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
static const int kept_registers[] = { 3, 6, 12, 13, 14, 15, RETURN_ADDRESS };

struct walk {
	const struct sample_unwind *unwind;
	struct expression_frame frame;
	uint64_t stack_start; /* where the sampled bytes lie */
	enum trace_stop stop;
	bool is_exact; /* the pc is of an instruction, not behind a call */
};

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
	walk->stack_start = walk->frame.registers[STACK_POINTER];
	walk->is_exact = true;
	return true;
}

/* The rules of the instruction that the frame is at; NULL: there are none. The caller frees it. */
static Dwarf_Frame *find_rules(struct walk *walk)
{
	const struct sample_unwind *unwind = walk->unwind;
	uint64_t pc = walk->frame.registers[RETURN_ADDRESS] - !walk->is_exact;
	const struct module *module =
		modules_find(unwind->modules, unwind->process, pc, unwind->time_ns);
	Dwarf_Frame *rules = NULL;
	Dwarf_Addr bias = 0;
	Dwarf_CFI *cfi;

	if (!module || !object_open(module->object) || !module->object->module)
		return NULL;
	cfi = dwfl_module_eh_cfi(module->object->module, &bias);
	if (!cfi || dwarf_cfi_addrframe(cfi, pc - module->bias - bias, &rules) != 0)
		return NULL;
	return rules;
}

static bool find_cfa(struct walk *walk, Dwarf_Frame *rules)
{
	Dwarf_Op *ops;
	size_t n_ops;
	bool is_value;

	return dwarf_frame_cfa(rules, &ops, &n_ops) == 0 && n_ops > 0 &&
	       expression_evaluate(&walk->frame, ops, n_ops, &walk->frame.cfa, &is_value);
}

enum found { FOUND_NONE, FOUND_VALUE, FOUND_END };

static enum found find_register(struct walk *walk, Dwarf_Frame *rules, int number,
				uint64_t *ret_value)
{
	Dwarf_Op memory[3];
	Dwarf_Op *ops;
	size_t n_ops;
	bool is_value;

	if (dwarf_frame_register(rules, number, memory, &ops, &n_ops) != 0)
		return FOUND_NONE;
	if (n_ops == 0 && ops == memory)
		return FOUND_END; /* undefined: of the return address, the outermost frame */
	if (n_ops == 0) {
		*ret_value = walk->frame.registers[number];
		return FOUND_VALUE;
	}
	if (!expression_evaluate(&walk->frame, ops, n_ops, ret_value, &is_value))
		return FOUND_NONE;
	if (!is_value && !read_stack(walk, *ret_value, ret_value))
		return FOUND_NONE;
	return FOUND_VALUE;
}

/* Registers of the caller. False at the end, which stop tells of. */
static bool apply(struct walk *walk, Dwarf_Frame *rules)
{
	struct expression_frame caller = walk->frame;
	bool is_signal = false;
	Dwarf_Addr start, end;

	walk->stop = TRACE_STOP_NO_RULE;
	dwarf_frame_info(rules, &start, &end, &is_signal);
	if (!find_cfa(walk, rules))
		return false;
	for (size_t i = 0; i < sizeof(kept_registers) / sizeof(*kept_registers); i++) {
		int number = kept_registers[i];
		enum found found = find_register(walk, rules, number, &caller.registers[number]);

		if (found == FOUND_VALUE)
			continue;
		if (number != RETURN_ADDRESS && found == FOUND_END)
			continue;
		if (found == FOUND_END)
			walk->stop = TRACE_STOP_NONE;
		return false;
	}
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
	Dwarf_Frame *rules = find_rules(walk);
	bool is_done;

	if (!rules) {
		walk->stop = TRACE_STOP_NO_RULE;
		return false;
	}
	is_done = apply(walk, rules);
	free(rules);
	if (is_done && walk->frame.registers[RETURN_ADDRESS] == 0) {
		walk->stop = TRACE_STOP_NONE;
		return false;
	}
	return is_done;
}

size_t sample_unwind(const struct sample_unwind *unwind, uint64_t *pcs, size_t max,
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
