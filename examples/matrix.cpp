/*
 * memsight.h in C++: a guard whose life is a region. Solves a system of equations by Jacobi's
 * method, several times, and says how far the result is off.
 *
 * usage: matrix [SIZE [SOLUTIONS]]
 */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "memsight.h"

/* In the region from its definition to the end of its block, also when an exception ends it. */
class Region
{
      public:
	explicit Region(const char *name) : name(name)
	{
		memsight_region_push(name);
	}
	~Region()
	{
		memsight_region_pop(name);
	}
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;

      private:
	const char *name;
};

struct System {
	std::size_t n;
	std::vector<double> matrix;
	std::vector<double> right;
};

/* Diagonally dominant, with a solution of ones. */
static System assemble(std::size_t n)
{
	Region region("assemble");
	System system = { n, std::vector<double>(n * n), std::vector<double>(n) };

	memsight_name(system.matrix.data(), "matrix");
	memsight_name(system.right.data(), "right side");
	for (std::size_t i = 0; i < n; i++) {
		for (std::size_t j = 0; j < n; j++) {
			system.matrix[i * n + j] = i == j ? 2.0 * static_cast<double>(n) : 1.0;
			system.right[i] += system.matrix[i * n + j];
		}
	}
	return system;
}

static std::vector<double> step(const System &system, const std::vector<double> &old)
{
	Region region("step");
	std::vector<double> next(system.n);

	for (std::size_t i = 0; i < system.n; i++) {
		double sum = system.right[i];
		for (std::size_t j = 0; j < system.n; j++)
			sum -= i == j ? 0 : system.matrix[i * system.n + j] * old[j];
		next[i] = sum / system.matrix[i * system.n + i];
	}
	return next;
}

static double solve(const System &system)
{
	Region region("solve");
	std::vector<double> x(system.n);
	double error = 0;

	for (int i = 0; i < 30; i++)
		x = step(system, x);
	for (double value : x)
		error = std::fmax(error, std::fabs(value - 1));
	return error;
}

int main(int argc, char **argv)
{
	std::size_t n = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 600;
	int n_solutions = argc > 2 ? std::atoi(argv[2]) : 5;
	System system = assemble(n);
	double error = 0;

	memsight_mark("assembled");
	for (int i = 0; i < n_solutions; i++)
		error = std::fmax(error, solve(system));
	std::printf("%zu equations, %d solutions, off by %s 1e-6\n", n, n_solutions,
		    error < 1e-6 ? "less than" : "more than");
	return 0;
}
