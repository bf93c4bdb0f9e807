#include "analyze/archive/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "common/io.h"

#define MAX_OCTAL ((UINT64_C(1) << 33) - 1)

/* The sum of all bytes, those of the checksum as spaces. */
static unsigned sum_of(const struct tar_head *head)
{
	const unsigned char *bytes = (const unsigned char *)head;
	size_t first = offsetof(struct tar_head, checksum);
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof(*head); i++)
		sum += i - first < sizeof(head->checksum) ? ' ' : bytes[i];
	return sum;
}

static void fill_size(char size[12], uint64_t n_bytes)
{
	if (n_bytes <= MAX_OCTAL) {
		snprintf(size, 12, "%011llo", (unsigned long long)n_bytes);
		return;
	}
	memset(size, 0, 12);
	size[0] = (char)0x80;
	for (int i = 11; i > 3; i--, n_bytes >>= 8)
		size[i] = (char)(n_bytes & 0xff);
}

static void fill_text(char *text, size_t n_bytes, const char *value)
{
	size_t n = strlen(value);

	memcpy(text, value, n < n_bytes ? n : n_bytes);
}

void tar_head_fill(struct tar_head *head, const struct tar_entry *entry)
{
	memset(head, 0, sizeof(*head));
	fill_text(head->name, sizeof(head->name), entry->name);
	if (entry->target)
		fill_text(head->target, sizeof(head->target), entry->target);
	fill_text(head->mode, sizeof(head->mode), "0000644");
	fill_text(head->uid, sizeof(head->uid), "0000000");
	fill_text(head->gid, sizeof(head->gid), "0000000");
	fill_size(head->size, entry->n_bytes);
	fill_text(head->time, sizeof(head->time), "00000000000");
	head->type = entry->type;
	fill_text(head->magic, sizeof(head->magic), "ustar");
	memcpy(head->version, "00", 2);
	snprintf(head->checksum, sizeof(head->checksum), "%06o", sum_of(head));
	head->checksum[7] = ' ';
}

static bool parse_octal(const char *text, size_t n_bytes, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t i = 0;

	while (i < n_bytes && text[i] == ' ')
		i++;
	size_t first = i;
	for (; i < n_bytes && text[i] >= '0' && text[i] <= '7'; i++)
		value = value * 8 + (uint64_t)(text[i] - '0');
	if (i == first || (i < n_bytes && text[i] != ' ' && text[i] != '\0'))
		return false;
	*ret_value = value;
	return true;
}

bool tar_head_is_valid(const struct tar_head *head)
{
	uint64_t sum;

	return memcmp(head->magic, "ustar", 5) == 0 &&
	       parse_octal(head->checksum, sizeof(head->checksum), &sum) && sum == sum_of(head);
}

bool tar_head_size(const struct tar_head *head, uint64_t *ret_bytes)
{
	uint64_t value = 0;

	if (!((unsigned char)head->size[0] & 0x80))
		return parse_octal(head->size, sizeof(head->size), ret_bytes);
	for (int i = 4; i < 12; i++)
		value = value << 8 | (unsigned char)head->size[i];
	*ret_bytes = value;
	return value <= INT64_MAX;
}

#define LEVEL 6

struct tar_writer {
	int fd;
	int error; /* the first one */
	uint64_t n_left; /* of the file that was begun */
	uint64_t n_bytes; /* of it */
	ZSTD_CCtx *zstd;
	size_t n_out;
	uint8_t out[1 << 17];
};

static int compress(struct tar_writer *tar, const void *bytes, size_t n_bytes,
		    ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = { bytes, n_bytes, 0 };
	size_t n_left = 1;

	while (tar->error == 0 && (in.pos < in.size || (end == ZSTD_e_end && n_left))) {
		ZSTD_outBuffer out = { tar->out, sizeof(tar->out), 0 };

		n_left = ZSTD_compressStream2(tar->zstd, &out, &in, end);
		tar->error = ZSTD_isError(n_left) ? -EIO : io_write_all(tar->fd, tar->out, out.pos);
	}
	return tar->error;
}

int tar_create(const char *path, struct tar_writer **ret_tar)
{
	struct tar_writer *tar = calloc(1, sizeof(*tar));

	if (!tar)
		return -ENOMEM;
	tar->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = tar->fd < 0 ? -errno : 0;
	tar->zstd = ZSTD_createCCtx();
	if (r == 0 && (!tar->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(
					     tar->zstd, ZSTD_c_compressionLevel, LEVEL))))
		r = -ENOMEM;
	if (r < 0)
		return tar_close(tar), r;
	*ret_tar = tar;
	return 0;
}

struct tar_writer *tar_close(struct tar_writer *tar)
{
	if (!tar)
		return NULL;
	cleanup_close(&tar->fd);
	ZSTD_freeCCtx(tar->zstd);
	free(tar);
	return NULL;
}

