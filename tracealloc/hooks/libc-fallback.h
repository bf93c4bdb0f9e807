#pragma once
/*
 * What stands in for functions of libc that do no more than a system call, until the real ones are
 * known, or for good where the libraries of the program do not have them. They set errno.
 */
#include <stddef.h>
#include <stdint.h>

int ta_early_brk(void *address);
void *ta_early_sbrk(intptr_t increment); /* knows no break of libc's: fails */
void *ta_early_shmat(int shmid, const void *address, int flags);
int ta_early_shmdt(const void *address);
int ta_early_madvise(void *address, size_t size, int advice);
int ta_early_mprotect(void *address, size_t size, int prot);
int ta_early_pkey_mprotect(void *address, size_t size, int prot, int pkey);
int ta_early_mlock(const void *address, size_t size);
int ta_early_mlock2(const void *address, size_t size, unsigned flags);
int ta_early_munlock(const void *address, size_t size);
int ta_early_mlockall(int flags);
int ta_early_munlockall(void);
int ta_early_prctl(int option, ...);
