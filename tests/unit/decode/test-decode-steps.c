/*
 * Windows against what a program really does: victims run in a child, single-stepped; each step's
 * registers are kept. From every step a window is predicted, and must agree with the steps that
 * followed: same instructions, same addresses, and exactly one iteration where a loop closed. What
 * is charged before the step, and what is said to have been waited for, must have run right before
 * it.
 */
#include "decode/decode.h"

#include <check.h>

#include "common/cleanup.h"
#include "tests/unit/decode/native.h"
#include "tests/unit/decode/victim.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_STEPS    12000
#define MOST_OFF     0.015 /* that the stack's share is from its part of the accesses */
#define MOST_NOT_RUN 0.005 /* of time at instructions that did not run */

struct step {
	uint64_t regs[DECODE_N_REGS];
	uint64_t fs_base;
	uint8_t stack[DECODE_STACK_BYTES];
	uint32_t stack_bytes;
	struct decode_vectors vectors; /* of victims; n_regs 0: not taken */
};

static struct step *steps;
static bool takes_vectors;
static size_t n_steps;
static struct decode_window window, exact;
static struct decoder *decoder;

/* ---- Code and constant data are read from the stopped child ---- */

static pid_t child;
static struct {
	uint64_t start;
	uint64_t end;
} constant_maps[64];
static unsigned n_constant_maps;

static size_t read_child(uint64_t address, void *bytes, size_t n_bytes)
{
	size_t in_page = 4096 - address % 4096;
	struct iovec to = { bytes, n_bytes };
	struct iovec from[2] = { { (void *)(uintptr_t)address, n_bytes } };
	ssize_t n;

	if (n_bytes > in_page) { /* what lies behind the page may not be mapped */
		from[0].iov_len = in_page;
		from[1] =
			(struct iovec){ (void *)(uintptr_t)(address + in_page), n_bytes - in_page };
	}
	n = process_vm_readv(child, &to, 1, from, n_bytes > in_page ? 2 : 1, 0);
	return n > 0 ? (size_t)n : 0;
}

static size_t read_code(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	(void)user;
	(void)process;
	(void)time;
	return read_child(address, bytes, n_bytes);
}

static size_t read_constant(void *user, uint32_t process, uint64_t address, uint64_t time,
			    void *bytes, size_t n_bytes)
{
	(void)user;
	(void)process;
	(void)time;
	for (unsigned i = 0; i < n_constant_maps; i++)
		if (address >= constant_maps[i].start && address + n_bytes <= constant_maps[i].end)
			return read_child(address, bytes, n_bytes);
	return 0;
}

/* Our own read-only maps, which a forked child has as well: complete, since main() runs. */
static void find_constant_maps(void)
{
	auto_fclose FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], prot[5];
	uint64_t start, end;

	n_constant_maps = 0;
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, prot) == 3 &&
		    strcmp(prot, "r--p") == 0 && n_constant_maps < 64) {
			constant_maps[n_constant_maps].start = start;
			constant_maps[n_constant_maps++].end = end;
		}
}

/* ---- Recording ---- */

static void save_step(const struct user_regs_struct *user)
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
	if (takes_vectors)
		ck_assert_int_eq(native_vectors_get(child, &step->vectors), 0);
	n_steps++;
}

/* The victim stops itself before and behind what is to be stepped. */
static void start_victim(const struct victim *victim)
{
	find_constant_maps();
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(77);
	raise(SIGSTOP);
	victim->run();
	raise(SIGSTOP);
	_exit(0);
}

/* A program that runs for ever, stopped somewhere in its middle. */
static void start_program(char *const *command)
{
	n_constant_maps = 0; /* its dynamic linker may still change what is read-only later */
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!freopen("/dev/null", "w", stdout))
			_exit(126);
		execv(command[0], command);
		_exit(127);
	}
	usleep(300000);
	ck_assert_int_eq(ptrace(PTRACE_ATTACH, child, NULL, NULL), 0);
}

static void end_child(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void record_steps(void)
{
	struct user_regs_struct user;
	int status;

	n_steps = 0;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSTOPPED(status));
	while (n_steps < MAX_STEPS) {
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSTOPPED(status));
		if (WSTOPSIG(status) != SIGTRAP)
			break;
		ck_assert_int_eq(ptrace(PTRACE_GETREGS, child, NULL, &user), 0);
		save_step(&user);
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
	size_t n_lanes; /* of gathers, scatters and masked moves that have more than two */
	size_t n_lanes_told; /* of these */
	size_t n_behind;
	size_t n_stalls; /* told */
	size_t n_stalls_wrong;
	size_t n_within;
} seen;

