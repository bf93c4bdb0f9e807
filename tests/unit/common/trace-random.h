#pragma once
/* Seeded random numbers and events for the tests of the trace file. */
#include <stdint.h>

#include "schemas/trace-format.h"

struct trace_random {
	uint64_t state;
};

/* 64 random bits (splitmix64, Steele, Lea and Flood 2014). */
static inline uint64_t trace_random_bits(struct trace_random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* A number from 0 to n - 1. */
static inline uint32_t trace_random_below(struct trace_random *random, uint32_t n)
{
	return (uint32_t)((trace_random_bits(random) >> 32) * n >> 32);
}

/* A number whose length in bits is random too. */
static inline uint64_t trace_random_number(struct trace_random *random)
{
	uint32_t n_bits = trace_random_below(random, 65);

	return n_bits ? trace_random_bits(random) >> (64 - n_bits) : 0;
}

/* An event whose fields are each absent, small or anything. */
static inline struct trace_event trace_random_event(struct trace_random *random)
{
	struct trace_event event = { .op = (uint8_t)(1 + trace_random_below(random, 15)),
				     .ticks = trace_random_number(random),
				     .address = trace_random_number(random) };
	uint64_t fields = trace_random_bits(random);

	event.begin_ticks = fields & 1 ? trace_random_number(random) : event.ticks;
	event.call = fields & 2 ? (uint8_t)trace_random_number(random) : trace_usual_call(event.op);
	event.flags = fields & 4 ? (uint16_t)trace_random_number(random) : 0;
	event.stack_id = fields & 8 ? (uint32_t)trace_random_number(random) : 0;
	event.size = fields & 16 ? trace_random_number(random) : 0;
	event.old_address = fields & 32 ? trace_random_number(random) : 0;
	event.old_size = fields & 64 ? trace_random_number(random) : 0;
	event.detail = fields & 128 ? trace_random_number(random) : 0;
	return event;
}
