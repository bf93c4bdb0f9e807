// A C++ program with exceptions, containers and threads: victim-throw ROUNDS
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct error : std::runtime_error {
	explicit error(int level)
	    : std::runtime_error("level " + std::to_string(level)), text(40, 'x')
	{
	}
	std::string text;
};

static int descend(int level, std::vector<std::string> &names)
{
	std::string name = "a name too long for the string itself " + std::to_string(level);

	names.push_back(name);
	if (level == 0)
		throw error(level);
	try {
		return descend(level - 1, names) + static_cast<int>(name.size());
	} catch (const error &e) {
		auto copy = std::make_unique<std::string>(e.what() + e.text);

		if (level % 3)
			throw;
		return static_cast<int>(copy->size());
	}
}

static long work(int rounds)
{
	std::map<std::string, std::vector<int>> all;
	long sum = 0;

	for (int i = 0; i < rounds; i++) {
		std::vector<std::string> names;

		sum += descend(i % 11 + 3, names);
		for (const auto &name : names)
			all[name].push_back(i);
	}
	return sum + static_cast<long>(all.size());
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100;
	std::vector<std::thread> threads;
	long sums[2];

	for (long &sum : sums)
		threads.emplace_back([&sum, rounds] { sum = work(rounds / 2); });
	for (auto &thread : threads)
		thread.join();
	return sums[0] == sums[1] ? 0 : 1;
}
