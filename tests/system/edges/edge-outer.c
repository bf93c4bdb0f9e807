/* A library that brings another one along: that one was not opened itself. */
void *deep_exchange(void *block, int n);
void *outer_exchange(void *block, int n);

void *outer_exchange(void *block, int n)
{
	return deep_exchange(block, n);
}
