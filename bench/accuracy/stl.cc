// Containers of the standard library, for ever: what steps.py steps through.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

static std::uint64_t next(std::uint64_t &seed)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return seed >> 33;
}

int main()
{
	std::uint64_t seed = 1;

	for (;;) {
		std::map<std::string, int> words;
		std::unordered_map<std::uint64_t, std::vector<int>> lists;
		std::vector<std::string> sorted;

		for (int i = 0; i < 20000; i++) {
			auto number = next(seed) % 5000;
			auto word = "word " + std::to_string(number);

			words[word] += i;
			lists[number].push_back(i);
			sorted.push_back(word);
		}
		std::sort(sorted.begin(), sorted.end());
		for (auto &list : lists)
			std::reverse(list.second.begin(), list.second.end());
		std::printf("%zu %zu %s\n", words.size(), lists.size(), sorted.front().c_str());
	}
}
