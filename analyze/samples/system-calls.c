/*
 * The program's buffers of the system call that a thread is in. perf tells the registers with which
 * it came, but rax holds no number any more: that is read from the code that leads to `syscall`.
 * Numbers are those of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
 */
#include <string.h>

#include "analyze/samples/samples-internal.h"

#define SYSCALL_BYTES 2u
#define LOOK_BACK     24u /* bytes */
#define MOST_BETWEEN  6u /* instructions */

static const uint8_t syscall_code[SYSCALL_BYTES] = { 0x0f, 0x05 };

/* syscall(2) of glibc, up to its `syscall`: the number is its first argument. */
static const uint8_t generic_code[] = {
	0x48, 0x89, 0xf8, /* mov %rdi,%rax */
	0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, /* the other arguments */
	0x4d, 0x89, 0xc2, 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08, /* mov 8(%rsp),%r9 */
};

/* How the number gets into a register. */
struct loading {
	uint8_t bytes[3];
	uint8_t n_bytes; /* of these, which are compared */
	uint8_t n_number; /* bytes of the number behind the first one; 0: it is 0 */
	uint8_t size;
};
#define N_LOADINGS 4u
static const struct loading into_ax[N_LOADINGS] = {
	{ { 0xb8 }, 1, 4, 5 }, /* mov $n,%eax */
	{ { 0x48, 0xc7, 0xc0 }, 3, 4, 7 }, /* mov $n,%rax */
	{ { 0x31, 0xc0 }, 2, 0, 2 }, /* xor %eax,%eax */
	{ { 0x33, 0xc0 }, 2, 0, 2 },
};
static const struct loading into_di[N_LOADINGS] = {
	{ { 0xbf }, 1, 4, 5 },
	{ { 0x48, 0xc7, 0xc7 }, 3, 4, 7 },
	{ { 0x31, 0xff }, 2, 0, 2 },
	{ { 0x33, 0xff }, 2, 0, 2 },
};

enum place { IN_REGISTERS, IN_VECTOR, IN_MESSAGE };

struct call {
	uint16_t number;
	uint8_t place;
	uint8_t address; /* enum decode_reg */
	uint8_t length; /* enum decode_reg, or 0: fixed */
	uint8_t fixed;
	bool is_write; /* to the program's memory */
};
#define READS(n, address, length)                                                                  \
	{                                                                                          \
		n, IN_REGISTERS, address, length, 0, false                                         \
	}
#define WRITES(n, address, length)                                                                 \
	{                                                                                          \
		n, IN_REGISTERS, address, length, 0, true                                          \
	}
static const struct call calls[] = {
	WRITES(0, DECODE_SI, DECODE_DX), /* read */
	READS(1, DECODE_SI, DECODE_DX), /* write */
	{ 4, IN_REGISTERS, DECODE_SI, 0, 144, true }, /* stat, fstat, lstat */
	{ 5, IN_REGISTERS, DECODE_SI, 0, 144, true },
	{ 6, IN_REGISTERS, DECODE_SI, 0, 144, true },
	WRITES(17, DECODE_SI, DECODE_DX), /* pread64 */
	READS(18, DECODE_SI, DECODE_DX), /* pwrite64 */
	{ 19, IN_VECTOR, DECODE_SI, DECODE_DX, 0, true }, /* readv */
	{ 20, IN_VECTOR, DECODE_SI, DECODE_DX, 0, false }, /* writev */
	READS(44, DECODE_SI, DECODE_DX), /* sendto */
	WRITES(45, DECODE_SI, DECODE_DX), /* recvfrom */
	{ 46, IN_MESSAGE, DECODE_SI, 0, 0, false }, /* sendmsg */
	{ 47, IN_MESSAGE, DECODE_SI, 0, 0, true }, /* recvmsg */
	WRITES(78, DECODE_SI, DECODE_DX), /* getdents */
	WRITES(79, DECODE_DI, DECODE_SI), /* getcwd */
	WRITES(89, DECODE_SI, DECODE_DX), /* readlink */
	WRITES(217, DECODE_SI, DECODE_DX), /* getdents64 */
	{ 262, IN_REGISTERS, DECODE_DX, 0, 144, true }, /* newfstatat */
	{ 295, IN_VECTOR, DECODE_SI, DECODE_DX, 0, true }, /* preadv */
	{ 296, IN_VECTOR, DECODE_SI, DECODE_DX, 0, false }, /* pwritev */
	WRITES(318, DECODE_DI, DECODE_SI), /* getrandom */
	{ 327, IN_VECTOR, DECODE_SI, DECODE_DX, 0, true }, /* preadv2 */
	{ 328, IN_VECTOR, DECODE_SI, DECODE_DX, 0, false }, /* pwritev2 */
};

bool sample_is_behind_call(struct samples *samples, const struct decode_sample *input)
{
	uint8_t bytes[SYSCALL_BYTES];

	return code_store_code(samples->code, input->process, input->ip - SYSCALL_BYTES,
			       input->time, bytes, sizeof(bytes)) == sizeof(bytes) &&
	       memcmp(bytes, syscall_code, sizeof(bytes)) == 0;
}

