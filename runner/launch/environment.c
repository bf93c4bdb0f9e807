#include "runner/launch/environment.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/copy.h"
#include "schemas/recording.h"

static bool is_variable(const char *entry, const char *name)
{
	size_t n = strlen(name);

	return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

static const char *find_variable(char *const *envp, const char *name)
{
	for (; *envp; envp++) {
		if (is_variable(*envp, name))
			return *envp + strlen(name) + 1;
	}
	return NULL;
}

static bool has_file_name(const char *entry, size_t n, const char *name)
{
	size_t name_bytes = strlen(name);

	return n >= name_bytes && memcmp(entry + n - name_bytes, name, name_bytes) == 0 &&
	       (n == name_bytes || entry[n - name_bytes - 1] == '/');
}

/* Our own library, of this or another build: an outer recording's entry must not stay in front. */
static bool is_our_library(const char *entry, size_t n)
{
	return has_file_name(entry, n, RECORDING_LIBRARY) ||
	       has_file_name(entry, n, RECORDING_HEAP_LIBRARY);
}

/* "LD_PRELOAD=" library (may be NULL) and the user's entries; "" when there are none at all. */
static char *make_preload(const char *library, const char *user)
{
	size_t bytes = sizeof(RECORDING_ENV_PRELOAD) + 2 + (library ? strlen(library) : 0) +
		       (user ? strlen(user) : 0);
	char *preload = malloc(bytes);
	const char *separator = "";

	if (!preload)
		return NULL;
	int n = sprintf(preload, "%s=%s", RECORDING_ENV_PRELOAD, library ? library : "");
	if (library)
		separator = ":";
	while (user && *user) {
		size_t length = strcspn(user, ": ");

		if (length > 0 && !is_our_library(user, length)) {
			n += sprintf(preload + n, "%s%.*s", separator, (int)length, user);
			separator = ":";
		}
		user += length + (user[length] != '\0');
	}
	if (!*separator)
		preload[0] = '\0';
	return preload;
}

static int append(char **list, size_t *n, char *entry)
{
	if (!entry)
		return -ENOMEM;
	if (!*entry)
		return free(entry), 0;
	list[(*n)++] = entry;
	return 0;
}

static char *make_variable(const char *name, const char *value)
{
	char *entry = NULL;

	return asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry;
}

/* What a recording sets anew, or says by having a socket. */
static bool is_left_out(const char *entry, bool has_socket)
{
	return is_variable(entry, RECORDING_ENV_PRELOAD) ||
	       is_variable(entry, RECORDING_ENV_SOCKET) ||
	       is_variable(entry, RECORDING_ENV_PLACEMENT) ||
	       (has_socket && is_variable(entry, COPY_ENV));
}

static int fill(char **list, char *const *envp, const char *library, const char *socket_path,
		const char *placement)
{
	const char *user = find_variable(envp, RECORDING_ENV_PRELOAD);
	size_t n = 0;
	int err = 0;

	for (; *envp && err == 0; envp++) {
		if (!is_left_out(*envp, socket_path))
			err = append(list, &n, strdup(*envp));
	}
	if (err == 0 && (library || user))
		err = append(list, &n, make_preload(library, user));
	if (err == 0 && socket_path)
		err = append(list, &n, make_variable(RECORDING_ENV_SOCKET, socket_path));
	if (err == 0 && placement)
		err = append(list, &n, make_variable(RECORDING_ENV_PLACEMENT, placement));
	return err;
}

int environment_make(char *const *envp, const char *library, const char *socket_path,
		     const char *placement, char ***ret_envp)
{
	size_t n_entries = 0;
	char **list;

	while (envp[n_entries])
		n_entries++;
	list = calloc(n_entries + 4, sizeof(*list));
	if (!list)
		return -ENOMEM;
	int err = fill(list, envp, library, socket_path, placement);
	if (err < 0)
		return environment_free(list), err;
	*ret_envp = list;
	return 0;
}

int environment_copy(char *const *envp, char ***ret_envp)
{
	return environment_make(envp, NULL, NULL, NULL, ret_envp);
}

char **environment_free(char **envp)
{
	for (char **entry = envp; entry && *entry; entry++)
		free(*entry);
	free(envp);
	return NULL;
}
