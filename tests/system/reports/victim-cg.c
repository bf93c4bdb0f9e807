/* Conjugate gradients with a random sparse matrix, as CG of NPB: few blocks, all of them hot. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 14000, PER_ROW = 11, ROUNDS = 12, STEPS = 25 };

struct matrix {
	int *starts;
	int *columns;
	double *values;
};

static struct matrix make_matrix(void)
{
	struct matrix a;
	unsigned seed = 1;

	a.starts = malloc((ROWS + 1) * sizeof(*a.starts));
	a.columns = malloc((size_t)ROWS * PER_ROW * sizeof(*a.columns));
	a.values = malloc((size_t)ROWS * PER_ROW * sizeof(*a.values));
	for (int i = 0, k = 0; i <= ROWS; i++) {
		a.starts[i] = k;
		for (int j = 0; j < PER_ROW && i < ROWS; j++, k++) {
			seed = seed * 1103515245u + 12345u;
			a.columns[k] = (int)(seed >> 8) % ROWS;
			a.values[k] = j == 0 ? 20.0 : (seed >> 16 & 255) / 256.0;
		}
	}
	return a;
}

static void multiply(const struct matrix *a, const double *in, double *out)
{
	for (int i = 0; i < ROWS; i++) {
		double sum = 0;
		for (int k = a->starts[i]; k < a->starts[i + 1]; k++)
			sum += a->values[k] * in[a->columns[k]];
		out[i] = sum;
	}
}

static double dot(const double *u, const double *v)
{
	double sum = 0;

	for (int i = 0; i < ROWS; i++)
		sum += u[i] * v[i];
	return sum;
}

static void solve(const struct matrix *a, const double *x, double *z, double *work[3])
{
	double *p = work[0], *q = work[1], *r = work[2];

	for (int i = 0; i < ROWS; i++) {
		z[i] = 0;
		r[i] = p[i] = x[i];
	}
	double rho = dot(r, r);
	for (int step = 0; step < STEPS; step++) {
		multiply(a, p, q);
		double alpha = rho / dot(p, q), before = rho;
		for (int i = 0; i < ROWS; i++) {
			z[i] += alpha * p[i];
			r[i] -= alpha * q[i];
		}
		rho = dot(r, r);
		for (int i = 0; i < ROWS; i++)
			p[i] = r[i] + rho / before * p[i];
	}
}

int main(void)
{
	struct matrix a = make_matrix();
	double *x = malloc(ROWS * sizeof(*x)), *z = malloc(ROWS * sizeof(*z)), *work[3];

	for (int i = 0; i < 3; i++)
		work[i] = malloc(ROWS * sizeof(*work[i]));
	for (int i = 0; i < ROWS; i++)
		x[i] = 1;
	for (int round = 0; round < ROUNDS; round++) {
		solve(&a, x, z, work);
		double norm = 1 / sqrt(dot(z, z));
		for (int i = 0; i < ROWS; i++)
			x[i] = norm * z[i];
	}
	printf("%g\n", dot(x, z));
	free(a.starts);
	free(a.columns);
	free(a.values);
	free(x);
	free(z);
	for (int i = 0; i < 3; i++)
		free(work[i]);
	return 0;
}
