/* Compiled without optimisation: every variable lives on the stack, and is loaded for each use. */
#include "tests/unit/decode/victim.h"

#include <stdint.h>

#define N     48
#define SIDE  14
#define TURNS 5

static int64_t numbers[N];
static double left[SIDE * SIDE], right[SIDE * SIDE], product[SIDE * SIDE];
static char text[N + 1];
static uint32_t table[256];
static struct body {
	double at, speed;
	struct body *next;
	int64_t n_moves;
} bodies[N];
static volatile int64_t result;

static int64_t sum(const int64_t *of, int n)
{
	int64_t all = 0;

	for (int i = 0; i < n; i++)
		all += of[i];
	return all;
}

static void sums(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		result += sum(numbers, N);
}

/* The third argument's register is used for other things. */
static void scale(int n, int64_t by, int64_t *of)
{
	for (int i = 0; i < n; i++)
		of[i] = of[i] * by + i;
}

static void scales(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		scale(N, 3, numbers);
}

static void multiply(const double *a, const double *b, double *c, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			double dot = 0;

			for (int k = 0; k < n; k++)
				dot += a[i * n + k] * b[k * n + j];
			c[i * n + j] = dot;
		}
}

static void matrices(void)
{
	multiply(left, right, product, SIDE);
}

static int64_t count_moves(const struct body *body)
{
	int64_t n = 0;

	while (body) {
		n += body->n_moves;
		body = body->next;
	}
	return n;
}

/* Before anything is stepped: each victim is one loop, whose accesses are the truth. */
__attribute__((constructor)) static void link_bodies(void)
{
	for (int i = 0; i < N - 1; i++)
		bodies[i].next = &bodies[i + 1];
	for (int i = 0; i < N; i++)
		numbers[i] = i * 7919 % 101;
}

static void lists(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		result += count_moves(bodies);
}

static void move(struct body *body, double time)
{
	body->at += body->speed * time;
	body->n_moves++;
}

static void helpers(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		for (struct body *body = bodies; body; body = body->next)
			move(body, 0.5);
}

static int64_t twice(const struct body *body)
{
	return body->n_moves * 2;
}

static void getters(void)
{
	int64_t all = 0;

	for (int turn = 0; turn < TURNS; turn++)
		for (const struct body *body = bodies; body; body = body->next)
			all += twice(body);
	result = all;
}

static double half(double of)
{
	return of * 0.5;
}

static void slow(struct body *body)
{
	body->speed = half(body->speed) + half(body->at);
	body->n_moves = twice(body);
}

static void nested(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		for (struct body *body = bodies; body; body = body->next)
			slow(body);
}

static void indirect(void)
{
	void (*volatile act)(struct body * body) = slow;

	for (int turn = 0; turn < TURNS; turn++)
		for (struct body *body = bodies; body; body = body->next)
			act(body);
}

static int64_t split(const int64_t *of, int n)
{
	int64_t odd = 0, even = 0;

	for (int i = 0; i < n; i++) {
		if (of[i] & 1)
			odd += of[i] * 3;
		else
			even -= of[n - i - 1];
	}
	return odd + even;
}

static void splits(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		result += split(numbers, N);
}

static int64_t larger(int64_t a, int64_t b)
{
	if (a > b)
		return a;
	return b;
}

static void compares(void)
{
	int64_t most = 0;

	for (int turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < N; i++)
			most = larger(most, numbers[i]);
	result = most;
}

static void sort_some(int64_t *of, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && of[j - 1] > of[j]; j--) {
			int64_t kept = of[j];

			of[j] = of[j - 1];
			of[j - 1] = kept;
		}
}

static void sorts(void)
{
	sort_some(numbers, N);
}

static void reverse(char *of, int n)
{
	int i = 0, j = n - 1;

	while (i < j) {
		char kept = of[i];

		of[i] = of[j];
		of[j] = kept;
		i++;
		j--;
	}
}

static void bytes(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		reverse(text, N);
}

static uint32_t check(const char *at, uint64_t n)
{
	uint32_t sum_so_far = 0;

	while (n--)
		sum_so_far = table[(sum_so_far ^ (unsigned char)*at++) & 255] ^ sum_so_far >> 8;
	return sum_so_far;
}

static void check_sums(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		result += check(text, N);
}

