/*
 * kernel: a program that computes and hardly allocates: products of matrices, each into a fresh
 * one.
 *
 *	kernel [PRODUCTS]
 */
#include <stdio.h>
#include <stdlib.h>

#define N 384

static double *fresh(double seed)
{
	double *matrix = malloc(sizeof(*matrix) * N * N);

	if (!matrix)
		exit(EXIT_FAILURE);
	for (size_t i = 0; i < (size_t)N * N; i++)
		matrix[i] = seed * (double)(i % 17) - 3;
	return matrix;
}

static double *multiply(const double *left, const double *right)
{
	double *product = fresh(0);

	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < N; k++)
			for (size_t j = 0; j < N; j++)
				product[i * N + j] += left[i * N + k] * right[k * N + j];
	return product;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 120;
	double *left = fresh(1), *right = fresh(0.5);
	double sum = 0;

	for (unsigned i = 0; i < n; i++) {
		double *product = multiply(left, right);

		sum += product[i % (N * N)];
		free(product);
	}
	free(left);
	free(right);
	printf("%g\n", sum);
	return 0;
}
