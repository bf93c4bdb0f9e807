#include "cli/version.h"

#include <elfutils/libdwfl.h>
#include <sqlite3.h>
#include <Zydis/Zydis.h>
#include <zstd.h>

#include "cli/cmd.h"

int version_print(FILE *file)
{
	ZyanU64 zydis = ZydisGetVersion();

	fprintf(file, "memsight %s\n", MEMSIGHT_VERSION);
	fprintf(file, "libzstd %s\n", ZSTD_versionString());
	fprintf(file, "sqlite %s\n", sqlite3_libversion());
	fprintf(file, "zydis %u.%u.%u\n", (unsigned)ZYDIS_VERSION_MAJOR(zydis),
		(unsigned)ZYDIS_VERSION_MINOR(zydis), (unsigned)ZYDIS_VERSION_PATCH(zydis));
	fprintf(file, "elfutils %s\n", dwfl_version(NULL));
	return CMD_DONE;
}
