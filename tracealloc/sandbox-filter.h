#pragma once
/* Filters of seccomp(2) that hold in this image, and what they say. Signal safe. */
#include <linux/filter.h>
#include <stdatomic.h>
#include <stdint.h>

/* A copy of a filter that was handed to the kernel; there are all of the image. */
struct ta_sandbox_filter {
	struct ta_sandbox_filter *next;
	uint32_t n;
	struct sock_filter code[];
};

extern _Atomic(struct ta_sandbox_filter *) ta_sandbox_filters __attribute__((visibility("hidden")));

/*
 * What all filters say, from there on: the severest, which is the lowest as a signed number
 * (seccomp(2)).
 */
int32_t ta_sandbox_ask(const struct ta_sandbox_filter *filter, long number,
		       const long arguments[6]);
