#include "tests/unit/decode/native.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t user_offset[DECODE_N_REGS] = {
	[DECODE_AX] = offsetof(struct user_regs_struct, rax),
	[DECODE_BX] = offsetof(struct user_regs_struct, rbx),
	[DECODE_CX] = offsetof(struct user_regs_struct, rcx),
	[DECODE_DX] = offsetof(struct user_regs_struct, rdx),
	[DECODE_SI] = offsetof(struct user_regs_struct, rsi),
	[DECODE_DI] = offsetof(struct user_regs_struct, rdi),
	[DECODE_BP] = offsetof(struct user_regs_struct, rbp),
	[DECODE_SP] = offsetof(struct user_regs_struct, rsp),
	[DECODE_IP] = offsetof(struct user_regs_struct, rip),
	[DECODE_FLAGS] = offsetof(struct user_regs_struct, eflags),
	[DECODE_R8] = offsetof(struct user_regs_struct, r8),
	[DECODE_R8 + 1] = offsetof(struct user_regs_struct, r9),
	[DECODE_R8 + 2] = offsetof(struct user_regs_struct, r10),
	[DECODE_R8 + 3] = offsetof(struct user_regs_struct, r11),
	[DECODE_R8 + 4] = offsetof(struct user_regs_struct, r12),
	[DECODE_R8 + 5] = offsetof(struct user_regs_struct, r13),
	[DECODE_R8 + 6] = offsetof(struct user_regs_struct, r14),
	[DECODE_R8 + 7] = offsetof(struct user_regs_struct, r15),
};

void native_regs_load(uint64_t regs[DECODE_N_REGS], const struct user_regs_struct *user)
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		memcpy(&regs[i], (const char *)user + user_offset[i], sizeof(regs[i]));
}

void native_regs_store(const uint64_t regs[DECODE_N_REGS], struct user_regs_struct *user)
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		memcpy((char *)user + user_offset[i], &regs[i], sizeof(regs[i]));
}

static void *map_shared(uint64_t address, size_t n_bytes, int fd)
{
	int flags = MAP_SHARED | (address ? MAP_FIXED_NOREPLACE : 0) | (fd < 0 ? MAP_ANONYMOUS : 0);
	void *map = mmap((void *)(uintptr_t)address, n_bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	return map == MAP_FAILED ? NULL : map;
}

static void run_child(int code_fd)
{
	void *code = mmap((void *)(uintptr_t)NATIVE_CODE, NATIVE_CODE_BYTES, PROT_READ | PROT_EXEC,
			  MAP_SHARED | MAP_FIXED_NOREPLACE, code_fd, 0);

	if (code == MAP_FAILED ||
	    mprotect((void *)(uintptr_t)NATIVE_FIXED, NATIVE_FIXED_BYTES, PROT_READ) < 0)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(2);
	raise(SIGSTOP);
	_exit(3);
}

/* On one processor a step costs a switch of contexts, on two a wake-up of the other one. */
static void stay_on_this_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

int native_open(struct native *native)
{
	int code_fd = memfd_create("code", MFD_CLOEXEC), status;

	if (code_fd < 0 || ftruncate(code_fd, NATIVE_CODE_BYTES) < 0)
		return -errno;
	native->code = map_shared(0, NATIVE_CODE_BYTES, code_fd);
	native->data = map_shared(NATIVE_DATA, NATIVE_DATA_BYTES, -1);
	native->fixed = map_shared(NATIVE_FIXED, NATIVE_FIXED_BYTES, -1);
	if (!native->code || !native->data || !native->fixed)
		return -ENOMEM;
	stay_on_this_cpu();
	native->child = fork();
	if (native->child < 0)
		return -errno;
	if (native->child == 0)
		run_child(code_fd);
	close(code_fd);
	if (waitpid(native->child, &status, 0) != native->child || !WIFSTOPPED(status))
		return -EPERM;
	ptrace(PTRACE_SETOPTIONS, native->child, NULL, PTRACE_O_EXITKILL);
	return ptrace(PTRACE_GETREGS, native->child, NULL, &native->start) < 0 ? -errno : 0;
}

void native_close(struct native *native)
{
	kill(native->child, SIGKILL);
	waitpid(native->child, NULL, 0);
	munmap(native->code, NATIVE_CODE_BYTES);
	munmap(native->data, NATIVE_DATA_BYTES);
	munmap(native->fixed, NATIVE_FIXED_BYTES);
}

/* Returns the signal that stopped it; SIGTRAP after a complete step. */
static int step_once(struct native *native)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, native->child, NULL, NULL) < 0)
		return -errno;
	if (waitpid(native->child, &status, 0) != native->child || !WIFSTOPPED(status))
		return -ECHILD;
	return WSTOPSIG(status);
}

