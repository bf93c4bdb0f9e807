#include "runner/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

const char *const output_rank_variables[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					      "SLURM_PROCID", NULL };

static const char *job_rank(void)
{
	for (size_t i = 0; output_rank_variables[i]; i++) {
		const char *value = getenv(output_rank_variables[i]);

		if (value && *value && strspn(value, "0123456789") == strlen(value))
			return value;
	}
	return "0";
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

struct text {
	char *bytes;
	size_t n;
};

static int put(struct text *text, const char *bytes, size_t n)
{
	if (text->n + n >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(text->bytes + text->n, bytes, n);
	text->n += n;
	text->bytes[text->n] = '\0';
	return 0;
}

static int put_host(struct text *text)
{
	struct utsname host;

	if (uname(&host) < 0)
		return -errno;
	return put(text, host.nodename, strcspn(host.nodename, "/"));
}

static int put_letter(struct text *text, char letter, const struct output_names *names)
{
	char digits[24];

	switch (letter) {
	case 'e':
		return put(text, base_name(names->program), strlen(base_name(names->program)));
	case 'p':
		return put(text, digits, (size_t)sprintf(digits, "%d", (int)names->pid));
	case 'n':
		return put_host(text);
	case 'r':
		return put(text, job_rank(), strlen(job_rank()));
	case '%':
		return put(text, "%", 1);
	default:
		return -EINVAL;
	}
}

int output_expand(const struct output_names *names, char ret_path[static PATH_MAX])
{
	const char *pattern = names->pattern ? names->pattern : OUTPUT_DEFAULT_PATTERN;
	char path[PATH_MAX];
	struct text text = { .bytes = path };
	int err = 0;

	if (!*pattern)
		return -EINVAL;
	if (names->dir && !strchr(pattern, '/')) {
		err = put(&text, names->dir, strlen(names->dir));
		if (err == 0)
			err = put(&text, "/", 1);
	}
	while (*pattern && err == 0) {
		size_t n = strcspn(pattern, "%");

		err = put(&text, pattern, n);
		pattern += n;
		if (*pattern == '%' && err == 0) {
			err = put_letter(&text, pattern[1], names);
			pattern += 2;
		}
	}
	if (err == 0)
		memcpy(ret_path, path, text.n + 1);
	return err;
}
