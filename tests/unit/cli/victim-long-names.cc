// Names of templates that have more characters than a line, and call stacks of them.
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

template <typename Key, typename Value> struct long_named_container_of_pairs {
	std::map<Key, std::vector<Value>> rows;

	__attribute__((noinline)) void *make_block(const Key &, Value)
	{
		return memset(malloc(100000), 1, 100000); // kept
	}
	__attribute__((noinline)) void fill_rows(const Key &key, Value value)
	{
		for (int i = 0; i < 40; i++)
			rows[key + std::to_string(i)].push_back(value);
		make_block(key, value);
	}
};

template <int n> struct deeper {
	__attribute__((noinline)) static void call()
	{
		using inner = std::map<int, std::string>;
		using value = std::map<std::string, std::vector<std::shared_ptr<inner>>>;
		static long_named_container_of_pairs<std::string, value> container;

		deeper<n - 1>::call();
		container.fill_rows("key " + std::to_string(n), value());
	}
};

template <> void deeper<0>::call()
{
	volatile double sum = 0;

	while (clock() < CLOCKS_PER_SEC / 3)
		for (int i = 0; i < 10000; i++)
			sum = sum + i;
}

int main()
{
	deeper<12>::call();
	return 0;
}
