/*
 * Windows against what a program really does: victims run in a child, single-stepped; each step's
 * registers are kept. From every step a window is predicted, and must agree with the steps that
 * followed: same instructions, same addresses, and exactly one iteration where a loop closed.
 */
#include "decode/decode.h"

#include <check.h>

#include "tests/decode/native.h"
#include "tests/decode/victim.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_STEPS 24000

struct step {
	uint64_t regs[DECODE_N_REGS];
	uint64_t fs_base;
	uint8_t stack[DECODE_STACK_BYTES];
	uint32_t stack_bytes;
};

static struct step *steps;
static size_t n_steps;
static struct decode_window window, exact;
static struct decoder *decoder;

/* ---- The child's code and constant data are our own, at the same addresses ---- */

struct lookup {
	uint64_t address;
	uint64_t end; /* of the segment that contains address */
	bool wants_code;
};

static int find_segment(struct dl_phdr_info *info, size_t size, void *user)
{
	struct lookup *lookup = user;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;
		bool is_code = segment->p_type == PT_LOAD && segment->p_flags & PF_X;
		bool is_constant = segment->p_type == PT_LOAD && segment->p_flags == PF_R;

		if (lookup->wants_code ? !is_code : !is_constant)
			continue;
		if (lookup->address >= start && lookup->address < start + segment->p_memsz)
			lookup->end = start + segment->p_memsz;
	}
	return lookup->end != 0;
}

static size_t read_own(uint64_t address, bool wants_code, void *bytes, size_t n_bytes)
{
	struct lookup lookup = { .address = address, .wants_code = wants_code };

	dl_iterate_phdr(find_segment, &lookup);
	if (lookup.end == 0)
		return 0;
	if (n_bytes > lookup.end - address)
		n_bytes = lookup.end - address;
	memcpy(bytes, (const void *)(uintptr_t)address, n_bytes);
	return n_bytes;
}

static size_t read_code(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	(void)user;
	(void)process;
	(void)time;
	return read_own(address, true, bytes, n_bytes);
}

static size_t read_constant(void *user, uint32_t process, uint64_t address, uint64_t time,
			    void *bytes, size_t n_bytes)
{
	(void)user;
	(void)process;
	(void)time;
	return read_own(address, false, bytes, n_bytes);
}

/* ---- Recording ---- */

static void save_step(pid_t child, const struct user_regs_struct *user)
{
	struct step *step = &steps[n_steps];
	struct iovec to = { step->stack, sizeof(step->stack) };
	struct iovec from = { (void *)user->rsp, sizeof(step->stack) };
	ssize_t n;

	native_regs_load(step->regs, user);
	step->fs_base = user->fs_base;
	/* A repetition of a string instruction belongs to the step in which it began. */
	if (n_steps > 0 && steps[n_steps - 1].regs[DECODE_IP] == step->regs[DECODE_IP])
		return;
	n = process_vm_readv(child, &to, 1, &from, 1, 0);
	step->stack_bytes = n > 0 ? (uint32_t)n : 0;
	n_steps++;
}

static pid_t start_victim(const struct victim *victim)
{
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(77);
		raise(SIGSTOP);
		victim->run();
		_exit(0);
	}
	return child;
}

static void record(const struct victim *victim)
{
	pid_t child = start_victim(victim);
	struct user_regs_struct user;
	int status;

	n_steps = 0;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSTOPPED(status));
	while (n_steps < MAX_STEPS) {
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		if (!WIFSTOPPED(status))
			break;
		ck_assert_int_eq(ptrace(PTRACE_GETREGS, child, NULL, &user), 0);
		save_step(child, &user);
	}
	if (WIFSTOPPED(status)) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

static void sample_step(size_t i, struct decode_sample *ret)
{
	const struct step *step = &steps[i];

	*ret = (struct decode_sample){ .ip = step->regs[DECODE_IP],
				       .fs_base = step->fs_base,
				       .stack = step->stack,
				       .stack_bytes = step->stack_bytes };
	memcpy(ret->regs, step->regs, sizeof(ret->regs));
}

/* ---- Comparing ---- */

static struct {
	size_t n_windows;
	size_t n_closed;
	size_t n_accesses;
	size_t n_resolved;
} seen;

