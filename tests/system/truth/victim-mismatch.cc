// Blocks that another family gives back than made them: 3 by new and free, 2 by new[] and delete, 1
// by malloc and delete[]; and 20 that are as they should be.
#include <cstdlib>
#include <new>

int main()
{
	void *volatile block;

	for (int i = 0; i < 3; i++) {
		block = operator new(8001);
		free(block);
	}
	for (int i = 0; i < 2; i++) {
		block = operator new[](8002);
		operator delete(block);
	}
	block = malloc(8003);
	operator delete[](block);
	for (int i = 0; i < 10; i++) {
		block = operator new(8004);
		operator delete(block, std::size_t(8004));
		block = operator new[](8004, std::align_val_t(64));
		operator delete[](block, std::align_val_t(64));
	}
	return 0;
}
