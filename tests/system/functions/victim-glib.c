/* Slices of GLib: blocks of 104 bytes, of which each end is known. Prints how many are left. */
#include <glib.h>
#include <stdio.h>

struct item {
	struct item *next;
	char bytes[96];
};

int main(void)
{
	struct item *items[1000], *first = NULL;
	GList *list = NULL;

	for (int i = 0; i < 1000; i++)
		items[i] = i % 2 ? g_slice_new(struct item) : g_slice_new0(struct item);
	for (int i = 0; i < 400; i++)
		g_slice_free(struct item, items[i]);
	for (int i = 400; i < 700; i++) {
		items[i]->next = first;
		first = items[i];
	}
	g_slice_free_chain(struct item, first, next);
	g_slice_free(struct item, g_slice_dup(struct item, items[999]));
	for (int i = 0; i < 250; i++)
		list = g_list_prepend(list, items[999]);
	g_list_free(list);
	printf("%d\n", 300);
	return 0;
}
