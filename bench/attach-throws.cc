/*
 * A program to be attached to: threads throw and catch through several frames, make and give back
 * containers, and open and close libraries. Prints "right" or "wrong" per turn, forever.
 */
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<bool> is_wrong;

struct counted {
	static thread_local int n;
	std::string text;

	explicit counted(int i) : text(static_cast<size_t>(i % 90), 'x')
	{
		n++;
	}
	~counted()
	{
		n--;
	}
};

thread_local int counted::n;

static __attribute__((noinline)) int sink(int depth, int i)
{
	counted here(i);

	if (depth == 0)
		throw std::runtime_error(std::string(static_cast<size_t>(i % 200), 'y'));
	return sink(depth - 1, i + 1) + static_cast<int>(here.text.size());
}

static void throw_and_catch()
{
	for (int i = 0; i < 300; i++) {
		try {
			sink(i % 12, i);
			is_wrong = true;
		} catch (const std::exception &error) {
			const size_t n = static_cast<size_t>((i + i % 12) % 200);

			if (std::string(error.what()).size() != n)
				is_wrong = true;
		}
		if (counted::n != 0)
			is_wrong = true;
	}
}

static void fill()
{
	std::map<int, std::vector<std::string>> map;
	size_t n = 0;

	for (int i = 0; i < 500; i++)
		map[i % 37].push_back(std::string(static_cast<size_t>(i), 'z'));
	for (const auto &entry : map)
		for (const auto &text : entry.second)
			n += text.size();
	if (n != 500 * 499 / 2)
		is_wrong = true;
}

static void open_and_close()
{
	void *handle = dlopen("libm.so.6", RTLD_NOW);
	using function = double (*)(double);
	auto *cosine = handle ? reinterpret_cast<function>(dlsym(handle, "cos")) : nullptr;

	if (!cosine || cosine(0) != 1)
		is_wrong = true;
	if (handle)
		dlclose(handle);
	/* One that nobody else uses comes and goes. */
	handle = dlopen("libanl.so.1", RTLD_NOW);
	if (handle)
		dlclose(handle);
}

int main()
{
	for (;;) {
		std::vector<std::thread> threads;

		for (int i = 0; i < 4; i++)
			threads.emplace_back([] {
				for (int k = 0; k < 10; k++) {
					throw_and_catch();
					fill();
					open_and_close();
				}
			});
		for (auto &thread : threads)
			thread.join();
		puts(is_wrong ? "wrong" : "right");
		fflush(stdout);
	}
}
