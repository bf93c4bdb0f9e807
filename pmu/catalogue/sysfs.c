#include "pmu/catalogue/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "pmu/cpus.h"

#define FILE_MAX_BYTES	65536
#define PATH_BYTES	512
#define BAD_TERM_BYTES	64
#define MAX_TERMS_BYTES 512

/* "DEVICES/PMU/path". false: too long, or a name that would lead out of the folder. */
static bool make_path(const struct pmu_host *host, const char *pmu, const char *path, char *ret)
{
	if (pmu[0] == '.' || strchr(pmu, '/') || strstr(path, ".."))
		return false;
	return snprintf(ret, PATH_BYTES, "%s/%s%s%s", host->devices, pmu, path[0] ? "/" : "",
			path) < PATH_BYTES;
}

bool pmu_sysfs_has(const struct pmu_host *host, const char *pmu, const char *path)
{
	char file[PATH_BYTES];

	return pmu[0] && make_path(host, pmu, path, file) && access(file, F_OK) == 0;
}

/* The first line of DEVICES/PMU/FOLDER/NAME; the caller frees it. */
static int read_line(const struct pmu_host *host, const char *pmu, const char *path,
		     char **ret_line)
{
	char file[PATH_BYTES];

	if (!make_path(host, pmu, path, file))
		return -ENOENT;
	int r = io_read_file(file, FILE_MAX_BYTES, ret_line, NULL);
	if (r == 0)
		(*ret_line)[strcspn(*ret_line, "\n")] = '\0';
	return r;
}

static int read_named(const struct pmu_host *host, const char *pmu, const char *folder,
		      const char *name, char **ret_line)
{
	char path[PATH_BYTES];

	if (!name[0] || strchr(name, '/') ||
	    snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENOENT;
	return read_line(host, pmu, path, ret_line);
}

/* As perf reads them: hexadecimal with 0x, else decimal, also with a 0 before it. */
static int parse_value(const char *text, uint64_t *ret_value)
{
	bool is_hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	char *end;
	unsigned long long value;

	if (!strchr("0123456789", text[0]) || !text[0])
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, is_hexadecimal ? 16 : 10);
	if (*end || errno)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int pmu_sysfs_number(const struct pmu_host *host, const char *pmu, const char *path, uint64_t *ret)
{
	auto_free char *line = NULL;
	int r = read_line(host, pmu, path, &line);

	return r < 0 ? r : parse_value(line, ret);
}

/* ---- Fields ---- */

static uint64_t *config_word(struct pmu_event *event, const char *name, size_t n)
{
	const struct {
		const char *name;
		uint64_t *word;
	} words[] = {
		{ "config", &event->config },
		{ "config1", &event->config1 },
		{ "config2", &event->config2 },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].name) == n && strncmp(words[i].name, name, n) == 0)
			return words[i].word;
	return NULL;
}

/* Put the lowest bits of *value into the bits first..last of *word, and take them off. */
static void put_bits(uint64_t *word, unsigned first, unsigned last, uint64_t *value)
{
	unsigned n = last - first + 1;
	uint64_t mask = n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;

	*word = (*word & ~(mask << first)) | (*value & mask) << first;
	*value = n == 64 ? 0 : *value >> n;
}

/* "config:0-7,32-35": the value's low bits first. -EINVAL: it has more bits than the field. */
static int put_field(struct pmu_event *event, const char *format, uint64_t value)
{
	size_t n = strcspn(format, ":");
	uint64_t *word = config_word(event, format, n);
	const char *at = format + n;

	if (!word)
		return -EINVAL;
	while (*at == ':' || *at == ',') {
		char *end;
		unsigned long first = strtoul(at + 1, &end, 10), last = first;

		if (end == at + 1)
			return -EINVAL;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last > 63 || last < first)
			return -EINVAL;
		put_bits(word, (unsigned)first, (unsigned)last, &value);
		at = end;
	}
	return *at || value ? -EINVAL : 0;
}

/* ---- Terms ---- */

