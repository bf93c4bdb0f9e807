// Threads that throw through functions all the time, until their input ends: each is caught where
// it should be, and what lies between is cleaned up once.
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

#if defined(__clang__)
#define F static __attribute__((noinline, optnone))
#else
#define F static __attribute__((noipa, noinline))
#endif

static std::atomic<bool> must_end;
static std::atomic<long> n_wrong;

struct guard {
	int &n;
	~guard()
	{
		n++;
	}
};

F int f_throws(int i)
{
	if (i % 3 == 0)
		throw std::runtime_error("thrown");
	return i;
}

F int f_passes(int i, int &n)
{
	guard here{ n };
	return f_throws(i) + 1;
}

F int f_catches(int i)
{
	int n = 0, result = -1;

	try {
		result = f_passes(i, n);
	} catch (const std::exception &) {
	}
	n_wrong += n != 1;
	return result;
}

F int f_deep(int depth, int i)
{
	return depth > 0 ? f_deep(depth - 1, i) : f_catches(i);
}

static void work()
{
	for (int i = 0; !must_end; i = (i + 1) % 1000)
		n_wrong += f_deep(i % 20, i) != (i % 3 == 0 ? -1 : i + 1);
}

int main()
{
	std::vector<std::thread> threads;
	char byte;

	for (int i = 0; i < 3; i++)
		threads.emplace_back(work);
	printf("%d\n", getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		continue;
	must_end = true;
	for (std::thread &thread : threads)
		thread.join();
	printf("%ld\n", n_wrong.load());
	return n_wrong != 0;
}