static int write_padding(struct tar_writer *tar, uint64_t n_bytes)
{
	static const char zeros[TAR_BLOCK_BYTES];
	size_t n = (size_t)(-n_bytes % TAR_BLOCK_BYTES);

	return compress(tar, zeros, n, ZSTD_e_continue);
}

static int write_head(struct tar_writer *tar, const struct tar_entry *entry)
{
	struct tar_head head;

	tar_head_fill(&head, entry);
	return compress(tar, &head, sizeof(head), ZSTD_e_continue);
}

/* A name that is too long for a head stands before it, as the contents of an entry of its own. */
static int write_long(struct tar_writer *tar, const char *name, char type)
{
	struct tar_entry entry = { .name = "././@LongLink", .type = type };

	if (strlen(name) <= TAR_NAME_BYTES)
		return 0;
	entry.n_bytes = strlen(name) + 1;
	int r = write_head(tar, &entry);
	r = r ?: compress(tar, name, (size_t)entry.n_bytes, ZSTD_e_continue);
	return r < 0 ? r : write_padding(tar, entry.n_bytes);
}

int tar_begin(struct tar_writer *tar, const char *name, uint64_t n_bytes)
{
	const struct tar_entry entry = { .name = name, .type = TAR_FILE, .n_bytes = n_bytes };
	int r = write_long(tar, name, TAR_LONG_NAME);

	tar->n_left = tar->n_bytes = n_bytes;
	return r < 0 ? r : write_head(tar, &entry);
}

int tar_write(struct tar_writer *tar, const void *bytes, size_t n_bytes)
{
	if (n_bytes > tar->n_left)
		return -EINVAL;
	tar->n_left -= n_bytes;
	int r = compress(tar, bytes, n_bytes, ZSTD_e_continue);
	return r == 0 && tar->n_left == 0 ? write_padding(tar, tar->n_bytes) : r;
}

int tar_link(struct tar_writer *tar, const char *name, const char *target)
{
	const struct tar_entry entry = { .name = name, .target = target, .type = TAR_LINK };
	int r = write_long(tar, target, TAR_LONG_TARGET) ?: write_long(tar, name, TAR_LONG_NAME);

	return r < 0 ? r : write_head(tar, &entry);
}

int tar_finish(struct tar_writer *tar)
{
	static const char zeros[2 * TAR_BLOCK_BYTES];

	if (tar->error == 0 && tar->n_left)
		tar->error = -EINVAL;
	return compress(tar, zeros, sizeof(zeros), ZSTD_e_end);
}

#define MAX_NAME_BYTES 65536u

/* What is read, and where it goes. */
struct unpack {
	FILE *file;
	ZSTD_DCtx *zstd;
	ZSTD_inBuffer in;
	size_t status; /* of the last call: 0 at the end of a frame */
	const char *folder;
	char *name; /* a long one, for the next entry; NULL: none */
	char *target;
	uint8_t bytes[1 << 16];
};

static void finish(struct unpack *unpack)
{
	cleanup_fclose(&unpack->file);
	ZSTD_freeDCtx(unpack->zstd);
	free_all(unpack->name, unpack->target);
}

/* Whether there is more to decompress. Returns 1, 0 at the end of the file, or a negative errno. */
static int refill(struct unpack *unpack)
{
	if (unpack->in.pos < unpack->in.size)
		return 1;
	size_t n = fread(unpack->bytes, 1, sizeof(unpack->bytes), unpack->file);
	if (ferror(unpack->file))
		return -EIO;
	unpack->in = (ZSTD_inBuffer){ unpack->bytes, n, 0 };
	return n > 0;
}

/* Read exactly n_bytes. Returns 0, -EBADMSG when there are no more, or a negative errno. */
static int read_bytes(struct unpack *unpack, void *bytes, size_t n_bytes)
{
	ZSTD_outBuffer out = { bytes, n_bytes, 0 };

	while (out.pos < out.size) {
		size_t before = out.pos;
		int r = refill(unpack);

		if (r < 0)
			return r;
		unpack->status = ZSTD_decompressStream(unpack->zstd, &out, &unpack->in);
		if (ZSTD_isError(unpack->status) || (r == 0 && out.pos == before))
			return -EBADMSG;
	}
	return 0;
}

static int skip_padding(struct unpack *unpack, uint64_t n_bytes)
{
	char padding[TAR_BLOCK_BYTES];

	return read_bytes(unpack, padding, (size_t)(-n_bytes % TAR_BLOCK_BYTES));
}

/* Relative, and nothing in it leads upwards. */
static bool is_safe(const char *name)
{
	if (name[0] == '/' || name[0] == '\0')
		return false;
	for (const char *part = name; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
			return false;
	}
	return true;
}

static int make_folders(char *path, size_t from)
{
	for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
		*slash = '/';
		if (r < 0)
			return r;
	}
	return 0;
}

