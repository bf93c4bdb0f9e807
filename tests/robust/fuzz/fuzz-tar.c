/*
 * Unpacks whatever bytes as an archive of symbols: the first byte says whether they are one zstd
 * frame already, and whether the checksums of heads are put right. Nothing may come to lie outside
 * of the folder.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "analyze/archive/tar.h"
#include "common/cleanup.h"
#include "tests/robust/fuzz/fuzz.h"

enum { IS_FRAME = 1, IS_AS_GIVEN = 2 };

static char outside[64]; /* holds the folder "in" and nothing else */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_all(void)
{
	nftw(outside, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_folders(char *ret_inside, size_t n_bytes)
{
	const char *home = getenv("TMPDIR");

	if (!outside[0]) {
		snprintf(outside, sizeof(outside), "%.30s/fuzz-tar-XXXXXX",
			 home && strlen(home) < 30 ? home : "/tmp");
		FUZZ_REQUIRE(mkdtemp(outside) && atexit(remove_all) == 0);
	}
	snprintf(ret_inside, n_bytes, "%s/in", outside);
	FUZZ_REQUIRE(mkdir(ret_inside, 0700) == 0);
}

static void require_nothing_outside(void)
{
	DIR *folder = opendir(outside);
	struct dirent *entry;

	FUZZ_REQUIRE(folder);
	while ((entry = readdir(folder)))
		FUZZ_REQUIRE(entry->d_name[0] == '.' || strcmp(entry->d_name, "in") == 0);
	closedir(folder);
}

/* Put the checksum of each block that could be a head right. */
static void repair(uint8_t *bytes, size_t n_bytes)
{
	for (size_t at = 0; at + TAR_BLOCK_BYTES <= n_bytes; at += TAR_BLOCK_BYTES) {
		struct tar_head *head = (void *)(bytes + at);
		unsigned sum = 0;

		if (memcmp(head->magic, "ustar", 5) != 0)
			continue;
		memset(head->checksum, ' ', sizeof(head->checksum));
		for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
			sum += bytes[at + i];
		snprintf(head->checksum, sizeof(head->checksum), "%06o", sum);
	}
}

static void unpack(const uint8_t *bytes, size_t n_bytes)
{
	char path[FUZZ_PATH_BYTES], inside[80];
	auto_close __attribute__((unused)) int fd = fuzz_file_open(bytes, n_bytes, path);

	make_folders(inside, sizeof(inside));
	tar_unpack(path, inside);
	require_nothing_outside();
	nftw(inside, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	uint8_t mode = (uint8_t)fuzz_take(&bytes, &n_bytes, 1);
	size_t most = ZSTD_compressBound(n_bytes);
	auto_free uint8_t *copy = malloc(n_bytes + 1);
	auto_free uint8_t *frame = malloc(most);

	FUZZ_REQUIRE(copy && frame);
	if (mode & IS_FRAME) {
		unpack(bytes, n_bytes);
		return 0;
	}
	memcpy(copy, bytes, n_bytes);
	if (!(mode & IS_AS_GIVEN))
		repair(copy, n_bytes);
	size_t n = ZSTD_compress(frame, most, copy, n_bytes, 1);
	FUZZ_REQUIRE(!ZSTD_isError(n));
	unpack(frame, n);
	return 0;
}
