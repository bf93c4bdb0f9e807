/*
 * How fast decode/ is on real samples: runs a command for a moment under the clock source, stops
 * it, and decodes its samples again and again with its code from the cache. Prints, per command,
 * samples and emulated instructions per second, how windows end and how much of the time resolves.
 *	bench-decode [SECONDS COMMAND ARGS...]
 */
#include <inttypes.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "decode/decode.h"
#include "perf/record.h"
#include "pmu/source.h"

#define FREQ_HZ	      4999
#define MIN_DECODE_NS 1000000000
#define NEAR	      8 /* instructions */

struct sample {
	struct decode_sample decode;
	uint8_t stack[DECODE_STACK_BYTES];
};

struct range {
	uint64_t start;
	uint64_t end;
};

struct bench {
	pid_t child;
	struct pmu_format format;
	struct sample *samples;
	size_t n_samples;
	size_t max_samples;
	struct range constant[512]; /* read-only maps */
	size_t n_constant;
};

struct result {
	uint64_t n_windows;
	uint64_t n_instructions;
	uint64_t ends[DECODE_END_COUNT];
	double resolved;
	double unresolved;
	double code;
	double stalls[DECODE_STALL_COUNT];
	double stalls_resolved; /* of those at accesses */
	uint64_t n_near; /* samples with an exact access within NEAR instructions */
	uint64_t ends_without[DECODE_END_COUNT]; /* why the others have none */
	uint64_t ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static size_t read_child(void *user, uint64_t address, void *bytes, size_t n_bytes)
{
	struct bench *bench = user;
	struct iovec to = { bytes, n_bytes };
	struct iovec from[2] = { { (void *)(uintptr_t)address, n_bytes } };
	size_t in_page = 4096 - address % 4096;
	ssize_t n;

	if (n_bytes > in_page) { /* what lies behind the page may not be mapped */
		from[0].iov_len = in_page;
		from[1] =
			(struct iovec){ (void *)(uintptr_t)(address + in_page), n_bytes - in_page };
	}
	n = process_vm_readv(bench->child, &to, 1, from, n_bytes > in_page ? 2 : 1, 0);
	return n > 0 ? (size_t)n : 0;
}

static size_t read_code(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	(void)process;
	(void)time;
	return read_child(user, address, bytes, n_bytes);
}

/* As analyze would: ask for constant data only where a map is read-only. */
static size_t read_constant(void *user, uint32_t process, uint64_t address, uint64_t time,
			    void *bytes, size_t n_bytes)
{
	struct bench *bench = user;
	size_t low = 0, high = bench->n_constant;

	(void)process;
	(void)time;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (bench->constant[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == bench->n_constant || address < bench->constant[low].start)
		return 0;
	return read_child(user, address, bytes, n_bytes);
}

static void find_constant(struct bench *bench)
{
	char path[64], line[512], prot[5];
	auto_fclose FILE *maps = NULL;
	struct range range;

	snprintf(path, sizeof(path), "/proc/%d/maps", bench->child);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &range.start, &range.end, prot) ==
			    3 &&
		    strcmp(prot, "r--p") == 0 && bench->n_constant < 512)
			bench->constant[bench->n_constant++] = range;
}

static int keep_samples(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct bench *bench = context;
	const uint8_t *bytes = records;
	struct pmu_record record;
	int length;

	(void)n_samples;
	for (; (length = pmu_record_parse(&bench->format, bytes, n_bytes, &record)) > 0;
	     bytes += length, n_bytes -= (size_t)length) {
		struct sample *sample = &bench->samples[bench->n_samples];

		if (record.type != PERF_RECORD_SAMPLE || !record.sample.regs ||
		    record.sample.regs_mask != DECODE_REGS_MASK ||
		    bench->n_samples == bench->max_samples)
			continue;
		*sample = (struct sample){ .decode = { .ip = record.sample.ip } };
		memcpy(sample->decode.regs, record.sample.regs, sizeof(sample->decode.regs));
		sample->decode.ip = sample->decode.regs[DECODE_IP];
		sample->decode.stack_bytes = (uint32_t)record.sample.stack_bytes;
		if (sample->decode.stack_bytes > sizeof(sample->stack))
			sample->decode.stack_bytes = sizeof(sample->stack);
		if (record.sample.stack)
			memcpy(sample->stack, record.sample.stack, sample->decode.stack_bytes);
		sample->decode.stack = sample->stack;
		bench->n_samples++;
	}
	return 0;
}

