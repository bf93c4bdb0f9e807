#pragma once
/*
 * Two functions for the same address. rdi, rsi: two blocks; rcx: words; r8: rounds. The first one
 * reads the block of rdi, the second that of rsi; its instructions lie at other offsets.
 */
#define FIRST_CODE                                                                                 \
	"xor %eax, %eax\n"                                                                         \
	"1: xor %edx, %edx\n"                                                                      \
	"2: add (%rdi,%rdx,8), %rax\n"                                                             \
	"inc %rdx\n cmp %rcx, %rdx\n jb 2b\n"                                                      \
	"dec %r8\n jnz 1b\n ret\n"
#define SECOND_CODE                                                                                \
	"xor %eax, %eax\n"                                                                         \
	"1: lea (%rcx), %rdx\n"                                                                    \
	"2: xor -8(%rsi,%rdx,8), %rax\n"                                                           \
	"dec %rdx\n jnz 2b\n"                                                                      \
	"sub $1, %r8\n jnz 1b\n ret\n"