/* Whether what was predicted of a position are its operands, and not some lanes of them. */
static bool is_whole(const struct decode_window *predicted, uint32_t access, uint32_t position)
{
	for (uint32_t j = 0; j < exact.n_accesses; j++, access++)
		if (access >= predicted->n_accesses ||
		    predicted->accesses[access].position != position ||
		    predicted->accesses[access].size != exact.accesses[j].size)
			return false;
	return access == predicted->n_accesses || predicted->accesses[access].position != position;
}

/* Of lanes, those that are told must have run; in all there are not fewer of them than ran. */
static void check_lanes(uint32_t *access, uint32_t position)
{
	uint32_t n = 0, n_true = 0;

	for (uint32_t j = 0; j < exact.n_accesses; j++) {
		ck_assert_int_eq(exact.accesses[j].state, DECODE_RESOLVED);
		n_true += exact.accesses[j].count * exact.accesses[j].size;
	}
	for (; *access < window.n_accesses && window.accesses[*access].position == position;
	     (*access)++) {
		const struct decode_access *predicted = &window.accesses[*access];
		uint32_t j = 0;

		n += predicted->count * predicted->size;
		seen.n_accesses++;
		if (predicted->state != DECODE_RESOLVED)
			continue;
		while (j < exact.n_accesses && (exact.accesses[j].address != predicted->address ||
						exact.accesses[j].size != predicted->size))
			j++;
		ck_assert_msg(j < exact.n_accesses, "no lane of %#lx touches %#lx",
			      (unsigned long)predicted->ip, (unsigned long)predicted->address);
		seen.n_resolved++;
		seen.n_lanes_told += exact.n_accesses > 2;
	}
	ck_assert_msg(n >= n_true, "%#lx touches %u bytes, predicted %u",
		      (unsigned long)exact.accesses[0].ip, n_true, n);
}

/* The operands that instruction i + position had in fact, from its own registers. */
static void check_instruction(size_t i, uint32_t *access, uint32_t position)
{
	struct decode_sample sample;

	ck_assert_uint_lt(i + position, n_steps);
	sample_step(i + position, &sample);
	if (takes_vectors)
		sample.vectors = &steps[i + position].vectors;
	ck_assert_int_eq(decode_window(decoder, &sample, 1, &exact), 0);
	seen.n_lanes += exact.n_accesses > 2 ? exact.n_accesses : 0;
	if (!is_whole(&window, *access, position)) {
		check_lanes(access, position);
		return;
	}
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
		seen.n_lanes_told += exact.n_accesses > 2;
	}
}

/* Whether step i had an operand like this one in fact. */
static bool has_access(size_t i, const struct decode_access *access)
{
	struct decode_sample sample;
	bool is_there = false;

	sample_step(i, &sample);
	ck_assert_int_eq(decode_window(decoder, &sample, 1, &exact), 0);
	for (uint32_t j = 0; j < exact.n_accesses; j++)
		is_there |= exact.accesses[j].address == access->address &&
			    exact.accesses[j].is_write == access->is_write;
	return is_there;
}

/* Whether step i accessed something in the range. */
static bool has_within(size_t i, const struct decode_access *access)
{
	struct decode_sample sample;
	bool is_there = false;

	sample_step(i, &sample);
	ck_assert_int_eq(decode_window(decoder, &sample, 1, &exact), 0);
	for (uint32_t j = 0; j < exact.n_accesses; j++) {
		const struct decode_access *true_one = &exact.accesses[j];
		uint64_t at = true_one->address - access->address;

		is_there |= true_one->is_write == access->is_write && at < access->range &&
			    at + true_one->size <= access->range;
	}
	return is_there;
}

/* Of step i it is known where it accesses, or about where: it did. */
static void check_place(size_t i, const struct decode_access *access)
{
	if (access->state == DECODE_RESOLVED)
		ck_assert(has_access(i, access));
	else if (access->state == DECODE_WITHIN)
		ck_assert(has_within(i, access));
	seen.n_within += access->state == DECODE_WITHIN;
}

