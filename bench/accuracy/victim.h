#pragma once
/*
 * What the victims of accuracy.py share. `victim KIND MILLISECONDS SEED [ARGUMENT]` works on
 * objects, each in phases whose CPU time it measures itself, and prints the truth, one a line:
 *	time OBJECT NS		user CPU time on the object
 *	stall OBJECT LEAST MOST of it, that was waited for it: what its removal saves, and all that
 *	there was lines OBJECT WORD how the threads share its line, as report --sharing says:
 *	different, same, none total NS user CPU time of the program, but for its start and end
 *	process NS its CPU time with the kernel's
 * An object is the function that allocated it, `stack` or `global`; NAME%BYTES@OFFSET is one word
 * of each BYTES, and NAME/N@I the part I of N equal ones.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__clang__)
#define KERNEL __attribute__((noinline))
#else
#define KERNEL __attribute__((noinline, noclone, no_icf))
#endif

#define MAX_PARTS   5
#define MAX_OBJECTS 16

struct part {
	const char *object;
	unsigned n; /* accesses of one turn of the phase's loop */
};

struct phase {
	void (*run)(uint64_t n);
	struct part parts[MAX_PARTS];
	double unit_ns; /* of one of n */
	int64_t spent_ns;
};

/*
 * What a kind is: phases in slices of random length between least_us and most_us, in random order.
 */
struct kind {
	const char *name;
	void (*prepare)(void);
	struct phase phases[3];
	unsigned least_us;
	unsigned most_us;
	void (*run)(double ms, const char *argument); /* NULL: slices */
};

extern const struct kind slice_kinds[], task_kinds[];

extern volatile uint64_t sink;

int64_t cpu_ns(void); /* of this thread */
int64_t since_ns(int64_t start_ns); /* the same from then on, without what asking costs */
uint64_t random_below(uint64_t n);
void seed_random(uint64_t seed);
void charge(const char *object, int64_t ns); /* to the truth; not while threads run */
void run_slices(struct phase *phases, unsigned least_us, unsigned most_us, double ms);
/* ns of one unit of work, which counts as time of the phase. */
double calibrate(struct phase *phase);
void charge_phase(const struct phase *phase);
void print_truth(void);

/* Present from the start: page faults in the loops would be time of the kernel. */
void *present(void *block, size_t n_bytes);

/* Sites that reports tell by their names: make_a ... */
void *make_a(size_t n_bytes);
void *make_b(size_t n_bytes);
void *make_c(size_t n_bytes);
void *make_d(size_t n_bytes);
void *make_e(size_t n_bytes);