/* Whether what lies from an address on runs straight into the system call, or the call of it. */
static bool does_lead_there(struct samples *samples, const struct decode_sample *input,
			    uint64_t address, uint64_t call)
{
	struct decode_sample from = *input;
	const struct decode_window *window = samples->window;

	from.ip = address;
	if (address == call)
		return true;
	if (decode_window(samples->decoder, &from, MOST_BETWEEN, samples->window) < 0)
		return false;
	for (uint32_t i = 0; i < window->n_accesses; i++)
		if (window->accesses[i].ip == call)
			return true; /* what a call puts on the stack */
	return window->end == DECODE_END_SYSCALL && window->end_ip == call;
}

/* The number that an instruction at bytes loads, or -1. */
static int loaded_by(const struct loading *loading, const uint8_t *bytes, size_t n)
{
	uint32_t number = 0;

	if (n < loading->size || memcmp(bytes, loading->bytes, loading->n_bytes) != 0)
		return -1;
	memcpy(&number, bytes + loading->n_bytes, loading->n_number);
	return number < 512 ? (int)number : -1;
}

/* From the nearest loading of the register before the call; -1: not known. */
static int number_before(struct samples *samples, const struct decode_sample *input, uint64_t call,
			 const struct loading loadings[N_LOADINGS])
{
	uint8_t bytes[LOOK_BACK];
	size_t n = LOOK_BACK;

	while (n > 1 &&
	       code_store_code(samples->code, input->process, call - n, input->time, bytes, n) < n)
		n--;
	for (size_t back = 2; back <= n; back++) {
		for (size_t i = 0; i < N_LOADINGS; i++) {
			const struct loading *loading = &loadings[i];
			int number = loaded_by(loading, bytes + n - back, back);
			if (number >= 0 &&
			    does_lead_there(samples, input, call - back + loading->size, call))
				return number;
		}
	}
	return -1;
}

static bool read_stack(const struct decode_sample *input, uint64_t address, void *bytes, size_t n)
{
	uint64_t offset = address - input->regs[DECODE_SP];

	if (!input->stack || offset > input->stack_bytes || n > input->stack_bytes - offset)
		return false;
	memcpy(bytes, (const char *)input->stack + offset, n);
	return true;
}

/* Whether the system call is that of syscall(2), which keeps nothing on the stack. */
static bool is_generic(struct samples *samples, const struct decode_sample *input, uint64_t call)
{
	uint8_t bytes[sizeof(generic_code)];

	return code_store_code(samples->code, input->process, call - sizeof(bytes), input->time,
			       bytes, sizeof(bytes)) == sizeof(bytes) &&
	       memcmp(bytes, generic_code, sizeof(bytes)) == 0;
}

/* The call that returns there: direct, or through a table. 0: none does. */
static uint64_t call_before(struct samples *samples, const struct decode_sample *input,
			    uint64_t address)
{
	uint8_t bytes[6];

	if (code_store_code(samples->code, input->process, address - sizeof(bytes), input->time,
			    bytes, sizeof(bytes)) < sizeof(bytes))
		return 0;
	if (bytes[0] == 0xff && bytes[1] == 0x15)
		return address - 6;
	return bytes[1] == 0xe8 ? address - 5 : 0;
}

static int number_of(struct samples *samples, const struct decode_sample *input)
{
	uint64_t call = input->ip - SYSCALL_BYTES, behind;

	if (!is_generic(samples, input, call))
		return number_before(samples, input, call, into_ax);
	if (!read_stack(input, input->regs[DECODE_SP], &behind, sizeof(behind)))
		return -1;
	call = call_before(samples, input, behind);
	return call ? number_before(samples, input, call, into_di) : -1;
}

/* Of an array of struct iovec on the stack: all that were seen. */
static unsigned read_vector(const struct decode_sample *input, uint64_t address, uint64_t n,
			    struct sample_buffer ret[SAMPLE_MAX_BUFFERS])
{
	uint64_t vector[2];
	unsigned n_found = 0;

	for (uint64_t i = 0; i < n && n_found < SAMPLE_MAX_BUFFERS; i++) {
		if (!read_stack(input, address + i * sizeof(vector), vector, sizeof(vector)))
			return 0;
		if (vector[1])
			ret[n_found++] = (struct sample_buffer){ vector[0], vector[1], false };
	}
	return n_found;
}

static unsigned read_buffers(const struct decode_sample *input, const struct call *call,
			     struct sample_buffer ret[SAMPLE_MAX_BUFFERS])
{
	uint64_t address = input->regs[call->address], length = call->fixed;
	uint64_t vector[2]; /* msg_iov and msg_iovlen of struct msghdr */

	if (call->length)
		length = input->regs[call->length];
	if (call->place == IN_VECTOR)
		return read_vector(input, address, length, ret);
	if (call->place == IN_MESSAGE)
		return read_stack(input, address + 16, vector, sizeof(vector))
			       ? read_vector(input, vector[0], vector[1], ret)
			       : 0;
	ret[0] = (struct sample_buffer){ address, length, false };
	return address && length;
}

unsigned sample_call_buffers(struct samples *samples, const struct decode_sample *input,
			     struct sample_buffer ret[SAMPLE_MAX_BUFFERS])
{
	int number = number_of(samples, input);

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].number != number)
			continue;
		unsigned n = read_buffers(input, &calls[i], ret);
		for (unsigned k = 0; k < n; k++)
			ret[k].is_write = calls[i].is_write;
		return n;
	}
	return 0;
}
