#pragma once
/*
 * --start-after function:NAME: the program itself begins the first window where it enters a
 * function for the first time. Until then the function begins with a jump to us, made before main,
 * while its page can be written; whoever comes there first puts the instructions back and goes on.
 * No signal, no breakpoint: programs have both for themselves, or block them.
 */
#include <stdint.h>

/* The image is attached: do so where the recorder has found the function. Not for late ones. */
void ta_entry_arm(void);
