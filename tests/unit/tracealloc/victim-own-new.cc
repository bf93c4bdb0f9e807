// A program with operators new and delete of its own, which the runtime's other operators call.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

static int n_live;
static int n_made;

void *operator new(std::size_t size)
{
	n_live++;
	n_made++;
	return malloc(size + 1000000);
}

void operator delete(void *block) noexcept
{
	n_live--;
	free(block);
}

void operator delete(void *block, std::size_t) noexcept
{
	operator delete(block);
}

int main()
{
	for (int i = 0; i < 100; i++) {
		operator delete[](operator new[](9001));
		operator delete(operator new(9002, std::nothrow), std::nothrow);
		std::string text(9003, 'x'); // from inside of libstdc++
	}
	printf("live=%d\nmade=%d\n", n_live, n_made);
	return 0;
}
