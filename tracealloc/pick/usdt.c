#include "tracealloc/pick/usdt.h"

#include "tracealloc/pick/pick.h"

#define ONE	  (UINT64_C(1) << 62) /* numbers from 0 to 1 in 2^-62 */
#define N_TERMS	  20u
#define CERTAIN_X 44u /* exp(-44) is below 2^-63 */

/* ---- Probes ---- */

#if defined(TA_AGENT)
/* None: what it writes to is no mapping of its file, where the kernel could raise them. */
#define SEMAPHORE(name) __asm__(".set " #name "_semaphore, 0\n");
#define IS_HEARD(name)	true
#else
/* Written by who listens, in the file's mapping: not among what is zero at start. */
#define SEMAPHORE(name)                                                                            \
	uint16_t name##_semaphore                                                                  \
		__attribute__((section(".probes"), visibility("hidden"), used)) = 0;
#define IS_HEARD(name) ta_unlikely(__atomic_load_n(&name##_semaphore, __ATOMIC_RELAXED) != 0)
#endif

SEMAPHORE(otel_memory_alloc)
SEMAPHORE(otel_memory_free)
SEMAPHORE(memsight_alloc)
SEMAPHORE(memsight_free)

/*
 * The nop and its note: the words of sys/sdt.h, of which we need no more. _.stapsdt.base is there
 * for tools to see by how much a prelink has moved the file.
 */
#define PROBE(provider, name, arguments, ...)                                                      \
	__asm__ volatile("990: nop\n"                                                              \
			 ".pushsection .note.stapsdt, \"\", \"note\"\n"                            \
			 ".balign 4\n"                                                             \
			 ".4byte 992f - 991f, 994f - 993f, 3\n"                                    \
			 "991: .asciz \"stapsdt\"\n"                                               \
			 "992: .balign 4\n"                                                        \
			 "993: .8byte 990b, _.stapsdt.base, " #provider "_" #name "_semaphore\n"   \
			 ".asciz \"" #provider "\"\n"                                              \
			 ".asciz \"" #name "\"\n"                                                  \
			 ".asciz \"" arguments "\"\n"                                              \
			 "994: .balign 4\n"                                                        \
			 ".popsection\n"                                                           \
			 ".ifndef _.stapsdt.base\n"                                                \
			 ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, "       \
			 "comdat\n"                                                                \
			 ".weak _.stapsdt.base\n"                                                  \
			 ".hidden _.stapsdt.base\n"                                                \
			 "_.stapsdt.base: .space 1\n"                                              \
			 ".size _.stapsdt.base, 1\n"                                               \
			 ".popsection\n"                                                           \
			 ".endif\n"                                                                \
			 :                                                                         \
			 : __VA_ARGS__)

void ta_usdt_alloc(const void *block, size_t size, uintptr_t site, uint64_t interval)
{
	if (!IS_HEARD(otel_memory_alloc) && !IS_HEARD(memsight_alloc))
		return;
	uint64_t weighted = ta_usdt_weigh(size, interval);
	if (IS_HEARD(otel_memory_alloc))
		PROBE(otel_memory, alloc, "8@%0 8@%1 8@%2", "r"(block), "r"(size), "r"(weighted));
	if (IS_HEARD(memsight_alloc))
		PROBE(memsight, alloc, "8@%0 8@%1 8@%2 8@%3", "r"(block), "r"(size), "r"(site),
		      "r"(weighted));
}

void ta_usdt_free(const void *block)
{
	if (IS_HEARD(otel_memory_free))
		PROBE(otel_memory, free, "8@%0", "r"(block));
	if (IS_HEARD(memsight_free))
		PROBE(memsight, free, "8@%0", "r"(block));
}

/* ---- Weights ---- */

static uint64_t multiply(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b >> 62);
}

/*
 * p / x with p = 1 - exp(-x), for x = n / of below CERTAIN_X, without floating point. Of an x up to
 * 1/2, reached by halving, it is the series 1 - x/2 (1 - x/3 (1 - ...)); of twice an x it is
 * p/x (1 - p/2), and p becomes p (2 - p).
 */
static uint64_t share_picked(uint64_t n, uint64_t of)
{
	uint64_t share = ONE, x, p;
	uint32_t n_halves = 1;

	while (n >> n_halves >= of)
		n_halves++;
	x = (uint64_t)(((unsigned __int128)n << 62) / of >> n_halves);
	for (uint64_t term = N_TERMS; term >= 2; term--)
		share = ONE - multiply(x, share) / term;
	for (p = multiply(x, share); n_halves > 0; n_halves--) {
		share = multiply(share, ONE - p / 2);
		p = multiply(p, 2 * ONE - p);
	}
	return share;
}

uint64_t ta_usdt_weigh(size_t size, uint64_t interval)
{
	uint64_t n = size + 1, share, whole;

	if (interval == TA_PICK_ALL || n / interval >= CERTAIN_X)
		return size;
	/* n / p = interval / share; of these n the block's own bytes are all but one. */
	share = share_picked(n, interval);
	whole = (uint64_t)((((unsigned __int128)interval << 62) + share / 2) / share);
	return whole - (whole + n / 2) / n;
}