/* The operands that instruction i + position had in fact, from its own registers. */
static void check_instruction(size_t i, uint32_t *access, uint32_t position)
{
	struct decode_sample sample;

	ck_assert_uint_lt(i + position, n_steps);
	sample_step(i + position, &sample);
	ck_assert_int_eq(decode_window(decoder, &sample, 1, &exact), 0);
	for (uint32_t j = 0; j < exact.n_accesses; j++, (*access)++) {
		const struct decode_access *predicted = &window.accesses[*access];

		ck_assert_uint_lt(*access, window.n_accesses);
		ck_assert_uint_eq(predicted->position, position);
		ck_assert_uint_eq(predicted->ip, exact.accesses[j].ip);
		ck_assert_uint_eq(predicted->size, exact.accesses[j].size);
		ck_assert_int_eq(predicted->is_read, exact.accesses[j].is_read);
		ck_assert_int_eq(predicted->is_write, exact.accesses[j].is_write);
		seen.n_accesses++;
		if (predicted->state != DECODE_RESOLVED)
			continue;
		ck_assert_uint_eq(predicted->address, exact.accesses[j].address);
		ck_assert_uint_eq(predicted->count, exact.accesses[j].count);
		seen.n_resolved++;
	}
}

/* How many steps until ip and stack pointer of step i return; 0: not within max. */
static uint32_t find_return(size_t i, uint32_t max)
{
	for (uint32_t n = 1; n <= max && i + n < n_steps; n++)
		if (steps[i + n].regs[DECODE_IP] == steps[i].regs[DECODE_IP] &&
		    steps[i + n].regs[DECODE_SP] == steps[i].regs[DECODE_SP])
			return n;
	return 0;
}

static bool is_undecided(enum decode_end end)
{
	return end == DECODE_END_UNKNOWN_BRANCH || end == DECODE_END_UNKNOWN_TARGET ||
	       end == DECODE_END_RETURN;
}

static void check_window(size_t i)
{
	struct decode_sample sample;
	uint32_t access = 0, in_fact;

	sample_step(i, &sample);
	ck_assert_int_eq(decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS, &window), 0);
	in_fact = find_return(i, window.n_instructions);
	if (window.end == DECODE_END_LOOP)
		ck_assert_uint_eq(in_fact, window.n_instructions);
	else if (in_fact) /* over a last branch that the emulator could not decide */
		ck_assert(in_fact == window.n_instructions && is_undecided(window.end));
	for (uint32_t n = 0; n < window.n_instructions && i + n < n_steps; n++)
		check_instruction(i, &access, n);
	seen.n_windows++;
	seen.n_closed += window.end == DECODE_END_LOOP;
}

/* Of the steps that really return within the limit, which part closes in the emulator. */
static double closed_share(void)
{
	size_t returning = 0;

	for (size_t i = 0; i + DECODE_MAX_INSTRUCTIONS < n_steps; i++)
		returning += find_return(i, DECODE_MAX_INSTRUCTIONS) > 0;
	return returning ? (double)seen.n_closed / (double)returning : 0;
}

START_TEST(windows_are_what_the_program_does)
{
	const struct victim *victim = &victims[_i];
	struct decode_memory memory = { .code = read_code, .constant = read_constant };

	memset(&seen, 0, sizeof(seen));
	steps = calloc(MAX_STEPS + 1, sizeof(*steps));
	ck_assert_ptr_nonnull(steps);
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 0, &decoder), 0);
	record(victim);
	for (size_t i = 0; i + DECODE_MAX_INSTRUCTIONS < n_steps; i++)
		check_window(i);
	printf("%-10s %5zu steps, %5.1f %% of the returning ones close, %5.1f %% of %zu accesses "
	       "resolved\n",
	       victim->name, n_steps, 100 * closed_share(),
	       100.0 * (double)seen.n_resolved / (double)seen.n_accesses, seen.n_accesses);
	fflush(stdout);
	ck_assert_uint_gt(seen.n_windows, 200);
	ck_assert_uint_gt(seen.n_resolved, 200);
	/* A loop is left once in a while: its last iteration cannot close. */
	if (victim->is_loop)
		ck_assert_double_gt(closed_share(), 0.9);
	decoder = decode_destroy(decoder);
	free(steps);
}
END_TEST

static bool has_ptrace(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0);
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
	Suite *suite = suite_create("decode-steps");
	TCase *tcase = tcase_create("steps");
	SRunner *runner = srunner_create(suite);
	int n_failed;

	if (!has_ptrace()) {
		puts("needs ptrace of own children");
		return 77;
	}
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, windows_are_what_the_program_does, 0, (int)n_victims);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_ENV);
	n_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
