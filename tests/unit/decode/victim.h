#pragma once
/* Small programs that are single-stepped: what compilers make of common loops. */
#include <stddef.h>

struct victim {
	const char *name;
	void (*run)(void);
	int is_loop; /* nearly all of its steps lie in loops that close */
	const char *needs; /* "avx2", "avx512", or NULL */
	/*
	 * Of the lanes of gathers, scatters and masked moves, met from all steps of their loop, at
	 * least one in so many is told; 0: it has none
	 */
	unsigned one_lane_in;
};

extern const struct victim victims[];
extern const size_t n_victims;

/* Compiled without optimisation. */
extern const struct victim plain_victims[];
extern const size_t n_plain_victims;

/* The same by another compiler (gcc or clang); NULL where there is none. */
extern const struct victim other_plain_victims[] __attribute__((weak));
extern const size_t n_other_plain_victims __attribute__((weak));
