/* expect: nothing; it has no malloc, and no start-up code, either. */
#include <unistd.h>

void _start(void);

void _start(void)
{
	_exit(0);
}
