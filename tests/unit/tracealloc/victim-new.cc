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

// Sizes 4101, 4102 ... for every operator new there is; each of its blocks goes back by another of
// the operators delete that fit.
static int forms()
{
	const std::nothrow_t &quiet = std::nothrow;
	const std::align_val_t wide{ 256 };

	operator delete(operator new(4101));
	operator delete(operator new(4102), std::size_t(4102));
	operator delete(operator new(4103, quiet), quiet);
	operator delete[](operator new[](4104));
	operator delete[](operator new[](4105), std::size_t(4105));
	operator delete[](operator new[](4106, quiet), quiet);
	operator delete(operator new(4107, wide), wide);
	operator delete(operator new(4108, wide), std::size_t(4108), wide);
	operator delete(operator new(4109, wide, quiet), wide, quiet);
	operator delete[](operator new[](4110, wide), wide);
	operator delete[](operator new[](4111, wide), std::size_t(4111), wide);
	operator delete[](operator new[](4112, wide, quiet), wide, quiet);
	void *volatile nothing = nullptr; // none of these is an event
	operator delete(nothing);
	operator delete[](nothing, quiet);
	return 0;
}

// How often the handler was called; it gives up the second time.
static int n_handled;

static void handle()
{
	if (++n_handled == 2)
		std::set_new_handler(nullptr);
}

// Calls that get no memory: they throw or refuse, and leave no event. Blocks of no bytes are
// blocks.
static int refusals()
{
	const volatile std::size_t huge = std::size_t(-1) / 2;
	int thrown = 0;

	std::set_new_handler(handle);
	for (int i = 0; i < 4; i++) {
		try {
			if (i == 0)
				operator delete(operator new(huge));
			else if (i == 1)
				operator delete[](operator new[](huge));
			else if (i == 2)
				operator delete(operator new(huge, std::align_val_t(64)));
			else
				operator delete[](operator new[](huge, std::align_val_t(64)));
		} catch (const std::bad_alloc &) {
			thrown++;
		}
	}
	say("handled", n_handled);
	say("thrown", thrown);
	say("refused", (operator new(huge, std::nothrow) == nullptr) +
			       (operator new[](huge, std::nothrow) == nullptr));
	void *empty = operator new(0);
	void *other = operator new(0);
	say("empty", empty && other && empty != other);
	operator delete(empty);
	operator delete(other, std::size_t(0));
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
	if (argc > 1 && strcmp(argv[1], "forms") == 0)
		return forms();
	return argc > 1 && strcmp(argv[1], "refusals") == 0 ? refusals() : exceptions();
}
