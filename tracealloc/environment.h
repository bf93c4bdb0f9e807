#pragma once
/* Our variables, LD_PRELOAD and MEMSIGHT_RECORDING, in the environments of new programs. */
#include <stdbool.h>
#include <stddef.h>

/* What a new program is to have of us. */
enum ta_follow {
	TA_FOLLOW_NOT,
	TA_FOLLOW_BARE, /* without the library of the heap, which its C library cannot load */
	TA_FOLLOW_ALL,
};

/* Remember MEMSIGHT_RECORDING and our own path as they are when the image starts. Once. */
void ta_environment_start(void);

/* Only our own path, which programs that are started from now on can use; none if we have none. */
void ta_environment_start_late(void);

/*
 * Bytes of memory that ta_environment_build() needs for this environment (NULL: empty); 0 when it
 * can be used as it is. With TA_FOLLOW_NOT none of our variables may be there.
 */
size_t ta_environment_bytes(char *const environment[], enum ta_follow follow);

/*
 * Build the environment of a new program in memory (8-aligned, as many bytes as said above). Our
 * library goes in front of the user's own LD_PRELOAD entries, or away from among them. The other
 * strings are not copied. Allocates nothing, signal safe, keeps errno.
 */
char **ta_environment_build(char *const environment[], enum ta_follow follow, void *memory);

/* Was a heap asked for, and its library not preloaded into this program? */
bool ta_environment_lacks_heap(void);

/* The value of a variable, or NULL. */
const char *ta_environment_find(char *const environment[], const char *name);

/*
 * Could a program that is started now load us? Not in another root, nor as a user who may not read
 * us.
 */
bool ta_environment_is_reachable(void);

/*
 * Take our library out of `environ`, for good: no program that libc starts from now on could load
 * it, and each would say so on its standard error. Once.
 */
void ta_environment_leave(void);

/*
 * Bytes that ta_environment_command() needs; 0 when libc's own shell (system, popen) will find our
 * variables in `environ` as they must be, or when they cannot be written as words of a shell.
 */
size_t ta_environment_command_bytes(const char *command);

/* The same command with both variables put back in front of it. Allocates nothing, keeps errno. */
const char *ta_environment_command(const char *command, char *memory);
