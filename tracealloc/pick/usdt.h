#pragma once
/*
 * Static probes (--usdt), for eBPF profilers, bpftrace, perf and gdb to stop at:
 *
 *	otel_memory:alloc(ptr, size, weighted_bytes)	otel_memory:free(ptr)
 *	memsight:alloc(ptr, size, site, weighted_bytes)	memsight:free(ptr)
 *
 * The first two are the contract of OpenTelemetry's profiler (opentelemetry-ebpf-profiler,
 * design-docs/00003-memory-profiling): weighted_bytes is size / p of a block picked with the chance
 * p. site is where the call returns to; 0: not known, in a hook inside of another.
 *
 * A probe is a nop, and a note of where it lies, in which registers its arguments are, and where
 * its semaphore is: a count of who listens (SystemTap's sdt.h, version 3 of the note). Without
 * listeners nothing is computed. They fire behind the decision to record a block (hooks/hook.c): an
 * alloc behind the call, a free before it.
 *
 * Any thread, signal safe, errno is kept.
 */
#include <stddef.h>
#include <stdint.h>

/*
 * A block is born. interval: what it was picked with (pick.h); TA_PICK_ALL: each block is taken.
 */
void ta_usdt_alloc(const void *block, size_t size, uintptr_t site, uint64_t interval);

/* A block that was taken is about to be given back. */
void ta_usdt_free(const void *block);

/*
 * The bytes that a block of size stands for: size / p, where p = 1 - exp(-(size + 1) / interval) is
 * the chance that it is picked. interval: 1 to RING_MAX_SAMPLE_BYTES, or TA_PICK_ALL, where p = 1.
 */
uint64_t ta_usdt_weigh(size_t size, uint64_t interval);
