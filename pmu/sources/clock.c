/*
 * A timer that runs with the CPU time of each thread; every sample carries the user registers just
 * before the instruction at its ip, from which decode/ computes the address. Needs no PMU.
 *
 * PERF_COUNT_SW_CPU_CLOCK and _TASK_CLOCK give the same here: both arm one hrtimer while the thread
 * is on its CPU and carry the rest of the period over a switch. Measured (6.18, 2 CPUs, period
 * 1,003,009 ns, 1 and 3 threads that spin): n x period / CPU time 0.9993 and 0.9936 with CPU_CLOCK,
 * 0.9963 and 0.9960 with TASK_CLOCK; half of the time in system calls: 0.97-1.03 and 0.99-1.05 of
 * the user time. CPU_CLOCK is taken since its count does not read the scheduler's context time.
 */
#include <linux/perf_event.h>

#if defined(__x86_64__)
#include <asm/perf_regs.h>
#endif

#include "pmu/stream.h"

#define REGISTER(reg) (UINT64_C(1) << (reg))

/* All that an address can be made of. Segment registers say nothing in 64-bit code. */
#if defined(__x86_64__)
#define USER_REGISTERS                                                                             \
	(REGISTER(PERF_REG_X86_AX) | REGISTER(PERF_REG_X86_BX) | REGISTER(PERF_REG_X86_CX) |       \
	 REGISTER(PERF_REG_X86_DX) | REGISTER(PERF_REG_X86_SI) | REGISTER(PERF_REG_X86_DI) |       \
	 REGISTER(PERF_REG_X86_BP) | REGISTER(PERF_REG_X86_SP) | REGISTER(PERF_REG_X86_IP) |       \
	 REGISTER(PERF_REG_X86_FLAGS) | REGISTER(PERF_REG_X86_R8) | REGISTER(PERF_REG_X86_R9) |    \
	 REGISTER(PERF_REG_X86_R10) | REGISTER(PERF_REG_X86_R11) | REGISTER(PERF_REG_X86_R12) |    \
	 REGISTER(PERF_REG_X86_R13) | REGISTER(PERF_REG_X86_R14) | REGISTER(PERF_REG_X86_R15))
#elif defined(__aarch64__)
#define USER_REGISTERS (REGISTER(33) - 1) /* x0-x29, lr, sp, pc: asm/perf_regs.h */
#else
#define USER_REGISTERS UINT64_C(0)
#endif

uint64_t pmu_user_registers(void)
{
	return USER_REGISTERS;
}

/* The kernel fires no timer of an event more often than this, but would still report the period. */
#define MIN_PERIOD_NS UINT64_C(10000)

static uint64_t period_ns(const struct access_options *options)
{
	uint64_t freq_hz = options->freq_hz ? options->freq_hz : PMU_DEFAULT_FREQ_HZ;
	uint64_t period = options->period ? options->period : UINT64_C(1000000000) / freq_hz;

	return period < MIN_PERIOD_NS ? MIN_PERIOD_NS : period;
}

static void configure(const struct access_options *options, struct perf_event_attr *attr)
{
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_CPU_CLOCK;
	attr->sample_period = period_ns(options);
	attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	attr->exclude_kernel = options->mode == ACCESS_MODE_USER;
	attr->exclude_user = options->mode == ACCESS_MODE_KERNEL;
	attr->exclude_hv = 1;
	if (USER_REGISTERS) {
		attr->sample_type |= PERF_SAMPLE_REGS_USER;
		attr->sample_regs_user = USER_REGISTERS;
	}
	if (options->stack_bytes) {
		attr->sample_type |= PERF_SAMPLE_STACK_USER;
		attr->sample_stack_user = options->stack_bytes;
	}
}

/*
 * decode/ knows the instructions of x86-64. What it is not asked about is a sample of a function
 * only.
 */
#if defined(__x86_64__)
#define ABOUT  "timer and registers: share of user CPU time at loads and stores; needs no PMU"
#define REMARK ""
#else
#define ABOUT  "timer: share of user CPU time by function, not by object; needs no PMU"
#define REMARK "no addresses: this processor's instructions are not decoded"
#endif

static const char *remarks(const struct access_stream *stream)
{
	(void)stream;
	return REMARK;
}

const struct access_source pmu_source_clock = {
	PMU_EVENT_STREAM,
	.name = "clock",
	.unit = "ns of user CPU time",
	.about = ABOUT,
	.role = ACCESS_ROLE_ACCESS,
	.kind = TRACE_SAMPLE_REGISTERS,
	.is_timed = true,
	.configure = configure,
	.remarks = remarks,
	.ring_bytes = 512 << 10,
	.small_ring_bytes = 256 << 10,
};
