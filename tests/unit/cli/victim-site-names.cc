// Sites whose names are known: calls of libraries, of functions that only hand on, and of neither.
// Lines that are named by site-names.py end in the site's number.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

static std::map<int, std::string> labels = { { 1, "a label too long for its object" } }; // 1

// Seen by nobody knows whom: neither a tail call nor left out.
static void *seen(void *block)
{
	asm volatile("" : "+r"(block) : : "memory");
	return block;
}

extern "C" __attribute__((noinline)) void *xmalloc(size_t n)
{
	void *block = malloc(n);
	if (!block)
		abort();
	return block;
}

extern "C" __attribute__((noinline)) void *my_zalloc(size_t n)
{
	return seen(memset(xmalloc(n), 0, n));
}

// A name that does not say so; its type does.
extern "C" __attribute__((noinline)) void *grab(size_t n)
{
	void *block = malloc(n);
	if (!block)
		abort();
	return block;
}

// A name like one of C++'s own allocators.
extern "C" __attribute__((noinline)) void *allocate_row(size_t n)
{
	return seen(xmalloc(n));
}

// The type of an allocator, and one caller: it is meant itself.
extern "C" __attribute__((noinline)) void *read_all(size_t n)
{
	return seen(malloc(n)); // 13
}

// Three on one line.
__attribute__((noinline)) static void fill(char *blocks[3])
{
	char *a, *b;
	// clang-format off
	a = (char *)malloc(50001), b = (char *)malloc(50002), blocks[2] = new char[50003]; // 14
	// clang-format on
	blocks[0] = a;
	blocks[1] = b;
}

// A name that says that it allocates, and more than it says.
extern "C" __attribute__((noinline)) void alloc_tables(void *tables[3])
{
	tables[0] = malloc(70001); // 2
	tables[1] = malloc(70002); // 3
	tables[2] = malloc(70003); // 4
}

template <typename Key, typename Value> struct Index {
	std::map<Key, std::vector<Value>> rows;

	__attribute__((noinline)) void add(const Key &key, Value value)
	{
		rows[key].push_back(value); // 5
	}
};

struct Node {
	char bytes[100];
};

namespace
{
__attribute__((noinline)) std::shared_ptr<Node> make_node()
{
	return std::make_shared<Node>(); // 6
}
} // namespace

__attribute__((noinline)) static void *read_header()
{
	return seen(xmalloc(60001)); // 7
}

__attribute__((noinline)) static void *read_body()
{
	return seen(my_zalloc(60002)); // 8
}

static void *read_tail()
{
	return seen(my_zalloc(60004));
}

int main()
{
	Index<std::string, std::pair<int, Node>> index;
	std::vector<std::shared_ptr<Node>> nodes;
	void *tables[3], *blocks[4], *grabbed[5];
	char *filled[3];

	alloc_tables(tables);
	blocks[0] = read_header();
	blocks[1] = read_body();
	blocks[3] = read_tail();
	blocks[2] = seen(new char[60003]); // 9
	for (int i = 0; i < 100; i++) {
		index.add("a key that is too long for its object " + std::to_string(i % 9),
			  {}); // 10
		nodes.push_back(make_node()); // 11
	}
	puts(labels[1].c_str()); // 12
	fill(filled);
	grabbed[0] = grab(40001); // 15
	grabbed[1] = grab(40002); // 16
	grabbed[2] = read_all(40003);
	grabbed[3] = allocate_row(80001); // 17
	grabbed[4] = allocate_row(80002); // 18
	seen(grabbed);
	seen(filled);
	for (void *block : grabbed)
		free(block);
	free(filled[0]);
	free(filled[1]);
	delete[] filled[2];
	for (void *table : tables)
		free(table);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			free(blocks[i]);
	delete[] static_cast<char *>(blocks[2]);
	return 0;
}
