/* Stands in for symbols-target-cpp.cc where there is no C++ compiler. */
#include <stdint.h>

uint64_t target_cpp(void);
uint64_t target_cpp_total(void);

uint64_t target_cpp(void)
{
	return 0;
}

uint64_t target_cpp_total(void)
{
	return 0;
}
