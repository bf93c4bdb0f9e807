// A program with operators new and delete of its own, which the runtime's other operators call.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <new>
#include <string>

static int n_live;
static int n_made;
static int n_ours; // frames of the recorder below an operator of ours

static void count_ours()
{
	void *pcs[16];
	Dl_info info;
	int n = backtrace(pcs, 16);

	for (int i = 0; i < n; i++)
		n_ours += dladdr(pcs[i], &info) && strstr(info.dli_fname, "libtracealloc");
}

void *operator new(std::size_t size)
{
	count_ours();
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
	printf("live=%d\nmade=%d\nours=%d\n", n_live, n_made, n_ours);
	return 0;
}