static pid_t start_command(char **command)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child != 0)
		return child;
	raise(SIGSTOP);
	if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
		_exit(126);
	execvp(command[0], command);
	_exit(127);
}

/* Sample the command for so long; it is stopped, not dead, afterwards: its code is still there. */
static int take_samples(struct bench *bench, double seconds, char **command)
{
	struct access_options options = { .enable_on_exec = true,
					  .freq_hz = FREQ_HZ,
					  .stack_bytes = DECODE_STACK_BYTES };
	struct access_stream *stream = NULL;
	struct pmu_refusal refusal;
	struct trace_source source;
	uint64_t end_ns;
	int err;

	bench->child = start_command(command);
	waitpid(bench->child, NULL, WUNTRACED);
	options.pid = bench->child;
	err = pmu_stream_open(pmu_source_find("clock"), &options, &stream, &refusal);
	if (err < 0)
		return err;
	pmu_stream_describe(stream, &source);
	bench->format = (struct pmu_format){ .sample_type = source.sample_type,
					     .regs_user = source.regs_user };
	kill(bench->child, SIGCONT);
	end_ns = now_ns() + (uint64_t)(seconds * 1e9);
	while (now_ns() < end_ns) {
		usleep(5000);
		pmu_stream_read(stream, keep_samples, bench);
	}
	kill(bench->child, SIGSTOP);
	pmu_stream_read(stream, keep_samples, bench);
	pmu_stream_close(stream);
	return 0;
}

static void decode_all(struct bench *bench, struct decoder *decoder, struct result *result)
{
	static struct decode_window window;
	struct decode_charge charge;
	uint64_t start_ns = now_ns();

	for (size_t i = 0; i < bench->n_samples; i++) {
		decode_window(decoder, &bench->samples[i].decode, DECODE_MAX_INSTRUCTIONS, &window);
		decode_charge(&window, &charge);
		result->n_windows++;
		result->n_instructions += window.n_instructions;
		result->ends[window.end]++;
		result->resolved += (double)charge.resolved_share;
		result->unresolved += (double)charge.unresolved_share;
		result->code += (double)charge.code_share;
		result->stalls[window.stall]++;
		for (uint32_t k = 0; k < window.n_stalled; k++)
			if (decode_state_has_address(window.stalled[k].state))
				result->stalls_resolved += (double)window.stalled[k].share;
	}
	result->ns += now_ns() - start_ns;
}

static bool has_exact(const struct decode_window *window)
{
	for (uint32_t i = 0; i < window->n_accesses; i++)
		if (window->accesses[i].state == DECODE_RESOLVED)
			return true;
	return false;
}

/* How many samples give an exact access soon, and what ends the windows of the others. */
static void look_near(struct bench *bench, struct decoder *decoder, struct result *result)
{
	static struct decode_window window;

	for (size_t i = 0; i < bench->n_samples; i++) {
		decode_window(decoder, &bench->samples[i].decode, NEAR, &window);
		if (has_exact(&window))
			result->n_near++;
		else
			result->ends_without[window.end]++;
	}
}

static void print_near(const struct result *result, size_t n_samples)
{
	static const char *const names[DECODE_END_COUNT] = {
		[DECODE_END_LOOP] = "loop",
		[DECODE_END_LIMIT] = "none-accesses-in-8",
		[DECODE_END_UNKNOWN_BRANCH] = "branch",
		[DECODE_END_UNKNOWN_TARGET] = "target",
		[DECODE_END_RETURN] = "return",
		[DECODE_END_SYSCALL] = "kernel",
		[DECODE_END_TRAP] = "trap",
		[DECODE_END_NO_CODE] = "no-code",
		[DECODE_END_BAD_CODE] = "bad-code",
	};

	printf("           exact access within %d: %.1f %%; others end:", NEAR,
	       100 * (double)result->n_near / (double)n_samples);
	for (int i = 0; i < DECODE_END_COUNT; i++)
		if (result->ends_without[i])
			printf(" %s %.1f", names[i],
			       100 * (double)result->ends_without[i] / (double)n_samples);
	printf(" %%\n");
}

