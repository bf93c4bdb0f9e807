/*
 * Single-steps a program in stretches, takes random steps for samples, and compares what decode/
 * tells from each with what the processor did: which instructions ran before and after it, and what
 * they accessed.
 *
 *	stepper [below] SEED STRETCHES STEPS GAP_MS PROGRAM [ARGUMENT...]
 *
 * below: samples have the bytes below their stack pointer, as those of --source signal.
 * The program runs on for GAP_MS before each stretch of STEPS instructions. Prints "NAME NUMBER",
 * one a line; shares are sums over samples. Only the first thread is stepped. Exits with 77 where
 * ptrace is not allowed.
 */
#include "decode/decode.h"

#include "common/cleanup.h"
#include "common/unwind-table.h"
#include "tests/unit/decode/native.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGES	    4096u /* that are kept of the program, a stretch */
#define PAGE_BYTES  4096u
#define MAX_MAPS    4096u
#define ONE_IN	    40 /* steps is a sample */
#define MOST_BEFORE (DECODE_MAX_BEHIND + 1)

struct step {
	uint64_t regs[DECODE_N_REGS];
	uint64_t fs_base;
	uint8_t stack[DECODE_STACK_BYTES];
	uint32_t stack_bytes;
	uint8_t below[DECODE_BELOW_BYTES];
	bool is_sample;
};

static struct {
	uint64_t start, end;
	uint64_t file; /* where the file of the mapping begins; 0: it has none */
	bool is_written, is_code;
} maps[MAX_MAPS];
static unsigned n_maps;

static struct {
	uint64_t address; /* 0: none */
	uint8_t bytes[PAGE_BYTES];
} * pages;

static bool has_below;
static pid_t child;
static int memory_fd = -1;
static struct step *steps;
static size_t n_steps;
static struct decoder *predicting, *telling;
static struct decode_window window, exact;

static struct {
	uint64_t samples, stepped, loops, loops_wrong;
	double charged; /* all shares of accesses and of code */
	double resolved, code; /* of these with an address; of code without accesses */
	double unknown; /* of these with nothing to find an owner by */
	double not_run; /* of instructions that did not run there */
	uint64_t addresses, addresses_wrong;
	uint64_t stalls, stalls_wrong;
} seen;

/* ---- The stopped program's memory ---- */

static void read_maps(void)
{
	char path[32], line[512], prot[5], inode[24];
	uint64_t offset, begin = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
	auto_fclose FILE *file = fopen(path, "re");

	n_maps = 0;
	while (file && n_maps < MAX_MAPS && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %23s",
			   &maps[n_maps].start, &maps[n_maps].end, prot, &offset, inode) != 5)
			continue;
		if (strcmp(inode, "0") == 0)
			begin = 0;
		else if (offset == 0)
			begin = maps[n_maps].start;
		maps[n_maps].file = begin;
		maps[n_maps].is_written = prot[1] == 'w';
		maps[n_maps++].is_code = prot[2] == 'x';
	}
}

static const uint8_t *find_page(uint64_t address)
{
	unsigned i = (unsigned)(address / PAGE_BYTES % PAGES);

	if (pages[i].address != address) {
		pages[i].address = 0;
		if (pread(memory_fd, pages[i].bytes, PAGE_BYTES, (off_t)address) != PAGE_BYTES)
			return NULL;
		pages[i].address = address;
	}
	return pages[i].bytes;
}

static size_t read_pages(uint64_t address, uint64_t end, uint8_t *bytes, size_t n_bytes)
{
	size_t n = 0;

	while (n < n_bytes && address + n < end) {
		size_t in_page = (address + n) % PAGE_BYTES, more = PAGE_BYTES - in_page;
		const uint8_t *page = find_page(address + n - in_page);

		if (!page)
			break;
		more = more < n_bytes - n ? more : n_bytes - n;
		memcpy(bytes + n, page + in_page, more);
		n += more;
	}
	return n;
}

static size_t read_known(uint64_t address, bool is_code, void *bytes, size_t n_bytes)
{
	for (unsigned i = 0; i < n_maps; i++)
		if (address >= maps[i].start && address < maps[i].end)
			return (is_code ? maps[i].is_code : !maps[i].is_written)
				       ? read_pages(address, maps[i].end, bytes, n_bytes)
				       : 0;
	return 0;
}

static size_t read_code(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	(void)user;
	(void)process;
	(void)time;
	return read_known(address, true, bytes, n_bytes);
}

static size_t read_constant(void *user, uint32_t process, uint64_t address, uint64_t time,
			    void *bytes, size_t n_bytes)
{
	(void)user;
	(void)process;
	(void)time;
	return read_known(address, false, bytes, n_bytes);
}

static size_t read_unwind(void *user, uint64_t address, void *bytes, size_t n_bytes)
{
	(void)user;
	return read_known(address, false, bytes, n_bytes);
}

