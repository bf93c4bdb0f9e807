#include "trace/names.h"

#include "common/array.h"
#include "schemas/trace-format.h"

static const char *const why_not_names[] = {
	[TRACE_TRACED] = "traced",
	[TRACE_NOT_STATIC] = "static",
	[TRACE_NOT_SETUID] = "setuid",
	[TRACE_NOT_32BIT] = "32-bit",
	[TRACE_NOT_CHROOT] = "chroot",
	[TRACE_NOT_ENVIRONMENT] = "environment cleaned",
	[TRACE_NOT_FOLLOWED] = "not followed",
	[TRACE_NOT_ATTACHED] = "said no hello",
	[TRACE_NOT_SANITIZER] = "sanitizer",
	[TRACE_NOT_PERF_DATA] = "perf.data",
};
_Static_assert(COUNT_OF(why_not_names) == TRACE_NOT_COUNT, "one for every reason");

const char *trace_why_not_name(unsigned why_not)
{
	if (why_not >= COUNT_OF(why_not_names))
		return "unknown"; /* from a newer writer */
	return why_not_names[why_not];
}

static const char *const call_names[] = {
	[TRACE_CALL_UNKNOWN] = "unknown",
	[TRACE_CALL_MALLOC] = "malloc",
	[TRACE_CALL_CALLOC] = "calloc",
	[TRACE_CALL_REALLOC] = "realloc",
	[TRACE_CALL_REALLOCARRAY] = "reallocarray",
	[TRACE_CALL_FREE] = "free",
	[TRACE_CALL_POSIX_MEMALIGN] = "posix_memalign",
	[TRACE_CALL_MEMALIGN] = "memalign",
	[TRACE_CALL_ALIGNED_ALLOC] = "aligned_alloc",
	[TRACE_CALL_VALLOC] = "valloc",
	[TRACE_CALL_PVALLOC] = "pvalloc",
	[TRACE_CALL_MMAP] = "mmap",
	[TRACE_CALL_MUNMAP] = "munmap",
	[TRACE_CALL_MREMAP] = "mremap",
	[TRACE_CALL_FREE_SIZED] = "free_sized",
	[TRACE_CALL_FREE_ALIGNED_SIZED] = "free_aligned_sized",
	[TRACE_CALL_NEW] = "operator new",
	[TRACE_CALL_NEW_ARRAY] = "operator new[]",
	[TRACE_CALL_NEW_ALIGNED] = "operator new (aligned)",
	[TRACE_CALL_NEW_ARRAY_ALIGNED] = "operator new[] (aligned)",
	[TRACE_CALL_DELETE] = "operator delete",
	[TRACE_CALL_DELETE_ARRAY] = "operator delete[]",
	[TRACE_CALL_BRK] = "brk",
	[TRACE_CALL_SBRK] = "sbrk",
	[TRACE_CALL_SHMAT] = "shmat",
	[TRACE_CALL_SHMDT] = "shmdt",
	[TRACE_CALL_MADVISE] = "madvise",
	[TRACE_CALL_MPROTECT] = "mprotect",
	[TRACE_CALL_MLOCK] = "mlock",
	[TRACE_CALL_MUNLOCK] = "munlock",
	[TRACE_CALL_MLOCKALL] = "mlockall",
	[TRACE_CALL_MUNLOCKALL] = "munlockall",
	[TRACE_CALL_REGION_PUSH] = "region push",
	[TRACE_CALL_REGION_POP] = "region pop",
	[TRACE_CALL_MARK] = "mark",
	[TRACE_CALL_COMPONENT] = "component",
	[TRACE_CALL_COMPONENT_WINDOW] = "component",
	[TRACE_CALL_COMPONENT_SAMPLE] = "component",
	[TRACE_CALL_PLUGIN_LOST] = "plug-in lost",
	[TRACE_CALL_NAME_OBJECT] = "name",
	[TRACE_CALL_COLLECT_PUSH] = "collect push",
	[TRACE_CALL_COLLECT_POP] = "collect pop",
	[TRACE_CALL_BEFORE] = "before the attach",
	[TRACE_CALL_FUNCTION_ENTER] = "function enter",
	[TRACE_CALL_FUNCTION_LEAVE] = "function leave",
	[TRACE_CALL_FUNCTION_THUNK] = "function thunk",
	[TRACE_CALL_BLOCK] = "memsight_block",
	[TRACE_CALL_BLOCK_END] = "memsight_block_end",
	[TRACE_CALL_POOL_RESET] = "memsight_pool_reset",
	[TRACE_CALL_USDT_ALLOC] = "usdt alloc",
	[TRACE_CALL_OWN_TIME] = "own time",
	[TRACE_CALL_USDT_FREE] = "usdt free",
	[TRACE_CALL_REF] = "reference",
	[TRACE_CALL_UNREF] = "reference end",
};
_Static_assert(COUNT_OF(call_names) == TRACE_CALL_COUNT, "one for every call");
_Static_assert(TRACE_CALL_COUNT <= TRACE_CALL_LIMIT, "ring records have 6 bits for it");

const char *trace_call_name(unsigned call)
{
	return call < TRACE_CALL_COUNT ? call_names[call] : "unknown";
}