int native_step(struct native *native, unsigned max_steps, uint64_t regs[DECODE_N_REGS])
{
	struct user_regs_struct user = native->start;
	uint64_t start = regs[DECODE_IP];
	int stop = SIGTRAP;

	native_regs_store(regs, &user);
	user.orig_rax = (unsigned long)-1; /* no system call to restart */
	if (ptrace(PTRACE_SETREGS, native->child, NULL, &user) < 0)
		return -errno;
	for (unsigned i = 0; i < max_steps && user.rip == start && stop == SIGTRAP; i++) {
		stop = step_once(native);
		if (ptrace(PTRACE_GETREGS, native->child, NULL, &user) < 0)
			return -errno;
	}
	native_regs_load(regs, &user);
	return stop == SIGTRAP ? 0 : stop;
}

#define XSAVE_BYTES  16384u
#define XSAVE_XMM    160u /* Intel SDM volume 1, 13.4 */
#define XSAVE_HEADER 512u

/* Components of the area; CPUID leaf 13 has the offset of each. */
enum {
	XSAVE_SSE = 1,
	XSAVE_AVX = 2, /* bits 128 to 255 of registers 0 to 15 */
	XSAVE_MASKS = 5,
	XSAVE_ZMM_HIGH = 6, /* bits 256 to 511 of these */
	XSAVE_ZMM_MORE = 7, /* registers 16 to 31 */
};

static int read_area(pid_t child, uint8_t area[XSAVE_BYTES], struct iovec *ret_part)
{
	*ret_part = (struct iovec){ area, XSAVE_BYTES };
	return ptrace(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, ret_part) < 0 ? -errno : 0;
}

/* Where the area has a component; 0: this processor has none. */
static unsigned find_component(unsigned component)
{
	unsigned size, offset, flags, unused;

	if (!(component == XSAVE_AVX ? __builtin_cpu_supports("avx")
				     : __builtin_cpu_supports("avx512f")) ||
	    !__get_cpuid_count(13, component, &size, &offset, &flags, &unused))
		return 0;
	return offset;
}

static unsigned find_avx(void)
{
	return find_component(XSAVE_AVX);
}

/* A register's bytes of a component; what the area does not have is zero. */
static void take_part(const uint8_t area[XSAVE_BYTES], unsigned component, unsigned at, void *to,
		      size_t n_bytes)
{
	uint64_t components;

	memcpy(&components, area + XSAVE_HEADER, sizeof(components));
	if (components & 1u << component)
		memcpy(to, area + at, n_bytes);
}

static void take_avx512(const uint8_t area[XSAVE_BYTES], struct decode_vectors *vectors)
{
	unsigned masks = find_component(XSAVE_MASKS);
	unsigned high = find_component(XSAVE_ZMM_HIGH), more = find_component(XSAVE_ZMM_MORE);

	if (!masks || !high || !more)
		return;
	vectors->n_regs = 32;
	vectors->n_bytes = 64;
	vectors->n_masks = 8;
	for (unsigned i = 0; i < 16; i++) {
		take_part(area, XSAVE_ZMM_HIGH, high + i * 32, vectors->regs[i] + 32, 32);
		take_part(area, XSAVE_ZMM_MORE, more + i * 64, vectors->regs[16 + i], 64);
	}
	take_part(area, XSAVE_MASKS, masks, vectors->masks, sizeof(vectors->masks));
}

int native_vectors_get(pid_t child, struct decode_vectors *ret_vectors)
{
	uint8_t area[XSAVE_BYTES];
	unsigned avx = find_avx();
	struct iovec part;
	int err = read_area(child, area, &part);

	if (err < 0)
		return err;
	memset(ret_vectors, 0, sizeof(*ret_vectors));
	ret_vectors->n_regs = 16;
	ret_vectors->n_bytes = avx ? 32 : 16;
	for (unsigned i = 0; i < 16; i++) {
		take_part(area, XSAVE_SSE, XSAVE_XMM + i * 16, ret_vectors->regs[i], 16);
		if (avx)
			take_part(area, XSAVE_AVX, avx + i * 16, ret_vectors->regs[i] + 16, 16);
	}
	take_avx512(area, ret_vectors);
	return 0;
}

int native_vectors_set(pid_t child, const struct decode_vectors *vectors)
{
	uint8_t area[XSAVE_BYTES];
	unsigned avx = find_avx();
	uint64_t components;
	struct iovec part;
	int err = read_area(child, area, &part);

	if (err < 0)
		return err;
	memcpy(&components, area + XSAVE_HEADER, sizeof(components));
	components |= 2u | (avx ? 1u << XSAVE_AVX : 0);
	memcpy(area + XSAVE_HEADER, &components, sizeof(components));
	for (unsigned i = 0; i < 16; i++) {
		memcpy(area + XSAVE_XMM + i * 16, vectors->regs[i], 16);
		if (avx)
			memcpy(area + avx + i * 16, vectors->regs[i] + 16, 16);
	}
	return ptrace(PTRACE_SETREGSET, child, (void *)NT_X86_XSTATE, &part) < 0 ? -errno : 0;
}