static void check_behind(size_t i)
{
	for (uint32_t k = 0; k < window.n_behind && window.behind[k].position <= i; k++) {
		const struct decode_access *access = &window.behind[k];
		size_t at = i - access->position;

		ck_assert_uint_eq(access->ip, steps[at].regs[DECODE_IP]);
		check_place(at, access);
		seen.n_behind++;
	}
}

/* The one right before, or the comparison that a branch there is one operation with. */
static void check_stall(size_t i)
{
	if (window.stall == DECODE_STALL_UNKNOWN || i < 2 ||
	    window.stall_ip == steps[i].regs[DECODE_IP])
		return;
	size_t at = window.stall_ip == steps[i - 1].regs[DECODE_IP] ? i - 1 : i - 2;

	seen.n_stalls++;
	if (window.stall_ip != steps[at].regs[DECODE_IP]) {
		seen.n_stalls_wrong++;
		return;
	}
	for (uint32_t k = 0; k < window.n_stalled; k++)
		check_place(at, &window.stalled[k]);
}

static bool is_call(size_t i)
{
	uint8_t bytes[4] = { 0 };
	unsigned at = 0;

	if (steps[i].regs[DECODE_SP] - 8 != steps[i + 1].regs[DECODE_SP])
		return false;
	read_child(steps[i].regs[DECODE_IP], bytes, sizeof(bytes));
	while (at < 2 && (bytes[at] == 0x3e || bytes[at] == 0xf2 || (bytes[at] & 0xf0) == 0x40))
		at++;
	return bytes[at] == 0xe8 || (bytes[at] == 0xff && (bytes[at + 1] & 0x38) == 0x10);
}

/* Whether a call has left at step `to` another return address than was there at step i. */
static bool has_other_caller(size_t i, size_t to)
{
	uint64_t highest = 0, sp = steps[i].regs[DECODE_SP];

	/* From the last one on: what is not below a later stack pointer has not returned. */
	for (size_t at = to; at-- > i;) {
		uint64_t offset = steps[at + 1].regs[DECODE_SP] - sp;

		if (steps[at + 1].regs[DECODE_SP] < highest)
			continue;
		highest = steps[at + 1].regs[DECODE_SP];
		if (is_call(at) && offset + 8 <= steps[i].stack_bytes &&
		    memcmp(steps[i].stack + offset, steps[to].stack + offset, 8) != 0)
			return true;
	}
	return false;
}

/* How many steps until step i returns, called from the same places; 0: not within max. */
static uint32_t find_return(size_t i, uint32_t max)
{
	for (uint32_t n = 1; n <= max && i + n < n_steps; n++)
		if (steps[i + n].regs[DECODE_IP] == steps[i].regs[DECODE_IP] &&
		    steps[i + n].regs[DECODE_SP] == steps[i].regs[DECODE_SP] &&
		    !has_other_caller(i, i + n))
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
	check_behind(i);
	check_stall(i);
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

/* Record, and compare from every step that has enough steps behind it. */
static void compare_steps(const char *name)
{
	struct decode_memory memory = { .code = read_code, .constant = read_constant };

	memset(&seen, 0, sizeof(seen));
	steps = calloc(MAX_STEPS + 1, sizeof(*steps));
	ck_assert_ptr_nonnull(steps);
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 0, &decoder), 0);
	record_steps();
	for (size_t i = 0; i + DECODE_MAX_INSTRUCTIONS < n_steps; i++)
		check_window(i);
	printf("%-10s %5zu steps, %5.1f %% of the returning ones close, %5.1f %% of %zu accesses "
	       "resolved\n",
	       name, n_steps, 100 * closed_share(),
	       100.0 * (double)seen.n_resolved / (double)seen.n_accesses, seen.n_accesses);
	printf("           %zu accesses before a step, all ran; of %zu stalls told %zu at a wrong "
	       "instruction\n",
	       seen.n_behind, seen.n_stalls, seen.n_stalls_wrong);
	fflush(stdout);
	ck_assert_uint_le(100 * seen.n_stalls_wrong, seen.n_stalls);
	ck_assert_uint_gt(seen.n_windows, 200);
	ck_assert_uint_gt(seen.n_resolved, 200);
	decoder = decode_destroy(decoder);
}

/* ---- Shares ---- */

#define STACK_BELOW 4096u
#define STACK_ABOVE (UINT64_C(1) << 20)

