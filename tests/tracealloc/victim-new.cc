// Every form of operator new and delete once, and exceptions that cross frames while threads
// allocate. Sizes that nobody else asks for.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static void say(const char *name, unsigned long value)
{
	char line[80];
	int n = snprintf(line, sizeof(line), "%s=%lu\n", name, value);

	if (write(STDOUT_FILENO, line, n) != n)
		abort();
}

struct alignas(256) Wide {
	char bytes[4352];
};

static int forms()
{
	operator delete(operator new(4101));
	operator delete[](operator new[](4102));
	operator delete(operator new(4103, std::nothrow), std::nothrow);
	operator delete(operator new(4104), std::size_t(4104));
	Wide *volatile wide = new Wide; // volatile: an unused pair may be left out
	delete wide;
	try {
		operator delete(operator new(std::size_t(-1) / 2));
	} catch (const std::bad_alloc &) {
		say("thrown", 1);
	}
	say("refused", operator new(std::size_t(-1) / 2, std::nothrow) == nullptr);
	return 0;
}

static int unwound;

struct Counted {
	void *block = malloc(4201);
	~Counted()
	{
		free(block);
		__atomic_fetch_add(&unwound, 1, __ATOMIC_RELAXED);
	}
};

static void descend(int depth)
{
	Counted counted;

	if (depth == 0)
		throw std::runtime_error(std::string(100, 'x'));
	descend(depth - 1);
}

static void throw_often()
{
	for (int i = 0; i < 100; i++) {
		try {
			descend(4);
		} catch (const std::runtime_error &) {
		}
	}
}

// Four threads, 100 exceptions each through five frames: 2,000 destructors.
static int exceptions()
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back(throw_often);
	for (auto &thread : threads)
		thread.join();
	say("unwound", unwound);
	return 0;
}

int main(int argc, char **argv)
{
	return argc > 1 && strcmp(argv[1], "forms") == 0 ? forms() : exceptions();
}
