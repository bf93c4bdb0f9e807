// Kernels of all kinds of code: what compilers.py builds in many ways and steps through. The
// argument is the number of one, which runs for ever; with none their count is the exit status.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define APART __attribute__((noinline)) static

namespace
{

volatile std::uint64_t result;
std::uint64_t seed = 1;

std::uint32_t draw()
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return static_cast<std::uint32_t>(seed >> 33);
}

// ---- Structures, with a way out of the loop's body ----

struct Body {
	double x, y, vx, vy;
	int kind;
	float mass;
};
Body bodies[100];

APART double move(Body *of, int n, double time)
{
	double energy = 0;

	for (int i = 0; i < n; i++) {
		Body *body = &of[i];

		if (body->kind == 2)
			continue;
		body->x += body->vx * time;
		body->y += body->vy * time;
		if (body->x > 10)
			body->vx = -body->vx;
		energy += body->mass * (body->vx * body->vx + body->vy * body->vy);
	}
	return energy;
}

void structures()
{
	for (auto &body : bodies)
		body.kind = static_cast<int>(draw() % 4), body.vx = 1.5;
	result += static_cast<std::uint64_t>(move(bodies, 100, 0.1) + move(bodies, 99, 0.2));
}

// ---- Lists ----

struct Node {
	Node *next;
	std::int64_t key;
};
Node nodes[64];

APART void insert(Node **at, Node *node)
{
	while (*at && (*at)->key < node->key)
		at = &(*at)->next;
	node->next = *at;
	*at = node;
}

APART Node *reverse(Node *head)
{
	Node *done = nullptr;

	while (head) {
		Node *next = head->next;

		head->next = done;
		done = head;
		head = next;
	}
	return done;
}

void lists()
{
	Node *head = nullptr;

	for (auto &node : nodes) {
		node.key = draw() % 100;
		insert(&head, &node);
	}
	result += static_cast<std::uint64_t>(reverse(head)->key);
}

// ---- A hash table ----

std::uint64_t table[1024];

APART bool count(std::uint64_t *of, std::uint32_t mask, std::uint32_t key)
{
	for (std::uint32_t i = key * 2654435761U >> 22 & mask;; i = (i + 1) & mask) {
		if (of[i] == 0) {
			of[i] = static_cast<std::uint64_t>(key) << 32 | 1;
			return true;
		}
		if (of[i] >> 32 == key) {
			of[i]++;
			return false;
		}
	}
}

void hashes()
{
	std::memset(table, 0, sizeof(table));
	for (int i = 0; i < 1000; i++)
		result += count(table, 1023, draw() % 400 + 1);
}

// ---- Matrices and stencils ----

float left[20 * 20], right[20 * 20], product[20 * 20];

APART void multiply(const float *a, const float *b, float *c, int n)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			for (int j = 0; j < n; j++)
				c[i * n + j] += a[i * n + k] * b[k * n + j];
}

APART float smooth(const float *from, float *to, int nx, int ny)
{
	float change = 0;

	for (int y = 1; y < ny - 1; y++)
		for (int x = 1; x < nx - 1; x++) {
			float now = from[y * nx + x];
			float next = 0.5F * now +
				     0.125F * (from[y * nx + x - 1] + from[y * nx + x + 1] +
					       from[(y - 1) * nx + x] + from[(y + 1) * nx + x]);

			change += next > now ? next - now : now - next;
			to[y * nx + x] = next;
		}
	return change;
}

void matrices()
{
	multiply(left, right, product, 13);
	multiply(left, product, right, 16);
	result += static_cast<std::uint64_t>(smooth(product, left, 20, 20));
}

// ---- Strings ----

char text[2000], words[2000];

APART int split(const char *from, char *to)
{
	int n = 0;

	for (;; n++) {
		while (*from == ' ')
			from++;
		if (!*from)
			break;
		while (*from && *from != ' ') {
			char c = *from++;

			*to++ = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
		}
		*to++ = '\n';
	}
	*to = '\0';
	return n;
}

APART int compare(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a - *b;
}

void strings()
{
	for (auto &c : text)
		c = "abc defgh ij"[draw() % 12];
	text[sizeof(text) - 1] = '\0';
	result += static_cast<std::uint64_t>(split(text, words));
	for (int i = 0; i < 20; i++)
		result += static_cast<std::uint64_t>(compare(words + i, text + i)) +
			  std::strlen(text + i) + (std::strchr(text + i, 'j') != nullptr);
	std::memmove(words + 3, words, 300);
}

// ---- Virtual calls ----

struct Shape {
	virtual ~Shape() = default;
	virtual double area() const = 0;
	virtual void grow(double by) = 0;
};
struct Circle : Shape {
	double radius = 1;
	double area() const override
	{
		return radius * radius * 3.14;
	}
	void grow(double by) override
	{
		radius *= by;
	}
};
struct Square : Shape {
	double side = 2;
	double area() const override
	{
		return side * side;
	}
	void grow(double by) override
	{
		side *= by;
	}
};

APART double sum_areas(Shape *const *of, int n)
{
	double all = 0;

	for (int i = 0; i < n; i++) {
		all += of[i]->area();
		if (all > 50)
			of[i]->grow(0.99);
	}
	return all;
}

void virtual_calls()
{
	static Circle circles[30];
	static Square squares[30];
	Shape *all[60];

	for (int i = 0; i < 30; i++) {
		all[draw() % 2 ? i : 59 - i] = &circles[i];
		all[all[i] == &circles[i] ? 59 - i : i] = &squares[i];
	}
	result += static_cast<std::uint64_t>(sum_areas(all, 60));
}