/* Of the file's headers, as they are mapped, that of its table for unwinding; 0: none. */
static uint64_t find_table(uint64_t file)
{
	uint64_t bias = file, table = 0;
	Elf64_Phdr header;
	Elf64_Ehdr elf;

	if (read_known(file, false, &elf, sizeof(elf)) < sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
		return 0;
	for (unsigned i = 0; i < elf.e_phnum; i++) {
		if (read_known(file + elf.e_phoff + i * sizeof(header), false, &header,
			       sizeof(header)) < sizeof(header))
			return 0;
		if (header.p_type == PT_LOAD && header.p_offset == 0)
			bias = file - header.p_vaddr;
		if (header.p_type == PT_GNU_EH_FRAME)
			table = header.p_vaddr;
	}
	return table ? bias + table : 0;
}

static uint64_t find_begin(void *user, uint32_t process, uint64_t address, uint64_t time)
{
	(void)user;
	(void)process;
	(void)time;
	for (unsigned i = 0; i < n_maps; i++) {
		if (address < maps[i].start || address >= maps[i].end || !maps[i].file)
			continue;
		uint64_t table = find_table(maps[i].file);
		return table ? unwind_table_begin(table, address, read_unwind, NULL) : 0;
	}
	return 0;
}

/* ---- What ran ---- */

static void sample_of(size_t i, struct decode_sample *ret_sample)
{
	*ret_sample = (struct decode_sample){ .ip = steps[i].regs[DECODE_IP],
					      .fs_base = steps[i].fs_base,
					      .stack = steps[i].stack,
					      .stack_bytes = steps[i].stack_bytes,
					      .below = has_below ? steps[i].below : NULL,
					      .below_bytes = DECODE_BELOW_BYTES };
	memcpy(ret_sample->regs, steps[i].regs, sizeof(ret_sample->regs));
}

static bool is_at(size_t i, uint64_t ip)
{
	return i < n_steps && steps[i].regs[DECODE_IP] == ip;
}

/*
 * Whether step i accessed that address in fact; nothing is said where its own operands are not
 * known.
 */
static void check_address(size_t i, const struct decode_access *access)
{
	struct decode_sample sample;

	sample_of(i, &sample);
	if (decode_window(telling, &sample, 1, &exact) < 0)
		return;
	for (uint32_t j = 0; j < exact.n_accesses; j++) {
		const struct decode_access *true_one = &exact.accesses[j];

		if (!decode_state_has_address(true_one->state))
			return;
		if (true_one->address == access->address &&
		    true_one->is_write == access->is_write) {
			seen.addresses++;
			return;
		}
	}
	seen.addresses++;
	seen.addresses_wrong++;
	fprintf(stderr, "wrong address: step %zu ip %#" PRIx64 " %#" PRIx64 " size %u state %u\n",
		i, access->ip, access->address, access->size, access->state);
}

/* An access of the sample at one step, said to be of step i. */
static void check_access(size_t at, size_t i, const struct decode_access *access)
{
	if (access->share <= 0)
		return;
	seen.charged += access->share;
	if (!is_at(i, access->ip)) {
		seen.not_run += access->share;
		fprintf(stderr, "did not run: %#" PRIx64 ", sampled %#" PRIx64 ", share %g\n",
			access->ip, steps[at].regs[DECODE_IP], access->share);
		return;
	}
	if (!decode_state_has_address(access->state))
		return;
	seen.resolved += access->share;
	check_address(i, access);
}

/* The one right before, or the comparison that a branch there is one operation with. */
static void check_stall(size_t i)
{
	if (window.stall == DECODE_STALL_UNKNOWN || is_at(i, window.stall_ip))
		return;
	size_t at = is_at(i - 1, window.stall_ip) ? i - 1 : i - 2;

	seen.stalls++;
	if (!is_at(at, window.stall_ip)) {
		seen.stalls_wrong++;
		fprintf(stderr, "no stall: %#" PRIx64 ", sampled %#" PRIx64 "\n", window.stall_ip,
			steps[i].regs[DECODE_IP]);
		return;
	}
	for (uint32_t k = 0; k < window.n_stalled; k++)
		if (window.stalled[k].state == DECODE_RESOLVED)
			check_address(at, &window.stalled[k]);
}

static void count_unknown(const struct decode_access *access)
{
	if (access->state != DECODE_NEXT_TURN && !decode_state_has_address(access->state))
		seen.unknown += access->share;
}

static void check_sample(size_t i)
{
	struct decode_sample sample;
	struct decode_charge charge;

	sample_of(i, &sample);
	if (decode_window(predicting, &sample, DECODE_MAX_INSTRUCTIONS, &window) < 0)
		return;
	decode_charge(&window, &charge);
	seen.samples++;
	seen.code += charge.code_share;
	seen.charged += charge.code_share;
	for (uint32_t k = 0; k < window.n_accesses; k++)
		check_access(i, i + window.accesses[k].position, &window.accesses[k]);
	for (uint32_t k = 0; k < window.n_behind; k++)
		check_access(i, i - window.behind[k].position, &window.behind[k]);
	if (window.end == DECODE_END_LOOP) {
		seen.loops++;
		seen.loops_wrong += !is_at(i + window.n_instructions, sample.ip);
	}
	for (uint32_t k = 0; k < charge.n_charged; k++)
		count_unknown(&window.accesses[k]);
	for (uint32_t k = 0; k < window.n_behind; k++)
		count_unknown(&window.behind[k]);
	check_stall(i);
}

static void check_stretch(void)
{
	for (size_t i = MOST_BEFORE; i + DECODE_MAX_INSTRUCTIONS < n_steps; i++)
		if (steps[i].is_sample)
			check_sample(i);
}

/* ---- Stepping ---- */

static void save_step(const struct user_regs_struct *user)
{
	struct step *step = &steps[n_steps];
	ssize_t n = 0;

	native_regs_load(step->regs, user);
	/* A repetition of a string instruction belongs to the step in which it began. */
	if (n_steps > 0 && is_at(n_steps - 1, step->regs[DECODE_IP]))
		return;
	step->fs_base = user->fs_base;
	step->is_sample = lrand48() % ONE_IN == 0;
	if (step->is_sample)
		n = pread(memory_fd, step->stack, sizeof(step->stack), (off_t)user->rsp);
	if (step->is_sample && pread(memory_fd, step->below, sizeof(step->below),
				     (off_t)(user->rsp - sizeof(step->below))) < 0)
		memset(step->below, 0, sizeof(step->below));
	step->stack_bytes = n > 0 ? (uint32_t)n : 0;
	n_steps++;
}

/* Whether the program is there still. */
static bool step_on(size_t n)
{
	struct user_regs_struct user;
	int status;

	n_steps = 0;
	for (size_t i = 0; i < n; i++) {
		if (ptrace(PTRACE_GETREGS, child, NULL, &user) < 0)
			return false;
		save_step(&user);
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0 ||
		    waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
			return false;
		seen.stepped++;
	}
	return true;
}

/* Let it run, with the signals that it gets, and stop it again. */
static bool run_on(unsigned ms)
{
	struct timespec gap = { ms / 1000, ms % 1000 * 1000000 };
	int status, signal = 0;

	if (ptrace(PTRACE_CONT, child, NULL, NULL) < 0)
		return false;
	nanosleep(&gap, NULL);
	kill(child, SIGSTOP);
	for (;;) {
		if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
			return false;
		signal = WSTOPSIG(status);
		if (signal == SIGSTOP)
			return true;
		if (ptrace(PTRACE_CONT, child, NULL,
			   (void *)(intptr_t)(signal == SIGTRAP ? 0 : signal)) < 0)
			return false;
	}
}

static void forget_memory(void)
{
	for (unsigned i = 0; i < PAGES; i++)
		pages[i].address = 0;
	decode_invalidate(predicting, 0, 0, UINT64_MAX);
	decode_invalidate(telling, 0, 0, UINT64_MAX);
	read_maps();
}

static int start_program(char **command)
{
	char path[32];
	int status;

	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr) ||
		    ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(77);
		execvp(command[0], command);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)child);
	memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	return memory_fd < 0 ? 1 : 0;
}

