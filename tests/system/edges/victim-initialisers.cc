// Objects that allocate before main and give back after it: 10 blocks of 2101 bytes, one of 2102,
// one of 2103 that is never given back; and libstdc++'s pool for exceptions, which it takes at its
// start.
#include <cstdio>
#include <cstdlib>

struct Holder {
	explicit Holder(std::size_t size) : block(malloc(size))
	{
	}
	~Holder()
	{
		free(block);
	}
	void *block;
};

static Holder first[10] = { Holder(2101), Holder(2101), Holder(2101), Holder(2101), Holder(2101),
			    Holder(2101), Holder(2101), Holder(2101), Holder(2101), Holder(2101) };
static thread_local Holder of_thread(2102);
void *kept = malloc(2103);

int main()
{
	try {
		throw 5;
	} catch (int n) {
		printf("%d %d %d\n", n, first[9].block != nullptr, of_thread.block != nullptr);
	}
	return 0;
}
