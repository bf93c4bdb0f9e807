/* Trees of talloc: as many bytes as it says itself are alive. Prints them, and is killed. */
#include <signal.h>
#include <stdio.h>
#include <talloc.h>

static TALLOC_CTX *make_tree(TALLOC_CTX *root, int n)
{
	TALLOC_CTX *tree = talloc_named_const(root, 24, "tree");

	for (int i = 0; i < n; i++) {
		char *block = talloc_size(tree, 100 + (size_t)i % 50);

		if (i % 3 == 0)
			talloc_free(block);
		else if (i % 3 == 1)
			block = talloc_realloc(tree, block, char, 200 + (unsigned)i % 10);
		if (i % 3 == 1)
			talloc_memdup(block, "below it", 9);
	}
	return tree;
}

int main(void)
{
	TALLOC_CTX *root = talloc_named_const(NULL, 0, "root"), *kept, *shared, *gone;

	for (int i = 0; i < 10; i++)
		talloc_free(make_tree(root, 100));
	kept = make_tree(root, 300);
	shared = make_tree(kept, 50);
	gone = make_tree(root, 30);
	talloc_reference(gone, shared);
	talloc_unlink(kept, shared); /* it lives by its other parent */
	talloc_steal(root, talloc_zero_array(gone, int, 33));
	talloc_free_children(make_tree(root, 20));
	printf("%zu\n", talloc_total_size(root));
	fflush(stdout);
	raise(SIGKILL);
}