static int make_decoders(size_t n)
{
	struct decode_memory memory = { .code = read_code,
					.constant = read_constant,
					.begin = find_begin };

	steps = calloc(n + 1, sizeof(*steps));
	pages = calloc(PAGES, sizeof(*pages));
	if (!steps || !pages)
		return -ENOMEM;
	int err = decode_create(DECODE_MACHINE_X86_64, &memory, 1 << 18, &predicting);
	return err < 0 ? err : decode_create(DECODE_MACHINE_X86_64, &memory, 1 << 18, &telling);
}

static void print_seen(void)
{
	printf("steps %" PRIu64 "\nsamples %" PRIu64 "\n", seen.stepped, seen.samples);
	printf("unknown %.3f\nresolved %.3f\ncode %.3f\nnot-run %.3f\n", seen.unknown,
	       seen.resolved, seen.code, seen.not_run);
	printf("addresses %" PRIu64 "\naddresses-wrong %" PRIu64 "\n", seen.addresses,
	       seen.addresses_wrong);
	printf("stalls %" PRIu64 "\nstalls-wrong %" PRIu64 "\n", seen.stalls, seen.stalls_wrong);
	printf("loops %" PRIu64 "\nloops-wrong %" PRIu64 "\n", seen.loops, seen.loops_wrong);
}

int main(int argc, char **argv)
{
	int status;

	has_below = argc > 1 && strcmp(argv[1], "below") == 0;
	argc -= has_below;
	argv += has_below;
	if (argc < 6) {
		fprintf(stderr,
			"usage: stepper [below] SEED STRETCHES STEPS GAP_MS PROGRAM [ARG...]\n");
		return 2;
	}
	size_t n = strtoull(argv[3], NULL, 10);
	srand48(strtol(argv[1], NULL, 10));
	if (make_decoders(n) < 0)
		return 1;
	status = start_program(argv + 5);
	if (status)
		return status;
	for (long left = strtol(argv[2], NULL, 10); left > 0 && run_on((unsigned)atoi(argv[4]));
	     left--) {
		forget_memory();
		if (!step_on(n))
			break; /* its memory has gone with it */
		check_stretch();
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	decode_destroy(predicting);
	decode_destroy(telling);
	free(steps);
	free(pages);
	close(memory_fd);
	print_seen();
	return 0;
}
