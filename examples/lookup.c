/*
 * For docs/tutorial/better.md: the same look-ups in a sorted list of small blocks (`list`) and in
 * one sorted array (`array`). Which is better, and by how much, is to be measured.
 *
 * usage: lookup list|array
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_KEYS	  2000u
#define N_LOOKUPS 100000u

struct node {
	struct node *next;
	unsigned key;
};

static struct node *make_list(void)
{
	struct node *first = NULL;

	for (unsigned key = N_KEYS; key > 0; key--) {
		struct node *node = malloc(sizeof(*node));
		if (!node)
			abort();
		*node = (struct node){ first, 2 * key };
		first = node;
	}
	return first;
}

static unsigned *make_array(void)
{
	unsigned *keys = malloc(N_KEYS * sizeof(*keys));

	if (!keys)
		abort();
	for (unsigned i = 0; i < N_KEYS; i++)
		keys[i] = 2 * (i + 1);
	return keys;
}

static int is_in_list(const struct node *node, unsigned key)
{
	while (node && node->key < key)
		node = node->next;
	return node && node->key == key;
}

static int compare(const void *a, const void *b)
{
	unsigned left = *(const unsigned *)a, right = *(const unsigned *)b;

	return left < right ? -1 : left > right;
}

int main(int argc, char **argv)
{
	int uses_array = argc > 1 && strcmp(argv[1], "array") == 0;
	struct node *list = uses_array ? NULL : make_list();
	unsigned *array = uses_array ? make_array() : NULL;
	unsigned random = 1, n_found = 0;

	for (unsigned i = 0; i < N_LOOKUPS; i++) {
		random = random * 1664525u + 1013904223u;
		unsigned key = (random >> 8) % (2 * N_KEYS);
		if (uses_array)
			n_found += bsearch(&key, array, N_KEYS, sizeof(*array), compare) != NULL;
		else
			n_found += is_in_list(list, key);
	}
	printf("%u of %u found\n", n_found, N_LOOKUPS);
	while (list) {
		struct node *next = list->next;
		free(list);
		list = next;
	}
	free(array);
	return EXIT_SUCCESS;
}
