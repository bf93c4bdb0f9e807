/*
 * Allocators of its own with static probes, as <sys/sdt.h> would write them, by which every block
 * is known exactly. Prints what must be recorded: sums of calls of each provider, and whether code
 * at a probe found its registers as they were.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAP_BYTES   (16u << 20)
#define N_EXACT	    1000u
#define N_SAMPLED   200u
#define WEIGHTED(n) ((n)*100u)

#define NOTE(provider, name, semaphore, arguments)                                                 \
	".pushsection .note.stapsdt, \"\", \"note\"\n"                                             \
	".balign 4\n"                                                                              \
	".4byte 992f - 991f, 994f - 993f, 3\n"                                                     \
	"991: .asciz \"stapsdt\"\n"                                                                \
	"992: .balign 4\n"                                                                         \
	"993: .8byte 990b, 0, " semaphore "\n"                                                     \
	".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n"                 \
	"994: .balign 4\n.popsection\n"

/* Incremented by who listens; hidden, as its address stands in a note. */
__attribute__((section(".probes"), visibility("hidden"), used)) volatile uint16_t heard_semaphore;
__attribute__((section(".probes"), visibility("hidden"), used)) volatile uint16_t sampled_semaphore;

static char *next_free;
static uint64_t size_in_file;

static __attribute__((noinline)) char *take(size_t size)
{
	char *block = next_free;

	next_free += (size + 15) & ~(size_t)15;
	return block;
}

/* Behind a branch on the semaphore, as most have it. */
static __attribute__((noinline)) char *exact_alloc(size_t size)
{
	char *block = take(size);

	if (heard_semaphore)
		__asm__ volatile("990: nop\n" NOTE("otel_memory", "alloc", "heard_semaphore",
						   "8@%0 8@%1 8@%2")
				 :
				 : "r"(block), "r"(size), "r"(size));
	return block;
}

static __attribute__((noinline)) void exact_free(char *block)
{
	if (heard_semaphore)
		__asm__ volatile("990: nop\n" NOTE("otel_memory", "free", "heard_semaphore", "8@%0")
				 :
				 : "r"(block));
}

/* 4 bytes of a register, and a constant: size 48, of a provider of any name, without semaphore. */
static __attribute__((noinline)) char *plain_alloc(void)
{
	char *block = take(48);

	__asm__ volatile("990: nop\n" NOTE("shop", "memsight_alloc", "0", "8@%0 4@$48")
			 :
			 : "r"(block));
	return block;
}

static __attribute__((noinline)) void plain_free(char *block)
{
	char *volatile place = block;

	__asm__ volatile("990: nop\n" NOTE("shop", "memsight_free", "0", "8@%0") : : "m"(place));
}

/* The size lies in the file's data, the weight is a word of memory by a base and an index. */
static __attribute__((noinline)) char *sampled_alloc(size_t size)
{
	uint64_t weights[4] = { 0, 0, WEIGHTED(size), 0 };
	char *block = take(size);
	uint64_t index = 2;

	size_in_file = size;
	if (sampled_semaphore)
		__asm__ volatile("990: nop\n" NOTE("memsight", "alloc", "sampled_semaphore",
						   "8@%0 8@size_in_file(%%rip) -4@%3 8@(%1,%2,8)")
				 :
				 : "r"(block), "r"(weights), "r"(index), "r"(7), "m"(weights),
				   "m"(size_in_file));
	return block;
}

static __attribute__((noinline)) void sampled_free(char *block)
{
	if (sampled_semaphore)
		__asm__ volatile("990: nop\n" NOTE("memsight", "free", "sampled_semaphore", "8@%0")
				 :
				 : "r"(block));
}