static void fill(char *at, char with)
{
	char *end = at + N;

	do
		*at++ = with;
	while (at < end);
}

static void fills(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		fill(text, (char)turn);
}

static int64_t fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void recursive(void)
{
	result += fibonacci(11);
}

/* `continue` leads to an instruction that does nothing, and is no padding. */
static int64_t sum_but(const int64_t *of, int n)
{
	int64_t all = 0;

	for (int i = 0; i < n; i++) {
		if (of[i] % 3 == 0)
			continue;
		if (of[i] == 7777)
			break;
		all += of[i];
	}
	return all;
}

static void continues(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		result += sum_but(numbers, N);
}

static int64_t walk_nodes(struct body *body)
{
	int64_t all = 0;

	while (body) {
		all += body->n_moves;
		if (body->n_moves & 1)
			body->n_moves += 2;
		else
			all -= body->n_moves;
		body = body->next;
	}
	return all;
}

static void walks(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		result += walk_nodes(bodies);
}

static void swap_two(int64_t *a, int64_t *b)
{
	int64_t kept = *a;

	*a = *b;
	*b = kept;
}

static void pass_over(void (*swap)(int64_t *, int64_t *), int64_t *of, int n)
{
	for (int i = 0; i + 1 < n; i++)
		if (of[i] > of[i + 1])
			swap(&of[i], &of[i + 1]);
}

static void passes(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		pass_over(swap_two, numbers, N);
}

/* Arguments and variables that change through a pointer. */
static int64_t change_own(int64_t x, int n)
{
	int64_t *own = &x, all = 0;

	for (int i = 0; i < n; i++) {
		*own += i;
		all += x;
	}
	return all;
}

static int64_t count_up(int64_t *counter)
{
	return ++*counter;
}

static int64_t lend(int64_t **lent, int64_t x, int n)
{
	int64_t all = 0, own = x;

	*lent = &own;
	for (int i = 0; i < n; i++) {
		**lent += 3;
		all += own + count_up(*lent);
	}
	return all;
}

static void pointers(void)
{
	int64_t *lent;

	for (int turn = 0; turn < TURNS; turn++) {
		result += change_own(3, N);
		result += lend(&lent, 5, N);
	}
}

/* Loops of three turns: each third time that one begins the turn before is another loop's. */
static void smooth(unsigned char *to, const unsigned char *from, int side)
{
	for (int y = 1; y < side - 1; y++)
		for (int x = 1; x < side - 1; x++) {
			int near = 0;

			for (int dy = -1; dy <= 1; dy++)
				for (int dx = -1; dx <= 1; dx++)
					near += from[(y + dy) * side + x + dx];
			to[y * side + x] = (unsigned char)(near / 9);
		}
}

static void squares(void)
{
	static unsigned char from[SIDE * SIDE], to[SIDE * SIDE];

	smooth(to, from, SIDE);
}

/*
 * is_loop: shares are those of the accesses. Of pointers to variables most is not known: there the
 * truth lies between what is told and that with all that is unknown.
 */
const struct victim plain_victims[] = {
	{ "sums", sums, 1, 0, 0 },
	{ "scales", scales, 1, 0, 0 },
	{ "matrices", matrices, 1, 0, 0 },
	{ "lists", lists, 1, 0, 0 },
	{ "helpers", helpers, 1, 0, 0 },
	{ "getters", getters, 1, 0, 0 },
	{ "nested", nested, 1, 0, 0 },
	{ "indirect", indirect, 1, 0, 0 },
	{ "splits", splits, 1, 0, 0 },
	{ "compares", compares, 1, 0, 0 },
	{ "sorts", sorts, 1, 0, 0 },
	{ "bytes", bytes, 1, 0, 0 },
	{ "check sums", check_sums, 1, 0, 0 },
	{ "fills", fills, 1, 0, 0 },
	{ "recursive", recursive, 1, 0, 0 },
	{ "continues", continues, 1, 0, 0 },
	{ "walks", walks, 1, 0, 0 },
	{ "passes", passes, 1, 0, 0 },
	{ "pointers", pointers, 0, 0, 0 },
	{ "squares", squares, 0, 0, 0 },
};
const size_t n_plain_victims = sizeof(plain_victims) / sizeof(plain_victims[0]);
