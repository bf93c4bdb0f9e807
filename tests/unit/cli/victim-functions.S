/*
 * Functions whose first instructions are known: functions.py has what can be done with each. The
 * order matters: what lies before and behind a function is filling, or is not.
 */
	.macro begin name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	.text
	.p2align 4, 0x90
	begin one_byte /* no room behind it */
	ret
	end one_byte
	begin three_bytes
	xor %eax, %eax
	ret
	end three_bytes

	.p2align 4, 0x90
	begin one_byte_and_room
	ret
	end one_byte_and_room

	.p2align 4, 0x90
	begin plain
	mov $1, %eax
	add %edi, %eax
	ret
	end plain

	.p2align 4, 0x90
	begin behind_endbr
	endbr64
	mov $1, %eax
	ret
	end behind_endbr
	begin loops_at_once
	xor %eax, %eax
1:	inc %eax
	cmp %edi, %eax
	jl 1b
	ret
	end loops_at_once

	.skip 9, 0x90 /* and two bytes fit */
	begin loops_behind_filling
	xor %eax, %eax
1:	inc %eax
	cmp %edi, %eax
	jl 1b
	ret
	end loops_behind_filling
	begin loops_later
	mov $0, %eax
1:	inc %eax
	cmp %edi, %eax
	jl 1b
	ret
	end loops_later
	begin loops_as_a_whole
	dec %edi
	jnz loops_as_a_whole
	ret
	end loops_as_a_whole
	begin opens
	jmp dlopen@PLT
	end opens
	begin entered_from_afar
	push %rbx
inside:	push %rbp
	push %r12
	push %r13
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret
	end entered_from_afar
	begin enters_another
	mov $2, %eax
	jmp inside
	end enters_another
	begin named_in_data
	push %rbx
in_data:
	push %rbp
	push %r12
	push %r13
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret
	end named_in_data
	begin by_table /* a case begins at its second instruction */
	push %rdi
case_0:	push %rsi
	lea table(%rip), %rax
	movslq (%rax, %rdi, 4), %rdi
	add %rdi, %rax
	jmp *%rax
case_1:	pop %rsi
	pop %rdi
	ret
	end by_table
	begin calls_first
	call plain
	ret
	end calls_first
	begin calls_too_early
	call *%rax
	xor %eax, %eax
	ret
	end calls_too_early
	begin system_call_first
	syscall
	ret
	end system_call_first
	begin patchable
	.skip 5, 0x90
	xor %eax, %eax
	ret
	end patchable
	begin patchable_behind_endbr
	endbr64
	.byte 0x0f, 0x1f, 0x44, 0, 0 /* nop of 5 bytes */
	mov %edi, %eax
	ret
	end patchable_behind_endbr
	begin _ZN6solver4stepEi
	mov $3, %eax
	ret
	end _ZN6solver4stepEi
	begin solve_matrix
	.globl solve_second
	.type solve_second, @function
solve_second:
	mov $4, %eax
	ret
	end solve_matrix

	.p2align 4, 0x90
	begin main
	mov $-1, %edi
	jmp plain
	end main

	.section .rodata
	.p2align 2
table:	.long case_0 - table, case_1 - table
	.section .data.rel.ro, "aw"
	.p2align 3
	.quad in_data
	.section .note.GNU-stack, "", @progbits
