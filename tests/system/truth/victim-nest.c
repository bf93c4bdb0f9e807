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
	take(3 * PART);
	sum++;
}

__attribute__((noinline)) void take_one(void)
{
	take(PART);
	sum++;
}

int main(void)
{
	struct timespec now;

	do {
		take_three();
		take_one();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec < 2);
	return 0;
}
