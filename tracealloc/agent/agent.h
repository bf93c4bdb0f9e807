#pragma once
/*
 * The agent: the library's own sources, without a C library, a loader or TLS, for programs that are
 * linked statically. The recorder maps it, has the entries of the program's allocator jump to its
 * hooks, and lets the program begin with ta_agent_start (schemas/agent.h).
 */
#include <link.h>
#include <stdbool.h>

/* The program's auxiliary vector. */
extern const ElfW(auxv_t) * ta_agent_auxv __attribute__((visibility("hidden")));

/* Is all that the program sets signals with led to us? */
bool ta_agent_may_sample(void) __attribute__((visibility("hidden")));