/* Nothing but a branch leads to its nop, behind which is no room for a jump. */
void branched_free(const void *block);
__asm__(".globl branched_free\n.type branched_free, @function\nbranched_free:\n"
	" .cfi_startproc\n"
	"cmpw $0, heard_semaphore(%rip)\n jne 1f\n ret\n nopl (%rax)\n"
	"1: 990: nop\n" NOTE("shop", "memsight_free", "heard_semaphore",
			     "8@%rdi") "ret\n .cfi_endproc\n"
				       ".size branched_free, . - branched_free\n"
				       "mov %rsp, %rsp\n ret\n"); /* what is there is no filling */

/*
 * Flags, all registers and the red zone of a leaf are as if nothing was there: a sum over them
 * before and behind the nop.
 */
__attribute__((noinline)) uint64_t keeps_all(const void *block);
__asm__(".globl keeps_all\n.type keeps_all, @function\nkeeps_all:\n .cfi_startproc\n"
	"mov $1, %eax\n mov $2, %ecx\n mov $3, %edx\n mov $5, %esi\n"
	"mov $7, %r8d\n mov $8, %r9d\n mov $9, %r10d\n mov $10, %r11d\n"
	"movq %rdi, %xmm0\n movq %rdi, %xmm15\n"
	"mov %rdi, -8(%rsp)\n mov %rdi, -16(%rsp)\n mov %rdi, -24(%rsp)\n mov %rdi, -128(%rsp)\n"
	"stc\n"
	"990: nop\n" NOTE(
		"shop", "memsight_alloc", "0",
		"8@%rdi 8@$32") "adc $0, %rax\n" /* 2 by the flag */
				"add %rcx, %rax\n add %rdx, %rax\n add %rsi, %rax\n"
				"add %r8, %rax\n add %r9, %rax\n"
				"add %r10, %rax\n add %r11, %rax\n" /* 46 */
				"cmp %rdi, -8(%rsp)\n jne 1f\n cmp %rdi, -16(%rsp)\n jne 1f\n"
				"cmp %rdi, -24(%rsp)\n jne 1f\n cmp %rdi, -128(%rsp)\n jne 1f\n"
				"movq %xmm0, %rcx\n cmp %rdi, %rcx\n jne 1f\n"
				"movq %xmm15, %rcx\n cmp %rdi, %rcx\n jne 1f\n"
				"ret\n"
				"1: xor %eax, %eax\n ret\n .cfi_endproc\n"
				".size keeps_all, . - keeps_all\n");

int main(void)
{
	char *map =
		mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *blocks[N_EXACT], *chunk = malloc(1 << 20);
	uint64_t exact_bytes = 0, sampled_bytes = 0, kept = 0;

	if (map == MAP_FAILED || !chunk)
		return 1;
	next_free = map;
	for (unsigned i = 0; i < N_EXACT; i++) {
		blocks[i] = exact_alloc(16 + i);
		exact_bytes += 16 + i;
	}
	for (unsigned i = 0; i < N_EXACT; i += 2)
		exact_free(blocks[i]);
	for (unsigned i = 0; i < N_SAMPLED; i++) {
		blocks[i] = sampled_alloc(64 + 8 * i);
		sampled_bytes += WEIGHTED(64 + 8 * i);
	}
	for (unsigned i = 0; i < N_SAMPLED / 4; i++)
		sampled_free(blocks[i]);
	/* In a block of malloc: it is the object, and an estimate there adds nothing. */
	next_free = chunk;
	for (unsigned i = 0; i < 100; i++)
		blocks[i] = plain_alloc();
	for (unsigned i = 0; i < 30; i++)
		i % 2 ? plain_free(blocks[i]) : branched_free(blocks[i]);
	sampled_free(sampled_alloc(1000));
	kept = keeps_all(chunk + 100000);
	printf("exact %u %ju sampled %u %ju ", N_EXACT, (uintmax_t)exact_bytes, N_SAMPLED,
	       (uintmax_t)sampled_bytes);
	printf("kept %ju heard %u %u\n", (uintmax_t)kept, heard_semaphore, sampled_semaphore);
	return 0;
}