static void print_result(const char *name, const struct result *result, uint64_t n_decoded)
{
	double n = (double)result->n_windows / 100;

	printf("%-10s %6.2f M samples/s  %5.1f ns/instruction  %5.1f instructions/window  %5" PRIu64
	       " distinct\n",
	       name, (double)result->n_windows * 1e3 / (double)result->ns,
	       (double)result->ns / (double)result->n_instructions,
	       (double)result->n_instructions / (double)result->n_windows, n_decoded);
	printf("           ends: loop %.1f limit %.1f branch %.1f target %.1f return %.1f "
	       "kernel %.1f no code %.1f other %.1f %%\n",
	       (double)result->ends[DECODE_END_LOOP] / n,
	       (double)result->ends[DECODE_END_LIMIT] / n,
	       (double)result->ends[DECODE_END_UNKNOWN_BRANCH] / n,
	       (double)result->ends[DECODE_END_UNKNOWN_TARGET] / n,
	       (double)result->ends[DECODE_END_RETURN] / n,
	       (double)result->ends[DECODE_END_SYSCALL] / n,
	       (double)result->ends[DECODE_END_NO_CODE] / n,
	       (double)(result->ends[DECODE_END_TRAP] + result->ends[DECODE_END_BAD_CODE]) / n);
	printf("           stalls: access %.1f (%.1f resolved) code %.1f unknown %.1f %%\n",
	       result->stalls[DECODE_STALL_ACCESS] / n, result->stalls_resolved / n,
	       result->stalls[DECODE_STALL_CODE] / n, result->stalls[DECODE_STALL_UNKNOWN] / n);
	printf("           time: resolved %.1f unresolved %.1f code %.1f %%\n",
	       result->resolved / n, result->unresolved / n, result->code / n);
}

static int bench_command(const char *name, double seconds, char **command)
{
	struct bench bench = { .max_samples = 200000 };
	struct decode_memory memory = { .code = read_code,
					.constant = read_constant,
					.user = &bench };
	auto_decoder struct decoder *decoder = NULL;
	struct result cold = { 0 }, warm = { 0 };
	int err;

	bench.samples = calloc(bench.max_samples + 1, sizeof(*bench.samples));
	err = take_samples(&bench, seconds, command);
	if (err == 0 && bench.n_samples > 0 &&
	    decode_create(DECODE_MACHINE_X86_64, &memory, 0, &decoder) == 0) {
		find_constant(&bench);
		decode_all(&bench, decoder, &cold);
		while (warm.ns < MIN_DECODE_NS)
			decode_all(&bench, decoder, &warm);
		print_result(name, &warm, decode_n_decoded(decoder));
		look_near(&bench, decoder, &cold);
		print_near(&cold, bench.n_samples);
		printf("           first pass %.2f M samples/s over %zu samples\n",
		       (double)cold.n_windows * 1e3 / (double)cold.ns, bench.n_samples);
	} else {
		printf("%-10s no samples: %s\n", name, strerror(-err));
	}
	kill(bench.child, SIGKILL);
	waitpid(bench.child, NULL, 0);
	free(bench.samples);
	return err;
}

int main(int argc, char **argv)
{
	static char *python[] = { "python3", "-c",
				  "while True: sum([i * i for i in range(100000)])", NULL };
	static char *sqlite[] = { "sqlite3", ":memory:",
				  "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c "
				  "LIMIT 100000000) SELECT sum(x * x % 7), x % 1000 FROM c "
				  "GROUP BY 2 ORDER BY 1;",
				  NULL };
	static char *xz[] = { "xz", "-c", "/dev/urandom", NULL };
	static char *gzip[] = { "gzip", "-c", "/dev/urandom", NULL };
	char **commands[] = { python, sqlite, xz, gzip };
	int n_failed = 0;

	if (argc > 2)
		return bench_command(argv[2], strtod(argv[1], NULL), argv + 2) < 0;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		n_failed += bench_command(commands[i][0], 2, commands[i]) < 0;
	return n_failed > 0;
}
