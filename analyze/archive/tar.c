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

#include "analyze/archive/tar-format.h"
#include "common/cleanup.h"
#include "common/io.h"

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
	if (r < 0) {
		tar_close(tar);
		return r;
	}
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
	if (r == 0)
		r = compress(tar, name, (size_t)entry.n_bytes, ZSTD_e_continue);
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
	int r = write_long(tar, target, TAR_LONG_TARGET);

	if (r == 0)
		r = write_long(tar, name, TAR_LONG_NAME);
	return r < 0 ? r : write_head(tar, &entry);
}

int tar_finish(struct tar_writer *tar)
{
	static const char zeros[2 * TAR_BLOCK_BYTES];

	if (tar->error == 0 && tar->n_left)
		tar->error = -EINVAL;
	return compress(tar, zeros, sizeof(zeros), ZSTD_e_end);
}
