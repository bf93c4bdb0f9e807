#pragma once
/*
 * What filters of seccomp(2) say about a system call, and which ones our library makes. Neither
 * allocates nor locks. Signal safe.
 */
#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What n instructions of a filter, which the kernel has accepted, say of a call: an action,
 * SECCOMP_RET_*. Of several filters the severest counts, which is the lowest as a signed number
 * (seccomp(2)).
 */
int32_t call_filter_ask(const struct sock_filter *code, uint32_t n, long number,
			const long arguments[6]);

/* A call that is made, with arguments as they are then where filters may look at them. */
struct call_filter_need {
	char name[20];
	long number;
	long arguments[6];
};

/* What an image does when its recording begins, and when it runs on. */
extern const struct call_filter_need call_filter_needs[];
extern const size_t call_filter_n_needs;
