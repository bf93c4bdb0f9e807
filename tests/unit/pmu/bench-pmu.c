/*
 * What sampling costs: the reader for each sample at 25 kHz on two threads, and the program at 997
 * Hz. Figures only, nothing is asserted; exit 77 where perf is refused.
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/record.h"
#include "pmu/source.h"

#define N_THREADS 2
#define RUN_NS	  UINT64_C(3000000000)
#define N_PAIRS	  200

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void spin(uint64_t n)
{
	for (volatile uint64_t i = 0; i < n; i++)
		;
}

/* A child that waits for one byte on the pipe and then runs body. */
static pid_t start(void (*body)(void *), void *argument, int *ret_go)
{
	int fds[2];
	char go;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0)
		err(EXIT_FAILURE, "fork");
	if (pid == 0) {
		close(fds[1]);
		if (read(fds[0], &go, 1) == 1)
			body(argument);
		_exit(0);
	}
	close(fds[0]);
	*ret_go = fds[1];
	return pid;
}

static void go(int fd)
{
	if (write(fd, "g", 1) != 1)
		err(EXIT_FAILURE, "write");
	close(fd);
}

static struct access_stream *open_clock(pid_t pid, uint64_t freq_hz)
{
	const struct access_options options = { .pid = pid,
						.freq_hz = freq_hz,
						.stack_bytes = 256 };
	struct access_stream *stream;
	struct pmu_refusal refusal;

	if (pmu_stream_open(pmu_source_find("clock"), &options, &stream, &refusal) < 0) {
		printf("skipped: %s (%s)\n", refusal.why, refusal.fix);
		exit(77);
	}
	pmu_stream_enable(stream, true);
	return stream;
}

/* ---- the reader ---- */

struct reading {
	struct pmu_format format;
	uint8_t *copy; /* as the trace writer takes the records */
	uint64_t n_samples;
	uint64_t ips;
	bool parses_all;
};

static void parse_one(struct reading *reading, const uint8_t *record, size_t n_bytes)
{
	struct pmu_record whole;
	struct pmu_origin origin;
	uint64_t ip = 0;

	if (reading->parses_all) {
		pmu_record_parse(&reading->format, record, n_bytes, &whole);
		ip = whole.sample.ip;
	} else {
		pmu_record_sample_ip(&reading->format, record, n_bytes, &origin, &ip);
	}
	reading->ips += ip;
}

static int take(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct reading *reading = context;
	const uint8_t *bytes = records;
	size_t at = 0;
	int length;

	memcpy(reading->copy, records, n_bytes);
	while ((length = pmu_record_length(bytes + at, n_bytes - at)) > 0) {
		parse_one(reading, bytes + at, n_bytes - at);
		at += (size_t)length;
	}
	reading->n_samples += n_samples;
	return 0;
}

static void *spin_for_a_while(void *unused)
{
	uint64_t begin = now_ns(CLOCK_MONOTONIC);

	(void)unused;
	while (now_ns(CLOCK_MONOTONIC) - begin < RUN_NS)
		spin(1000000);
	return NULL;
}

static void spin_on_threads(void *unused)
{
	pthread_t threads[N_THREADS];

	(void)unused;
	for (int i = 0; i < N_THREADS; i++)
		pthread_create(&threads[i], NULL, spin_for_a_while, NULL);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void measure_reader(bool parses_all)
{
	struct reading reading = { .copy = malloc(16 << 20), .parses_all = parses_all };
	const struct timespec pause = { .tv_nsec = 5000000 };
	struct trace_source source;
	struct pmu_losses losses;
	struct access_stream *stream;
	uint64_t cpu_ns, n_wakes = 0;
	int go_fd;
	pid_t pid = start(spin_on_threads, NULL, &go_fd);

	stream = open_clock(pid, 25000);
	pmu_stream_describe(stream, &source);
	reading.format = (struct pmu_format){ .sample_type = source.sample_type,
					      .regs_user = source.regs_user };
	cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	go(go_fd);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		nanosleep(&pause, NULL);
		pmu_stream_read(stream, take, &reading);
		n_wakes++;
	}
	pmu_stream_read(stream, take, &reading);
	cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	pmu_stream_losses(stream, &losses);
	printf("reader 25 kHz x %d threads, copy + %s: %.0f ns/sample CPU, "
	       "%llu samples, %llu lost, %llu wake-ups\n",
	       N_THREADS, parses_all ? "full parse" : "pid and ip",
	       (double)cpu_ns / (double)reading.n_samples, (unsigned long long)reading.n_samples,
	       (unsigned long long)losses.n_lost, (unsigned long long)n_wakes);
	pmu_stream_close(stream);
	free(reading.copy);
}

/* ---- the program ---- */

static void spin_and_tell(void *shared_ns)
{
	uint64_t begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);

	spin(200000000);
	*(volatile uint64_t *)shared_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
}

static int ignore(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	(void)records;
	(void)n_bytes;
	*(uint64_t *)context += n_samples;
	return 0;
}

/* CPU time of the same loop; freq_hz 0: without sampling. */
static uint64_t loop_ns(uint64_t freq_hz, volatile uint64_t *shared_ns, uint64_t *n_samples)
{
	struct access_stream *stream = NULL;
	int go_fd;
	pid_t pid = start(spin_and_tell, (void *)shared_ns, &go_fd);

	if (freq_hz)
		stream = open_clock(pid, freq_hz);
	go(go_fd);
	waitpid(pid, NULL, 0);
	if (stream)
		pmu_stream_read(stream, ignore, n_samples);
	pmu_stream_close(stream);
	return *shared_ns;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Pairs in turn, so that a drift of the machine meets both; the median leaves disturbances out. */
static void measure_slowdown(uint64_t freq_hz)
{
	volatile uint64_t *shared_ns =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double percents[N_PAIRS];
	uint64_t n_samples = 0;

	for (int i = 0; i < N_PAIRS; i++) {
		uint64_t without = loop_ns(0, shared_ns, NULL);
		uint64_t with = loop_ns(freq_hz, shared_ns, &n_samples);

		percents[i] = 100.0 * ((double)with / (double)without - 1.0);
	}
	qsort(percents, N_PAIRS, sizeof(*percents), compare);
	printf("slowdown at %llu Hz: %.2f %% (median of %d pairs; quartiles %.2f, %.2f), %.0f"
	       " samples a run\n",
	       (unsigned long long)freq_hz, percents[N_PAIRS / 2], N_PAIRS, percents[N_PAIRS / 4],
	       percents[3 * N_PAIRS / 4], (double)n_samples / N_PAIRS);
}

int main(void)
{
	measure_reader(false);
	measure_reader(true);
	measure_slowdown(997);
	return EXIT_SUCCESS;
}
