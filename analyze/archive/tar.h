#pragma once
/*
 * A tar file (POSIX ustar, names above 100 bytes as GNU tar has them) in one zstd frame: what
 * `tar --zstd` reads and writes. Regular files and hard links only; others are stepped over.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tar_writer;

/* Create the file (mode 0600; one that is there is replaced). Returns 0 or a negative errno. */
int tar_create(const char *path, struct tar_writer **ret_tar);

/* Begin a file of n_bytes; all of them follow by tar_write(). Returns 0 or a negative errno. */
int tar_begin(struct tar_writer *tar, const char *name, uint64_t n_bytes);
int tar_write(struct tar_writer *tar, const void *bytes, size_t n_bytes);

/* A file with the contents of one that was written before. Returns 0 or a negative errno. */
int tar_link(struct tar_writer *tar, const char *name, const char *target);

/* End the file. Returns 0 or a negative errno, also of what was written before. */
int tar_finish(struct tar_writer *tar);
struct tar_writer *tar_close(struct tar_writer *tar); /* accepts NULL, returns NULL */

/*
 * Unpack into a folder that is there and empty. Whatever the file holds, nothing is written outside
 * of the folder. Returns 0, -EBADMSG for a file that is damaged, cut off or no such file, or a
 * negative errno; what was unpacked so far stays.
 */
int tar_unpack(const char *path, const char *folder);

/* The heads of entries in a tar file (IEEE Std 1003.1, pax, ustar; GNU tar's manual). */

#define TAR_BLOCK_BYTES 512u
#define TAR_NAME_BYTES	100u /* longer names stand before the head */

/* Types of entries. */
#define TAR_FILE	'0'
#define TAR_LINK	'1'
#define TAR_LONG_NAME	'L'
#define TAR_LONG_TARGET 'K'

struct tar_head {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12]; /* octal, or 0x80 and big endian */
	char time[12];
	char checksum[8];
	char type;
	char target[100];
	char magic[6];
	char version[2];
	char user[32];
	char group[32];
	char major[8];
	char minor[8];
	char prefix[155];
	char padding[12];
};
_Static_assert(sizeof(struct tar_head) == TAR_BLOCK_BYTES, "a head is a block");

struct tar_entry {
	const char *name;
	const char *target; /* of a link; NULL: none */
	uint64_t n_bytes;
	char type;
};

/* Fill a head; names are cut to what it holds. */
void tar_head_fill(struct tar_head *head, const struct tar_entry *entry);

/* Whether it is a head with the right checksum. */
bool tar_head_is_valid(const struct tar_head *head);

/* Bytes of the entry. False: it is no number. */
bool tar_head_size(const struct tar_head *head, uint64_t *ret_bytes);