// ---- Sums of floating point ----

double numbers[600], others[600];

APART double dot(const double *a, const double *b, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

APART double largest(const double *of, int n)
{
	double most = 0;

	for (int i = 0; i < n; i++)
		most = std::max(most, std::fabs(of[i]));
	return most;
}

APART double sum_roots(const double *of, int n, int step)
{
	double sum = 0;

	for (int i = 0; i < n; i += step)
		sum += std::sqrt(of[i]);
	return sum;
}

void sums()
{
	for (auto &number : numbers)
		number = draw();
	result += static_cast<std::uint64_t>(dot(numbers, others, 300) + largest(numbers, 400) +
					     sum_roots(numbers, 600, 3));
}

// ---- A switch by a table ----

APART std::int64_t interpret(const std::uint8_t *code, std::int64_t *stack)
{
	unsigned at = 8;

	for (;;)
		switch (*code++) {
		case 0:
			stack[at++ & 31] = *code;
			break;
		case 1:
			stack[at & 31] += stack[(at - 1) & 31];
			break;
		case 2:
			stack[at & 31] *= 3;
			break;
		case 3:
			at += 3;
			break;
		case 4:
			stack[at & 31] ^= stack[0];
			break;
		case 5:
			at -= static_cast<unsigned>(stack[at & 31] & 1);
			break;
		case 6:
			stack[1]++;
			break;
		case 7:
			stack[(at + 1) & 31] = stack[at & 31];
			break;
		case 8:
			stack[2] -= at;
			break;
		default:
			return stack[at & 31];
		}
}

void switches()
{
	static std::uint8_t code[500];
	static std::int64_t stack[32];

	for (auto &byte : code)
		byte = static_cast<std::uint8_t>(draw() % 9);
	code[499] = 9;
	result += static_cast<std::uint64_t>(interpret(code, stack));
}

// ---- Recursion ----

std::int64_t sorted[120];

APART void sort_fast(std::int64_t *of, int n)
{
	if (n < 2)
		return;
	std::int64_t middle = of[n / 2];
	int i = 0, j = n - 1;

	while (i <= j) {
		while (of[i] < middle)
			i++;
		while (of[j] > middle)
			j--;
		if (i <= j)
			std::swap(of[i++], of[j--]);
	}
	sort_fast(of, j + 1);
	sort_fast(of + i, n - i);
}

APART int ackermann(int m, int n)
{
	return m == 0 ? n + 1 : ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

void recursion()
{
	for (auto &number : sorted)
		number = draw();
	sort_fast(sorted, 120);
	result += static_cast<std::uint64_t>(ackermann(2, 3));
}

// ---- Bits ----

std::uint64_t bits[64];

APART int count_bits(const std::uint64_t *of, int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++) {
		for (std::uint64_t left_over = of[i]; left_over; sum++)
			left_over &= left_over - 1;
		sum += __builtin_ctzll(of[i] | UINT64_C(1) << 63) + __builtin_popcountll(of[i]);
	}
	return sum;
}

APART void sieve(std::uint8_t *is_no_prime, unsigned n)
{
	for (unsigned i = 2; i * i < n; i++)
		if (!(is_no_prime[i >> 3] >> (i & 7) & 1))
			for (unsigned j = i * i; j < n; j += i)
				is_no_prime[j >> 3] |= static_cast<std::uint8_t>(1 << (j & 7));
}

void bit_tricks()
{
	for (auto &word : bits)
		word = static_cast<std::uint64_t>(draw()) << 32 | draw();
	result += static_cast<std::uint64_t>(count_bits(bits, 20));
	std::memset(bits, 0, sizeof(bits));
	sieve(reinterpret_cast<std::uint8_t *>(bits), 800);
}

// ---- Sparse matrices and searches ----

int columns[600], rows[61];
double values[600];

APART void multiply_sparse(const int *row, const int *column, const double *value, double *to)
{
	for (int i = 0; i < 60; i++) {
		double sum = 0;

		for (int k = row[i]; k < row[i + 1]; k++)
			sum += value[k] * numbers[column[k]];
		to[i] = sum;
	}
}

APART int search(const int *of, int n, int key)
{
	int low = 0, high = n;

	while (low < high) {
		int middle = (low + high) / 2;

		if (of[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void sparse()
{
	for (int i = 0; i < 61; i++)
		rows[i] = i * 10;
	for (auto &column : columns)
		column = static_cast<int>(draw() % 600);
	multiply_sparse(rows, columns, values, others);
	for (int i = 0; i < 60; i++)
		result += static_cast<std::uint64_t>(search(rows, 61, i * 10 + 3));
}

// ---- Containers ----

void containers()
{
	std::vector<int> drawn;
	std::map<int, std::string> names;

	for (int i = 0; i < 150; i++)
		drawn.push_back(static_cast<int>(draw() % 1000));
	std::sort(drawn.begin(), drawn.end());
	for (int number : drawn)
		names[number % 50] += std::to_string(number);
	for (auto &name : names)
		result += name.second.size();
}

void (*const kernels[])() = { structures, lists,    hashes,    matrices,   strings, virtual_calls,
			      sums,	  switches, recursion, bit_tricks, sparse,  containers };
constexpr int N_KERNELS = sizeof(kernels) / sizeof(kernels[0]);

} // namespace

int main(int argc, char **argv)
{
	int number = argc > 1 ? std::atoi(argv[1]) : N_KERNELS;

	if (number < 0 || number >= N_KERNELS)
		return N_KERNELS;
	for (;;)
		kernels[number]();
}
