// Functions with the names and arguments of PartitionAlloc's (partition_root.h, August 2026), which
// is not packaged, over a heap of its own: each hands out blocks of a chunk. Prints how many live,
// and is killed.
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace partition_alloc
{
namespace internal
{
enum class AllocFlags { kNone = 0, kZeroFill = 2 };
enum class FreeFlags { kNone = 0, kSchedulerLoopQuarantine = 2 };
} // namespace internal
using internal::AllocFlags;
using internal::FreeFlags;

struct PartitionRoot {
	static constexpr size_t n_slots = 4096, slot_bytes = 512;
	size_t n_live = 0, n_used = 0;
	char slots[n_slots][slot_bytes];

	template <AllocFlags flags = AllocFlags::kNone>
	[[gnu::noinline]] void *Alloc(size_t requested_size, const char *type_name = nullptr)
	{
		(void)type_name;
		if (requested_size > slot_bytes || n_used == n_slots)
			return nullptr;
		n_live++;
		return flags == AllocFlags::kZeroFill ? memset(slots[n_used++], 0, slot_bytes)
						      : slots[n_used++];
	}

	template <AllocFlags flags = AllocFlags::kNone>
	[[gnu::noinline]] void *AlignedAlloc(size_t alignment, size_t requested_size)
	{
		return alignment <= 16 ? Alloc<flags>(requested_size) : nullptr;
	}

	template <AllocFlags alloc_flags = AllocFlags::kNone, FreeFlags = FreeFlags::kNone>
	[[gnu::noinline]] void *Realloc(void *old, size_t new_size, const char *type_name)
	{
		if (new_size > slot_bytes / 2)
			return old; // in its place
		void *block = Alloc<alloc_flags>(new_size, type_name);
		FreeInline(old);
		return block;
	}

	template <FreeFlags flags = FreeFlags::kNone>
	[[gnu::noinline]] void FreeInline(void *object)
	{
		n_live -= object != nullptr;
	}

	template <FreeFlags flags = FreeFlags::kNone>
	[[gnu::noinline]] void AlignedFree(void *object)
	{
		FreeInline<flags>(object);
	}

	template <FreeFlags flags = FreeFlags::kNone>
	[[gnu::noinline]] static void FreeInUnknownRoot(void *object);
};
} // namespace partition_alloc

using namespace partition_alloc;
static PartitionRoot first, second;

template <FreeFlags flags> void PartitionRoot::FreeInUnknownRoot(void *object)
{
	bool is_first = object >= first.slots && object < first.slots + n_slots;

	(is_first ? first : second).FreeInline<flags>(object);
}

int main()
{
	for (int i = 0; i < 3000; i++) {
		void *block = first.Alloc(16 << i % 5, "t");

		if (i % 4 == 1)
			block = first.Realloc<>(block, i % 8 == 1 ? 100 : 500, "t");
		if (i % 3 == 2)
			first.FreeInline<FreeFlags::kSchedulerLoopQuarantine>(block);
		else if (i % 5 == 4)
			PartitionRoot::FreeInUnknownRoot<>(block);
		block = second.AlignedAlloc<AllocFlags::kZeroFill>(16, 300);
		if (i % 2)
			second.AlignedFree<>(block);
	}
	printf("%zu\n", first.n_live + second.n_live);
	fflush(stdout);
	raise(SIGKILL);
}
