/* Looks for the allocator in whatever bytes as in a static program (allocator-entries.h). */
#include <errno.h>

#include "analyze/functions/allocator-entries.h"
#include "common/cleanup.h"
#include "tests/robust/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	auto_allocator_entries struct allocator_entries entries = { 0 };
	char path[FUZZ_PATH_BYTES];
	auto_close __attribute__((unused)) int fd = fuzz_file_open(bytes, n_bytes, path);
	int r = allocator_entries_find(path, &entries);
	FUZZ_REQUIRE(r == 0 || r == -ENOEXEC);
	FUZZ_REQUIRE(r == 0 || entries.n == 0);
	FUZZ_REQUIRE(r < 0 || !entries.lacks_heap || entries.why[0]);
	for (size_t i = 0; i < entries.n; i++) {
		const struct allocator_entry *entry = &entries.items[i];

		FUZZ_REQUIRE(entry->call < TRACE_CALL_COUNT && entry->name[0]);
		FUZZ_REQUIRE(!entry->can_patch == (entry->why_not != NULL));
		FUZZ_REQUIRE(!entry->can_patch || entry->patch.n_code <= PLAN_CODE_BYTES);
		FUZZ_REQUIRE(i == 0 || entries.items[i - 1].address < entry->address);
	}
	return 0;
}