/* "FOLDER/NAME", allocated, with its folders; NULL sets errno. */
static char *place_of(const struct unpack *unpack, const char *name)
{
	char *path = NULL;

	if (!is_safe(name)) {
		errno = EBADMSG;
		return NULL;
	}
	if (asprintf(&path, "%s/%s", unpack->folder, name) < 0)
		return NULL;
	int r = make_folders(path, strlen(unpack->folder) + 1);
	if (r == 0)
		return path;
	free(path);
	errno = -r;
	return NULL;
}

/* What is all zero stays a hole: code that was left out. */
static int write_piece(int fd, const char *piece, size_t n_bytes)
{
	static const char zeros[4096];
	bool is_hole = n_bytes == sizeof(zeros) && memcmp(piece, zeros, n_bytes) == 0;

	if (is_hole)
		return lseek(fd, (off_t)n_bytes, SEEK_CUR) < 0 ? -errno : 0;
	return io_write_all(fd, piece, n_bytes);
}

static int unpack_file(struct unpack *unpack, const char *name, uint64_t n_bytes)
{
	auto_free char *path = place_of(unpack, name);
	if (!path)
		return -errno;
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : 0;

	for (uint64_t left = n_bytes; r == 0 && left;) {
		char piece[4096];
		size_t n = left < sizeof(piece) ? (size_t)left : sizeof(piece);

		r = read_bytes(unpack, piece, n) ?: write_piece(fd, piece, n);
		left -= n;
	}
	if (r == 0 && ftruncate(fd, (off_t)n_bytes) < 0)
		r = -errno;
	return r < 0 ? r : skip_padding(unpack, n_bytes);
}

static int unpack_link(struct unpack *unpack, const char *name, const char *target)
{
	auto_free char *path = place_of(unpack, name);
	auto_free char *of = NULL;

	if (!path)
		return -errno;
	if (!is_safe(target))
		return -EBADMSG;
	if (asprintf(&of, "%s/%s", unpack->folder, target) < 0)
		return -ENOMEM;
	return link(of, path) < 0 ? -errno : 0;
}

static int skip(struct unpack *unpack, uint64_t n_bytes)
{
	int r = 0;

	for (uint64_t left = n_bytes; r == 0 && left;) {
		char piece[4096];
		size_t n = left < sizeof(piece) ? (size_t)left : sizeof(piece);

		r = read_bytes(unpack, piece, n);
		left -= n;
	}
	return r < 0 ? r : skip_padding(unpack, n_bytes);
}

/* The contents of an entry are the name of the next one. */
static int read_name(struct unpack *unpack, uint64_t n_bytes, char **ret_name)
{
	char *name = n_bytes < MAX_NAME_BYTES ? calloc(1, (size_t)n_bytes + 1) : NULL;
	if (!name)
		return n_bytes < MAX_NAME_BYTES ? -ENOMEM : -EBADMSG;

	int r = read_bytes(unpack, name, (size_t)n_bytes);
	free(*ret_name);
	*ret_name = name;
	return r < 0 ? r : skip_padding(unpack, n_bytes);
}

static int unpack_entry(struct unpack *unpack, const struct tar_head *head)
{
	auto_free char *own_name = strndup(head->name, sizeof(head->name));
	auto_free char *own_target = strndup(head->target, sizeof(head->target));
	uint64_t n_bytes;

	if (!own_name || !own_target)
		return -ENOMEM;
	if (!tar_head_size(head, &n_bytes))
		return -EBADMSG;
	if (head->type == TAR_LONG_NAME)
		return read_name(unpack, n_bytes, &unpack->name);
	if (head->type == TAR_LONG_TARGET)
		return read_name(unpack, n_bytes, &unpack->target);

	auto_free char *name = steal_ptr(unpack->name ? &unpack->name : &own_name);
	auto_free char *target = steal_ptr(unpack->target ? &unpack->target : &own_target);
	if (head->type == TAR_FILE || head->type == '\0')
		return unpack_file(unpack, name, n_bytes);
	return head->type == TAR_LINK ? unpack_link(unpack, name, target) : skip(unpack, n_bytes);
}

static int unpack_all(struct unpack *unpack)
{
	static const struct tar_head end;
	struct tar_head head;
	int r;

	while ((r = read_bytes(unpack, &head, sizeof(head))) == 0) {
		if (memcmp(&head, &end, sizeof(head)) == 0)
			return 0;
		r = tar_head_is_valid(&head) ? unpack_entry(unpack, &head) : -EBADMSG;
		if (r < 0)
			break;
	}
	return r;
}

int tar_unpack(const char *path, const char *folder)
{
	__attribute__((cleanup(finish))) struct unpack unpack = { .folder = folder };

	unpack.file = fopen(path, "re");
	if (!unpack.file)
		return -errno;
	unpack.zstd = ZSTD_createDCtx();
	return unpack.zstd ? unpack_all(&unpack) : -ENOMEM;
}
