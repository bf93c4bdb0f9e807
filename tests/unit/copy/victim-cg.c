/*
 * As CG of the NAS parallel benchmarks: the smallest eigenvalue of a sparse symmetric matrix by the
 * inverse power method, each step 25 iterations of conjugate gradients. Rows are parted among
 * ranks.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N	1400
#define PER_ROW 7
#define N_STEPS 3
#define N_INNER 25
#define SHIFT	10.0

struct row {
	int n;
	int *column;
	double *value;
};

static int first, last; /* rows of this rank */
static struct row *rows;
static unsigned long seed = 314159265;

static double random_number(void)
{
	seed = seed * 6364136223846793005ul + 1442695040888963407ul;
	return (double)(seed >> 11) / (double)(1ul << 53);
}

static void add(struct row *row, int column, double value)
{
	row->column = realloc(row->column, (size_t)(row->n + 1) * sizeof(*row->column));
	row->value = realloc(row->value, (size_t)(row->n + 1) * sizeof(*row->value));
	row->column[row->n] = column;
	row->value[row->n++] = value;
}

/* All ranks draw the same numbers, and keep what is theirs. */
static void make_matrix(void)
{
	rows = calloc((size_t)(last - first), sizeof(*rows));
	for (int i = 0; i < N; i++) {
		for (int k = 0; k < PER_ROW; k++) {
			int j = (int)(random_number() * N);
			double value = random_number() - 0.5;

			if (i >= first && i < last)
				add(&rows[i - first], j, value);
			if (j >= first && j < last)
				add(&rows[j - first], i, value);
		}
		if (i >= first && i < last)
			add(&rows[i - first], i, SHIFT + 2 * PER_ROW);
	}
}

static double dot(const double *a, const double *b)
{
	double own = 0, all;

	for (int i = first; i < last; i++)
		own += a[i] * b[i];
	MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

static void multiply(double *to, double *with)
{
	int n_ranks, *counts, *starts;

	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	counts = malloc((size_t)n_ranks * sizeof(*counts));
	starts = malloc((size_t)n_ranks * sizeof(*starts));
	for (int r = 0; r < n_ranks; r++) {
		starts[r] = N * r / n_ranks;
		counts[r] = N * (r + 1) / n_ranks - starts[r];
	}
	MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, with, counts, starts, MPI_DOUBLE,
		       MPI_COMM_WORLD);
	free(counts);
	free(starts);
	for (int i = first; i < last; i++) {
		to[i] = 0;
		for (int k = 0; k < rows[i - first].n; k++)
			to[i] += rows[i - first].value[k] * with[rows[i - first].column[k]];
	}
}

/* Solve A z = x. */
static void solve(const double *x, double *z)
{
	double *r = malloc(N * sizeof(*r)), *p = malloc(N * sizeof(*p)),
	       *q = malloc(N * sizeof(*q));
	double rho, before;

	for (int i = first; i < last; i++) {
		z[i] = 0;
		r[i] = p[i] = x[i];
	}
	rho = dot(r, r);
	for (int it = 0; it < N_INNER; it++) {
		multiply(q, p);
		double alpha = rho / dot(p, q);

		for (int i = first; i < last; i++) {
			z[i] += alpha * p[i];
			r[i] -= alpha * q[i];
		}
		before = rho;
		rho = dot(r, r);
		for (int i = first; i < last; i++)
			p[i] = r[i] + rho / before * p[i];
	}
	free(r);
	free(p);
	free(q);
}

int main(int argc, char **argv)
{
	double *x = malloc(N * sizeof(*x)), *z = malloc(N * sizeof(*z)), zeta = 0;
	int rank, n_ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	first = N * rank / n_ranks;
	last = N * (rank + 1) / n_ranks;
	make_matrix();
	for (int i = 0; i < N; i++)
		x[i] = 1;
	for (int step = 0; step < N_STEPS; step++) {
		solve(x, z);
		zeta = SHIFT + 1 / dot(x, z);
		double norm = 1 / sqrt(dot(z, z));

		for (int i = first; i < last; i++)
			x[i] = norm * z[i];
	}
	if (rank == 0)
		printf("zeta %.9f\n", zeta);
	for (int i = 0; i < last - first; i++) {
		free(rows[i].column);
		free(rows[i].value);
	}
	free(rows);
	free(x);
	free(z);
	MPI_Finalize();
	return 0;
}
