/*
 * Three quarters of its time are called by take_three(), one by take_one(); both by way of take().
 */
#include <stdint.h>
#include <time.h>

#define PART 100000

void work(int n);
void take(int n);
void take_three(void);
void take_one(void);

static volatile uint64_t sum;
/* Of another length each time: what repeats may come into step with the sampling. */
static int part;

__attribute__((noinline)) void work(int n)
{
	for (int i = 0; i < n; i++)
		sum += (uint64_t)i;
}

__attribute__((noinline)) void take(int n)
{
	work(n);
	sum++; /* no tail call */
}

__attribute__((noinline)) void take_three(void)
{
	take(3 * part);
	sum++;
}

__attribute__((noinline)) void take_one(void)
{
	take(part);
	sum++;
}

int main(void)
{
	struct timespec now;
	uint32_t random = 1;

	do {
		random = random * 1664525 + 1013904223;
		part = PART / 2 + (int)(random >> 8) % PART;
		take_three();
		take_one();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec < 2);
	return 0;
}
