// A program that asks an allocator for blocks in every way, sizes that nobody else asks for. With
// an argument it also asks for more than there is, which some allocators do not survive.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

static void churn()
{
	for (int i = 0; i < 1000; i++) {
		void *block = malloc(5001);

		memset(block, 1, 5001);
		free(realloc(block, 5002));
	}
}

static bool once()
{
	const std::align_val_t wide{ 128 };
	void *block = nullptr;

	operator delete(operator new(6001));
	operator delete[](operator new[](6002));
	operator delete(operator new(6003, wide), wide);
	operator delete[](operator new[](6004, wide), wide);
	operator delete(operator new(6005, std::nothrow), std::nothrow);
	free(calloc(3, 2002));
	free(aligned_alloc(64, 6400));
	if (posix_memalign(&block, 64, 6464))
		return false;
	free(block);
	free(memset(malloc(3 << 20), 1, 3 << 20));
	return true;
}

int main(int argc, char **)
{
	const volatile std::size_t huge = ~std::size_t(0) / 4;

	for (int i = 0; i < 100; i++)
		if (!once())
			return 1;
	for (int i = 0; argc > 1 && i < 3; i++) {
		try {
			operator delete(operator new(huge));
		} catch (const std::bad_alloc &) {
			puts("thrown");
		}
	}
	std::thread one(churn), two(churn);
	one.join();
	two.join();
	puts("done");
	return 3;
}
