/* A library of one function, CODE; both of them have it at the same place. */
#include "rewritten-code.h"

__asm__(".text\n"
	".balign 4096\n"
	".globl run\n"
	".type run, @function\n"
	"run: " CODE ".size run, . - run\n");
