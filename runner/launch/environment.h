#pragma once
/*
 * The environment of the traced command: the caller's own, with our library put in front of
 * LD_PRELOAD (the user's entries stay) and the recording's socket in MEMSIGHT_RECORDING.
 */

/*
 * Make a copy of envp with the variables set. library may be a list of two, parted by ':';
 * placement is MEMSIGHT_PLACEMENT or NULL. Returns 0 or -ENOMEM. The caller frees *ret_envp with
 * environment_free().
 */
int environment_make(char *const *envp, const char *library, const char *socket_path,
		     const char *placement, char ***ret_envp);

/* A copy of envp without what an outer recording put there: for --no-alloc. As above. */
int environment_copy(char *const *envp, char ***ret_envp);

/* Accepts NULL, returns NULL. */
char **environment_free(char **envp);
