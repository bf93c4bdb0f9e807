#pragma once
/*
 * How memsight talks to its freestanding agent, which a statically linked program gets at its first
 * instruction (runner/agent/): the variable AGENT_SYMBOL of that file. What hooks there are, it
 * says; the rest is written into it before it runs. Same build only, like ring.h. x86-64.
 */
#include <stdint.h>

#define AGENT_LIBRARY	   "libmemsight_agent.so"
#define AGENT_SYMBOL	   "memsight_agent"
#define AGENT_MAGIC	   UINT32_C(0x4e454741) /* "AGEN" */
#define AGENT_SOCKET_BYTES 128u

/* Addresses are those in the process, once the file's relocations are done. */
struct agent_hook {
	uint32_t call; /* what it stands for, as struct allocator_entry has it */
	uint32_t reserved;
	uint64_t hook;
	uint64_t real; /* where the address of the function that it calls is written */
};

struct agent {
	uint32_t magic;
	uint32_t version; /* RING_VERSION */
	uint32_t n_hooks;
	uint32_t may_unwind; /* exceptions find their way through return addresses of ours */
	uint64_t hooks; /* address of struct agent_hook[] */
	uint64_t start; /* what runs first; it goes on to the program's own entry */
	/* Of the program: */
	uint64_t entry; /* its first instruction */
	uint64_t base; /* all of ours, beside it */
	uint64_t n_bytes;
	uint64_t table; /* a .eh_frame_hdr that was made for it; 0: it has its own, or none */
	uint64_t table_bytes;
	uint64_t may_sample; /* all that it sets signals with is led to us, or not there */
	char socket[AGENT_SOCKET_BYTES]; /* as MEMSIGHT_RECORDING */
};
