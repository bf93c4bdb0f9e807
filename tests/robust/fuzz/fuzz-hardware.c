/*
 * Decodes whatever bytes as what processors sample in formats of their own: the first byte says
 * whether as a sample of IBS or as packets of SPE.
 */
#include <string.h>

#include "common/cleanup.h"
#include "decode/hardware/hardware.h"
#include "perf/data-source.h"
#include "tests/robust/fuzz/fuzz.h"

static void require_words(uint64_t word)
{
	struct data_source source;

	data_source_decode(word, &source);
	FUZZ_REQUIRE(strnlen(source.op, sizeof(source.op)) < sizeof(source.op));
	FUZZ_REQUIRE(strnlen(source.level, sizeof(source.level)) < sizeof(source.level));
	FUZZ_REQUIRE(strnlen(source.snoop, sizeof(source.snoop)) < sizeof(source.snoop));
	FUZZ_REQUIRE(strnlen(source.tlb, sizeof(source.tlb)) < sizeof(source.tlb));
}

static void decode_packets(const uint8_t *bytes, size_t n_bytes)
{
	struct spe_cursor cursor = { .bytes = bytes, .n_bytes = n_bytes };
	struct hardware_access access;
	size_t last = 0;

	while (spe_decode_next(&cursor, &access)) {
		FUZZ_REQUIRE(cursor.at > last && cursor.at <= n_bytes);
		last = cursor.at;
		require_words(access.data_src);
	}
	FUZZ_REQUIRE(cursor.at <= n_bytes && cursor.n_damaged <= n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	bool is_ibs = fuzz_take(&bytes, &n_bytes, 1) & 1;
	auto_free uint8_t *copy = malloc(n_bytes + 1); /* its end is watched */
	struct hardware_access access;

	FUZZ_REQUIRE(copy);
	memcpy(copy, bytes, n_bytes);
	if (!is_ibs)
		decode_packets(copy, n_bytes);
	else if (ibs_decode_op(copy, n_bytes, &access) == 0)
		require_words(access.data_src);
	if (n_bytes >= sizeof(uint64_t)) {
		uint64_t word;
		memcpy(&word, copy, sizeof(word));
		require_words(word);
	}
	return 0;
}
