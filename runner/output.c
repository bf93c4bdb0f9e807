#include "runner/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "common/io.h"

/* ---- Names by a pattern ---- */

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

	return uname(&host) < 0 ? -errno : put(text, host.nodename, strcspn(host.nodename, "/"));
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

/*
 * Fill a pattern in: %e program, %p pid, %r rank among the processes of an MPI or Slurm job (0
 * outside of one), %n name of the host, %% a percent sign. Returns 0, -EINVAL (another letter, or
 * empty), or -ENAMETOOLONG.
 */
static int output_expand(const struct output_names *names, char ret_path[static PATH_MAX])
{
	const char *pattern = names->pattern ? names->pattern : OUTPUT_DEFAULT_PATTERN;
	char path[PATH_MAX];
	struct text text = { .bytes = path };
	int err = 0;

	if (!*pattern)
		return -EINVAL;
	if (names->dir && !strchr(pattern, '/')) {
		err = put(&text, names->dir, strlen(names->dir)) ?: put(&text, "/", 1);
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

#define MAX_PARTIAL_NAMES 1000

static int make_folders(const char *dir)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s", dir);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0777) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

/* Renaming over /dev/null would be the end of it. */
static int check_name(const char *path, bool force)
{
	struct stat status;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	if (!S_ISREG(status.st_mode))
		return -ENOTSUP;
	return force ? 0 : -EEXIST;
}

/* The recorder of a partial file keeps it locked while it lives. */
static bool is_left_behind(const char *partial)
{
	auto_close int fd = open(partial, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0;
}

static int make_partial_name(const char *path, unsigned number, char ret_partial[static PATH_MAX])
{
	char digits[16] = "";

	if (number > 1)
		snprintf(digits, sizeof(digits), "-%u", number);
	int n = snprintf(ret_partial, PATH_MAX, "%s%s%s", path, OUTPUT_SUFFIX, digits);
	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* What a killed recording left is data: it is named and never overwritten. */
static int open_partial(struct output *output)
{
	int err;

	for (unsigned number = 1; number <= MAX_PARTIAL_NAMES; number++) {
		err = make_partial_name(output->path, number, output->partial);
		if (err < 0)
			return err;
		output->fd = open(output->partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (output->fd >= 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
		if (is_left_behind(output->partial))
			memcpy(output->left_behind, output->partial, sizeof(output->partial));
	}
	return -EEXIST;
}

/*
 * With %p in the pattern every recording has another name: look for what killed ones of the same
 * program left, up to the place where the pid stands.
 */
static void find_left_behind(const struct output_names *names, struct output *output)
{
	const char *pattern = names->pattern ? names->pattern : OUTPUT_DEFAULT_PATTERN;
	struct output_names cut = *names;
	char prefix[PATH_MAX], start[PATH_MAX];

	snprintf(start, sizeof(start), "%.*s", (int)(strstr(pattern, "%p") - pattern), pattern);
	cut.pattern = start;
	if (output_expand(&cut, prefix) < 0)
		return;
	char *slash = strrchr(prefix, '/');
	if (slash)
		*slash = '\0';
	auto_folder DIR *folder = opendir(slash ? prefix : ".");
	const char *name = slash ? slash + 1 : prefix;
	struct dirent *entry;

	while (folder && (entry = readdir(folder)) != NULL) {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s%s%s", slash ? prefix : "",
				 slash ? "/" : "", entry->d_name);

		if (n < PATH_MAX && *name && strncmp(entry->d_name, name, strlen(name)) == 0 &&
		    strstr(entry->d_name, OUTPUT_SUFFIX) && is_left_behind(path)) {
			memcpy(output->left_behind, path, (size_t)n + 1);
			return;
		}
	}
}

/* On failure path is that of the file beside it. */
static int check_beside(const struct output_names *names, char path[static PATH_MAX])
{
	size_t n = strlen(path);

	if (!names->beside)
		return 0;
	if (n + strlen(names->beside) >= PATH_MAX)
		return -ENAMETOOLONG;
	strcpy(path + n, names->beside);
	int err = check_name(path, names->force);
	if (err == 0)
		path[n] = '\0';
	return err;
}

int output_open(const struct output_names *names, struct output *ret_output)
{
	*ret_output = OUTPUT_CLOSED;
	ret_output->force = names->force;
	int err = output_expand(names, ret_output->path);
	if (err == 0 && names->dir)
		err = make_folders(names->dir);
	err = err ?: check_name(ret_output->path, names->force);
	err = err ?: check_beside(names, ret_output->path);
	err = err ?: open_partial(ret_output);
	if (err < 0)
		return err;
	flock(ret_output->fd, LOCK_EX | LOCK_NB);
	if (!names->pattern || strstr(names->pattern, "%p"))
		find_left_behind(names, ret_output);
	/*
	 * The writer owns fd and closes it before the rename; the same description keeps the lock.
	 */
	ret_output->lock_fd = fcntl(ret_output->fd, F_DUPFD_CLOEXEC, 0);
	return 0;
}

int output_rename(struct output *output)
{
	return new_file_publish(output->partial, output->path, output->force);
}

void output_remove(struct output *output)
{
	if (output->partial[0])
		unlink(output->partial);
	output->partial[0] = '\0';
}

void output_finish(struct output *output)
{
	cleanup_close(&output->fd);
	cleanup_close(&output->lock_fd);
	output->fd = -1;
	output->lock_fd = -1;
}

int output_disk(const struct output *output, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes)
{
	struct statvfs disk;

	if (fstatvfs(output->lock_fd, &disk) < 0)
		return -errno;
	*ret_free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
	*ret_total_bytes = (uint64_t)disk.f_blocks * disk.f_frsize;
	return 0;
}

bool output_absolute_path(const struct output *output, char ret_path[static PATH_MAX])
{
	const char *name = output->path;
	char folder[PATH_MAX] = "";

	if (name[0] != '/' && !getcwd(folder, sizeof(folder)))
		return false;
	return snprintf(ret_path, PATH_MAX, "%s%s%s", folder, folder[0] ? "/" : "", name) <
	       PATH_MAX;
}