/* What charges say of all steps, and of the accesses that they made in fact. */
static struct {
	double charged; /* to accesses */
	double stack; /* of these, to the stack; what is not known is none of it */
	double unknown;
	double not_run;
	double likely; /* to code that need not have run, by how often it does */
	size_t n_accesses;
	size_t n_stack;
} told;

static bool is_on_stack(const struct decode_access *access, size_t i)
{
	return access->address - steps[i].regs[DECODE_SP] + STACK_BELOW < STACK_BELOW + STACK_ABOVE;
}

/* Whether step `at` accessed the stack of step i with that instruction. */
static bool was_on_stack(size_t at, const struct decode_access *access, size_t i)
{
	struct decode_sample sample;
	bool is_there = false;

	sample_step(at, &sample);
	ck_assert_int_eq(decode_window(decoder, &sample, 1, &exact), 0);
	for (uint32_t k = 0; k < exact.n_accesses; k++)
		is_there |= exact.accesses[k].is_write == access->is_write &&
			    is_on_stack(&exact.accesses[k], i);
	return is_there;
}

/* An access that is charged to the sample at step i, and said to be of step `at`. */
static void add_share(size_t i, size_t at, const struct decode_access *access)
{
	bool has_run = at < n_steps && access->ip == steps[at].regs[DECODE_IP];

	if (access->share <= 0)
		return;
	told.charged += access->share;
	if (!has_run)
		told.not_run += access->share;
	if (access->state != DECODE_NEXT_TURN && !decode_state_has_address(access->state))
		told.unknown += access->share;
	else if (is_on_stack(access, i))
		told.stack += access->share;
	if (has_run)
		check_place(at, access);
	/* Of another turn: it is no other's memory all the same. */
	if (has_run && access->state == DECODE_NEXT_TURN)
		ck_assert(is_on_stack(access, i) == was_on_stack(at, access, i));
}

/* Of code that may run or not: whose it is may be known, the address only in the frame. */
static void add_likely(size_t i, const struct decode_access *access)
{
	told.charged += access->share;
	told.likely += access->share;
	if (access->state != DECODE_NEXT_TURN && !decode_state_has_address(access->state))
		told.unknown += access->share;
	else if (is_on_stack(access, i))
		told.stack += access->share;
}

static void count_accesses(size_t i)
{
	struct decode_sample sample;

	sample_step(i, &sample);
	ck_assert_int_eq(decode_window(decoder, &sample, 1, &exact), 0);
	for (uint32_t k = 0; k < exact.n_accesses; k++) {
		told.n_accesses++;
		told.n_stack += is_on_stack(&exact.accesses[k], i);
	}
}

static void add_shares(size_t i)
{
	struct decode_sample sample;
	struct decode_charge charge;

	sample_step(i, &sample);
	ck_assert_int_eq(decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS, &window), 0);
	decode_charge(&window, &charge);
	for (uint32_t k = 0; k < window.n_accesses; k++)
		add_share(i, i + window.accesses[k].position, &window.accesses[k]);
	for (uint32_t k = 0; k < window.n_behind; k++)
		add_share(i, i - window.behind[k].position, &window.behind[k]);
	for (uint32_t k = window.n_accesses; k < charge.n_charged; k++)
		add_likely(i, &window.accesses[k]);
}

#define LEAD  64u /* steps before the first that is charged */
#define APART 5u /* from one that is charged to the next: 1 to so many */

static void check_shares(const struct victim *victim)
{
	struct decode_memory memory = { .code = read_code, .constant = read_constant };

	memset(&told, 0, sizeof(told));
	steps = calloc(MAX_STEPS + 1, sizeof(*steps));
	ck_assert_ptr_nonnull(steps);
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 0, &decoder), 0);
	start_victim(victim);
	record_steps();
	for (size_t i = LEAD; i + DECODE_MAX_INSTRUCTIONS < n_steps; i++)
		count_accesses(i);
	for (size_t i = LEAD; i + DECODE_MAX_INSTRUCTIONS < n_steps; i += 1 + i * 7919 % APART)
		add_shares(i);
	double stack = told.stack / told.charged, unknown = told.unknown / told.charged;
	double not_run = told.not_run / told.charged;
	double true_stack = (double)told.n_stack / (double)told.n_accesses;
	printf("%-10s %5zu steps, stack %.1f %%, charged %.1f, unknown %.1f, not run %.2f, "
	       "other ways %.1f\n",
	       victim->name, n_steps, 100 * true_stack, 100 * stack, 100 * unknown, 100 * not_run,
	       100 * told.likely / told.charged);
	fflush(stdout);
	ck_assert_uint_gt(told.n_accesses, 1000);
	if (victim->is_loop)
		ck_assert_double_le(fabs(stack - true_stack), MOST_OFF);
	ck_assert_double_ge(true_stack, stack - MOST_OFF);
	ck_assert_double_le(true_stack, stack + unknown + MOST_OFF);
	ck_assert_double_le(not_run, MOST_NOT_RUN);
	decoder = decode_destroy(decoder);
	free(steps);
	end_child();
}

