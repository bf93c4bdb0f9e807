/*
 * Conjugate gradients on a sparse matrix of random places, for ever: what steps.py steps through.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS	4000
#define PER_ROW 12

static double value[ROWS * PER_ROW], x[ROWS], r[ROWS], p[ROWS], q[ROWS];
static uint32_t column[ROWS * PER_ROW];

static double dot(const double *a, const double *b)
{
	double sum = 0;

	for (int i = 0; i < ROWS; i++)
		sum += a[i] * b[i];
	return sum;
}

static void multiply(const double *from, double *to)
{
	for (int i = 0; i < ROWS; i++) {
		double sum = from[i] * 20;

		for (int k = i * PER_ROW; k < (i + 1) * PER_ROW; k++)
			sum += value[k] * from[column[k]];
		to[i] = sum;
	}
}

static void add(double *to, double factor, const double *from)
{
	for (int i = 0; i < ROWS; i++)
		to[i] += factor * from[i];
}

static double solve(int n_rounds)
{
	double rho = dot(r, r);

	for (int round = 0; round < n_rounds; round++) {
		multiply(p, q);
		double alpha = rho / dot(p, q), before = rho;

		add(x, alpha, p);
		add(r, -alpha, q);
		rho = dot(r, r);
		for (int i = 0; i < ROWS; i++)
			p[i] = r[i] + rho / before * p[i];
	}
	return rho;
}

int main(void)
{
	uint64_t seed = 1;

	for (int k = 0; k < ROWS * PER_ROW; k++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		column[k] = (uint32_t)(seed >> 33) % ROWS;
		value[k] = (double)(seed >> 44) / (1 << 20);
	}
	for (;;) {
		for (int i = 0; i < ROWS; i++)
			x[i] = 0, p[i] = r[i] = i % 7;
		printf("%g\n", solve(15));
	}
}