struct terms {
	const struct pmu_host *host;
	const char *pmu;
	struct pmu_event *event;
	char *bad;
	bool is_inner; /* inside the text of an event: no further event may be named */
};

static int put_terms(struct terms *terms, const char *text);

static int put_event(struct terms *terms, const char *name)
{
	struct terms inner = *terms;
	auto_free char *text = NULL;

	if (terms->is_inner || read_named(terms->host, terms->pmu, "events", name, &text) < 0)
		return -EINVAL;
	inner.is_inner = true;
	return put_terms(&inner, text);
}

static int put_raw(struct pmu_event *event, const char *digits)
{
	char *end;

	if (!digits[0] || strspn(digits, "0123456789abcdefABCDEF") != strlen(digits) ||
	    strlen(digits) > 16)
		return -EINVAL;
	event->config = strtoull(digits, &end, 16);
	return 0;
}

/* "name=value", or a name alone: a field of one bit, an event, a raw code. */
static int put_term(struct terms *terms, const char *name, const char *text)
{
	uint64_t value = 1, *word = config_word(terms->event, name, strlen(name));
	auto_free char *format = NULL;

	if (text && strcmp(name, "name") == 0) /* perf's: only a name to print */
		return 0;
	if (text && parse_value(text, &value) < 0)
		return -EINVAL;
	if (word && text) {
		*word = value;
		return 0;
	}
	if (read_named(terms->host, terms->pmu, "format", name, &format) == 0)
		return put_field(terms->event, format, value);
	if (text)
		return -EINVAL;
	if (put_event(terms, name) == 0)
		return 0;
	return name[0] == 'r' ? put_raw(terms->event, name + 1) : -EINVAL;
}

static int put_terms(struct terms *terms, const char *text)
{
	char copy[MAX_TERMS_BYTES], *rest = copy, *term;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return -EINVAL;
	while ((term = strsep(&rest, ","))) {
		char *equals = strchr(term, '=');

		if (!term[0])
			continue;
		snprintf(terms->bad, BAD_TERM_BYTES, "%s", term);
		if (equals)
			*equals = '\0';
		if (put_term(terms, term, equals ? equals + 1 : NULL) < 0)
			return -EINVAL;
	}
	return 0;
}

int pmu_sysfs_terms(const struct pmu_host *host, const char *pmu, const char *text,
		    struct pmu_event *event, char *ret_bad)
{
	struct pmu_event filled = *event;
	struct terms terms = { host, pmu, &filled, ret_bad, false };
	uint64_t type;

	ret_bad[0] = '\0';
	if (!pmu[0] || pmu_sysfs_number(host, pmu, "type", &type) < 0)
		return -ENOENT;
	filled.type = (uint32_t)type;
	snprintf(filled.pmu, sizeof(filled.pmu), "%s", pmu);
	int r = put_terms(&terms, text);
	if (r == 0)
		*event = filled;
	return r;
}

/* ---- Lists ---- */

static int is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int each_name(const char *folder, int (*each)(void *context, const char *name),
		     void *context)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, is_name, alphasort);
	int r = 0;

	if (n < 0)
		return 0;
	for (int i = 0; i < n; i++) {
		r = r ?: each(context, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return r;
}

int pmu_sysfs_each_pmu(const struct pmu_host *host, int (*each)(void *context, const char *pmu),
		       void *context)
{
	return each_name(host->devices, each, context);
}

int pmu_sysfs_each_event(const struct pmu_host *host, const char *pmu,
			 int (*each)(void *context, const char *name), void *context)
{
	char folder[PATH_BYTES];

	return make_path(host, pmu, "events", folder) ? each_name(folder, each, context) : 0;
}

int pmu_sysfs_cpus(const struct pmu_host *host, const char *pmu, int **ret_cpus)
{
	static const char *const files[] = { "cpus", "cpumask" };

	for (size_t i = 0; pmu[0] && i < sizeof(files) / sizeof(files[0]); i++) {
		auto_free char *list = NULL;

		if (read_line(host, pmu, files[i], &list) == 0 && list[0])
			return pmu_cpus_parse(list, ret_cpus);
	}
	return 0;
}