START_TEST(plain_code_is_charged_by_its_accesses)
{
	check_shares(&plain_victims[_i]);
}
END_TEST

START_TEST(plain_code_of_another_compiler_is_charged_by_its_accesses)
{
	check_shares(&other_plain_victims[_i]);
}
END_TEST

static bool has_features(const char *names)
{
	return strcmp(names, "avx2") == 0
		       ? __builtin_cpu_supports("avx2")
		       : __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
}

START_TEST(windows_are_what_the_victim_does)
{
	const struct victim *victim = &victims[_i];

	if (victim->needs && !has_features(victim->needs)) {
		printf("%-10s this processor lacks %s\n", victim->name, victim->needs);
		return;
	}
	takes_vectors = victim->needs != NULL;
	start_victim(victim);
	compare_steps(victim->name);
	ck_assert_uint_gt(seen.n_stalls, 200);
	ck_assert_uint_eq(seen.n_stalls_wrong, 0);
	if (victim->needs) {
		printf("           %zu of %zu lanes told\n", seen.n_lanes_told, seen.n_lanes);
		ck_assert_uint_gt(seen.n_lanes, 500);
		ck_assert_uint_ge(victim->one_lane_in * seen.n_lanes_told, seen.n_lanes);
	}
	/* A loop is left once in a while: its last iteration cannot close. */
	if (victim->is_loop)
		ck_assert_double_gt(closed_share(), 0.9);
	free(steps);
	end_child();
}
END_TEST

static char *const programs[][6] = {
	{ "/bin/gzip", "-c", "/dev/urandom", NULL },
	{ "/bin/sh", "-c", "i=0; while :; do i=$((i + 1)); done", NULL },
	{ "/usr/bin/awk", "BEGIN { while (1) x[i++ % 999] = i \" \" sin(i) }", NULL },
	{ "/usr/bin/perl", "-e", "while (1) { push @x, { $i++ => \"a$i\" }; @x = () if @x > 99 }",
	  NULL },
};

START_TEST(windows_are_what_a_program_of_the_system_does)
{
	if (access(programs[_i][0], X_OK) < 0)
		return; /* perl and gzip are essential in Debian, not elsewhere */
	takes_vectors = true; /* libc copies and searches with masks where there is AVX-512 */
	start_program(programs[_i]);
	compare_steps(strrchr(programs[_i][0], '/') + 1);
	free(steps);
	end_child();
}
END_TEST

static bool has_ptrace(void)
{
	pid_t probe = fork();
	int status;

	if (probe == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0);
	return probe > 0 && waitpid(probe, &status, 0) == probe && status == 0;
}

int main(void)
{
	Suite *suite = suite_create("decode-steps");
	TCase *tcase = tcase_create("steps");

	if (!has_ptrace()) {
		puts("needs ptrace of own children");
		return 77;
	}
	tcase_set_timeout(tcase, 240);
	tcase_add_loop_test(tcase, windows_are_what_the_victim_does, 0, (int)n_victims);
	tcase_add_loop_test(tcase, windows_are_what_a_program_of_the_system_does, 0,
			    (int)(sizeof(programs) / sizeof(programs[0])));
	tcase_add_loop_test(tcase, plain_code_is_charged_by_its_accesses, 0, (int)n_plain_victims);
	if (other_plain_victims)
		tcase_add_loop_test(tcase,
				    plain_code_of_another_compiler_is_charged_by_its_accesses, 0,
				    (int)n_other_plain_victims);
	else
		puts("only one compiler is installed: gcc or clang");
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
