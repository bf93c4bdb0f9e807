/*
 * Reads whatever bytes as a program's notes of static probes and of calls of memsight.h, and as its
 * rules of unwinding.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/functions/functions.h"
#include "common/cleanup.h"
#include "runner/agent/api-sites.h"
#include "runner/agent/unwind-table.h"
#include "tests/robust/fuzz/fuzz.h"

static void look_for_calls(const char *path, const uint8_t *bytes, size_t n_bytes)
{
	auto_free struct api_site *sites = NULL;
	uint8_t code[API_SITE_BYTES] = { 0 };
	size_t n = 0;

	FUZZ_REQUIRE(api_sites_read(path, &sites, &n) == 0);
	for (size_t i = 0; i < n; i++)
		FUZZ_REQUIRE(strnlen(sites[i].name, sizeof(sites[i].name)) < sizeof(sites[i].name));
	memcpy(code, bytes, n_bytes < sizeof(code) ? n_bytes : sizeof(code));
	if (api_site_change(code, 0x400000, 0x500000) == 0)
		FUZZ_REQUIRE((code[0] & ~4) == 0x48 && code[1] == 0x8d && (code[2] & 0xc7) == 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	auto_found_functions struct found_functions found = { 0 };
	auto_free uint8_t *table = NULL;
	char path[FUZZ_PATH_BYTES];
	auto_close __attribute__((unused)) int fd = fuzz_file_open(bytes, n_bytes, path);
	size_t n_table = 0;
	int r = functions_find(&(struct functions_wish){ .probes = true }, path, &found);

	FUZZ_REQUIRE(r == 0 || r == -ENOEXEC);
	FUZZ_REQUIRE(found.n == found.n_probes);
	look_for_calls(path, bytes, n_bytes);
	r = unwind_table_make(path, 0, 0x400000, &table, &n_table);
	FUZZ_REQUIRE(r == 0 || r == -ERANGE);
	FUZZ_REQUIRE(!table == (n_table == 0));
	return 0;
}
