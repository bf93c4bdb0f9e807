#include "runner/watch/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

#define MOST_BYTES 32u /* that all debug registers together can watch */

#define refuse(message, n_bytes, ...) text_refuse(-EINVAL, message, n_bytes, __VA_ARGS__)

/* The number that all of a text is; false: it is none. */
static bool take_number(const char *text, int base, uint64_t *ret_number)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(text, &end, base);
	return errno == 0 && *end == '\0';
}

/* Cut ":w" and ",BYTES" off the end. False: BYTES is no number. */
static bool take_suffixes(char *text, struct watch_target *target)
{
	size_t n = strlen(text);

	if (n > 2 && strcmp(text + n - 2, ":w") == 0 && text[n - 3] != ':') {
		target->is_write_only = true;
		text[n - 2] = '\0';
	}
	char *comma = strrchr(text, ',');
	if (!comma)
		return true;
	*comma = '\0';
	return take_number(comma + 1, 0, &target->n_bytes) && target->n_bytes > 0;
}

/* Cut "+N" off the end, "lib.so:" off the begin. */
static void take_name(char *text, struct watch_target *target)
{
	char *plus = strrchr(text, '+'), *colon = strchr(text, ':'), *so = strstr(text, ".so");

	if (plus && plus > text && take_number(plus + 1, 0, &target->plus))
		*plus = '\0';
	if (colon && so && so < colon) {
		*colon = '\0';
		snprintf(target->library, sizeof(target->library), "%s", text);
		text = colon + 1;
	}
	snprintf(target->name, sizeof(target->name), "%s", text);
	target->name_id = text_name_id(target->name);
}

int watch_target_parse(const char *text, struct watch_target *ret_target, char *ret_message,
		       size_t n_bytes)
{
	struct watch_target target = { .text = text };
	char copy[512];

	if (strlen(text) >= sizeof(target.name))
		return refuse(ret_message, n_bytes, "--watch: '%.40s...' is too long", text);
	snprintf(copy, sizeof(copy), "%s", text);
	if (!take_suffixes(copy, &target) || !copy[0])
		return refuse(ret_message, n_bytes,
			      "--watch '%s': expected NAME, LIBRARY.so:NAME or 0xADDRESS, then "
			      "[,BYTES] and [:w]",
			      text);
	if (target.n_bytes > MOST_BYTES)
		return refuse(ret_message, n_bytes,
			      "--watch '%s': %" PRIu64
			      " bytes are more than the 4 debug registers watch, which is 8 each",
			      text, target.n_bytes);
	target.has_address = strncmp(copy, "0x", 2) == 0 || strncmp(copy, "0X", 2) == 0;
	if (!target.has_address)
		take_name(copy, &target);
	else if (!take_number(copy, 16, &target.address) || target.address >> 47 ||
		 target.address == 0)
		return refuse(ret_message, n_bytes,
			      "--watch '%s': no address that a program can have", text);
	if (!target.has_address && !target.name[0])
		return refuse(ret_message, n_bytes, "--watch '%s': no name", text);
	*ret_target = target;
	return 0;
}

bool watch_target_takes(const struct watch_target *target, const char *path)
{
	const char *name = text_base_name(path);
	size_t n = strlen(target->library);

	if (target->has_address)
		return false;
	return n == 0 ||
	       (strncmp(name, target->library, n) == 0 && (name[n] == '\0' || name[n] == '.'));
}
