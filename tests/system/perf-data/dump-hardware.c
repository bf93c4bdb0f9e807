/*
 * dump-hardware data-src WORD...  what data source words say dump-hardware ibs BYTES...
 * raw samples of IBS op, as hexadecimal digits dump-hardware spe FILE             bytes of an AUX
 * area of SPE; in two parts when a number follows
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "decode/hardware/hardware.h"
#include "perf/data-source.h"

static void print_source(uint64_t word)
{
	struct data_source source;

	data_source_decode(word, &source);
	printf("%" PRIx64 "\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\n", word, source.op,
	       source.level, source.hit, source.snoop, source.tlb, source.is_locked, source.blocked,
	       source.is_remote, source.hops, source.is_write);
}

static void print_access(const struct hardware_access *access)
{
	printf("%#" PRIx64 "\t%d\t%d\t%#" PRIx64 "\t%d\t%#" PRIx64 "\t%u\t%u\t%u\t%" PRIu64
	       "\t%u\t%d\t%" PRIx64 "\n",
	       access->ip, access->is_memory, access->has_address, access->address,
	       access->has_physical_address, access->physical_address, access->latency,
	       access->total_latency, access->size, access->ticks, access->context,
	       access->is_kernel, access->data_src);
}

static void decode_ibs(const char *digits)
{
	uint8_t bytes[256];
	size_t n = strlen(digits) / 2;
	struct hardware_access access;

	for (size_t i = 0; i < n && i < sizeof(bytes); i++)
		sscanf(digits + 2 * i, "%2hhx", &bytes[i]);
	int r = ibs_decode_op(bytes, n, &access);
	if (r < 0)
		printf("error\t%d\n", r);
	else
		print_access(&access);
}

/* Bytes from one offset to another; what is left of the first part precedes the second. */
static size_t decode_spe(const uint8_t *bytes, size_t n, size_t *n_damaged)
{
	/* A copy of exactly the size, so that reading behind it is found. */
	auto_free uint8_t *copy = malloc(n ? n : 1);
	struct spe_cursor cursor = { copy, n, 0, 0 };
	struct hardware_access access;

	memcpy(copy, bytes, n);
	while (spe_decode_next(&cursor, &access))
		print_access(&access);
	*n_damaged += cursor.n_damaged;
	return cursor.at;
}

int main(int argc, char **argv)
{
	auto_free char *bytes = NULL;
	size_t n_bytes, n_damaged = 0;

	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "spe") != 0) {
		for (int i = 2; i < argc; i++) {
			if (strcmp(argv[1], "ibs") == 0)
				decode_ibs(argv[i]);
			else
				print_source(strtoull(argv[i], NULL, 16));
		}
		return 0;
	}
	if (io_read_file(argv[2], 1u << 24, &bytes, &n_bytes) < 0)
		errx(1, "cannot read %s", argv[2]);
	size_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : n_bytes;
	size_t used = decode_spe((const uint8_t *)bytes, first, &n_damaged);
	if (first < n_bytes)
		used += decode_spe((const uint8_t *)bytes + used, n_bytes - used, &n_damaged);
	printf("end\t%zu\t%zu\n", used, n_damaged);
	return 0;
}
