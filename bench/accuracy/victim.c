#include "bench/accuracy/victim.h"

volatile uint64_t sink;

static struct {
	const char *object;
	int64_t ns;
} truth[MAX_OBJECTS];

static uint64_t state = 88172645463325252u;
static int64_t clock_ns; /* what asking for the time costs */

#define MAKE(letter)                                                                               \
	KERNEL void *make_##letter(size_t n_bytes)                                                 \
	{                                                                                          \
		return present(aligned_alloc(64, (n_bytes + 63) & ~(size_t)63), n_bytes);          \
	}
MAKE(a)
MAKE(b)
MAKE(c)
MAKE(d)
MAKE(e)

void *present(void *block, size_t n_bytes)
{
	uintptr_t start = (uintptr_t)block & ~(uintptr_t)4095;
	uintptr_t end = ((uintptr_t)block + n_bytes + 4095) & ~(uintptr_t)4095;

	if (!block)
		abort();
	madvise((void *)start, end - start, MADV_POPULATE_WRITE);
	return block;
}

int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

int64_t since_ns(int64_t start_ns)
{
	int64_t spent = cpu_ns() - start_ns - clock_ns;

	return spent > 0 ? spent : 0;
}

static void measure_clock(void)
{
	clock_ns = INT64_MAX;
	for (int i = 0; i < 1000; i++) {
		int64_t start = cpu_ns(), spent = cpu_ns() - start;

		clock_ns = spent < clock_ns ? spent : clock_ns;
	}
}

void seed_random(uint64_t seed)
{
	state ^= seed * UINT64_C(0x9e3779b97f4a7c15);
	for (int i = 0; i < 20; i++)
		random_below(1);
}

uint64_t random_below(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % n;
}

void charge(const char *object, int64_t ns)
{
	unsigned i = 0;

	while (i < MAX_OBJECTS - 1 && truth[i].object && strcmp(truth[i].object, object) != 0)
		i++;
	truth[i].object = object;
	truth[i].ns += ns;
}

void charge_phase(const struct phase *phase)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MAX_PARTS; i++)
		n += phase->parts[i].n;
	for (unsigned i = 0; i < MAX_PARTS && phase->parts[i].object; i++)
		charge(phase->parts[i].object, phase->spent_ns * phase->parts[i].n / (n ? n : 1));
}

double calibrate(struct phase *phase)
{
	uint64_t n = 1;
	int64_t ns;

	do {
		int64_t start = cpu_ns();

		n *= 2;
		phase->run(n);
		ns = since_ns(start);
		phase->spent_ns += ns;
	} while (ns < 400000);
	return (double)ns / (double)n;
}

static int64_t run_slice(struct phase *phase, double us)
{
	uint64_t n = (uint64_t)(us * 1000 / phase->unit_ns);
	int64_t start = cpu_ns(), spent;

	phase->run(n > 0 ? n : 1);
	spent = since_ns(start);
	phase->spent_ns += spent;
	return spent;
}

void run_slices(struct phase *phases, unsigned least_us, unsigned most_us, double ms)
{
	unsigned n = 0;
	int64_t left_ns = (int64_t)(ms * 1e6);

	for (; n < 3 && phases[n].run; n++) {
		phases[n].spent_ns = 0;
		phases[n].unit_ns = calibrate(&phases[n]);
	}
	while (left_ns > 0) {
		double us = least_us + (double)random_below((most_us - least_us) * 16 + 1) / 16;

		left_ns -= run_slice(&phases[random_below(n)], us);
	}
	for (unsigned i = 0; i < n; i++)
		charge_phase(&phases[i]);
}

void print_truth(void)
{
	struct timespec all;
	int64_t total = 0;

	for (unsigned i = 0; i < MAX_OBJECTS && truth[i].object; i++) {
		printf("time %s %jd\n", truth[i].object, (intmax_t)truth[i].ns);
		total += truth[i].ns;
	}
	printf("total %jd\n", (intmax_t)total);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	printf("process %jd\n", all.tv_sec * (intmax_t)1000000000 + all.tv_nsec);
}

static const struct kind *find_kind(const struct kind *kinds, const char *name)
{
	while (kinds->name && strcmp(kinds->name, name) != 0)
		kinds++;
	return kinds->name ? kinds : NULL;
}

int main(int argc, char **argv)
{
	const struct kind *kind = argc > 3 ? find_kind(slice_kinds, argv[1]) : NULL;
	struct phase phases[3];

	if (!kind && argc > 3)
		kind = find_kind(task_kinds, argv[1]);
	if (!kind) {
		fprintf(stderr, "usage: victim KIND MILLISECONDS SEED [ARGUMENT]\n");
		return 2;
	}
	seed_random(strtoull(argv[3], NULL, 10));
	measure_clock();
	if (kind->prepare)
		kind->prepare();
	memcpy(phases, kind->phases, sizeof(phases));
	if (kind->run)
		kind->run(atof(argv[2]), argc > 4 ? argv[4] : "");
	else
		run_slices(phases, kind->least_us, kind->most_us, atof(argv[2]));
	print_truth();
	return 0;
}
