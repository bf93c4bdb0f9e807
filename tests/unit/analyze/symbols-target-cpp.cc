#include <cstdint>

#if defined(__clang__) /* has no noipa */
#define NOIPA __attribute__((noinline))
#else
#define NOIPA __attribute__((noipa))
#endif

namespace bench
{

template <typename T> struct Store {
	static T total;
	NOIPA std::uint64_t insert(const T &, int)
	{
		return reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
	}
	NOIPA std::uint64_t caller(int value)
	{
		std::uint64_t pc = insert(T(), value);
		total = total + T(1);
		return pc;
	}
};

template <typename T> T Store<T>::total;

}

extern "C" std::uint64_t target_cpp(void)
{
	return bench::Store<double>().caller(1);
}

extern "C" std::uint64_t target_cpp_total(void)
{
	return reinterpret_cast<std::uint64_t>(&bench::Store<double>::total);
}
