/*
 * Looks at whatever bytes as at a program before it is started: its kind, its interpreter, what it
 * defines.
 */
#include <string.h>

#include "common/cleanup.h"
#include "common/elf-check.h"
#include "schemas/trace-format.h"
#include "tests/robust/fuzz/fuzz.h"

static const uint8_t *file;
static size_t n_file_bytes;

static long read_file(int fd, void *to, size_t n_bytes, uint64_t at)
{
	(void)fd;
	if (at >= n_file_bytes)
		return 0;
	if (n_bytes > n_file_bytes - at)
		n_bytes = n_file_bytes - at;
	memcpy(to, file + at, n_bytes);
	return (long)n_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	auto_free char *list = strndup((const char *)bytes, n_bytes);
	char path[32];

	file = bytes;
	n_file_bytes = n_bytes;
	program_file_why_not(read_file, -1);
	if (program_file_interpreter(read_file, -1, path, sizeof(path)))
		FUZZ_REQUIRE(path[0] && strnlen(path, sizeof(path)) < sizeof(path));
	program_file_defines(read_file, -1, "malloc");
	program_file_defines(read_file, -1, "");
	program_list_has_sanitizer(list);
	return 0;
}
