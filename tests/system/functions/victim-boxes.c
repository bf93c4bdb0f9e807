/* Boxes and texts of GLib that count references. Prints how many are left. */
#include <glib.h>
#include <stdio.h>

static void nothing(gpointer box)
{
	(void)box;
}

int main(void)
{
	char text[] = "a text of 21 letters.";

	for (int i = 0; i < 200; i++) {
		char *box = i % 2 ? g_rc_box_alloc(1000) : g_rc_box_alloc0(1000);
		char *copy = g_atomic_rc_box_dup(1000, box);
		char *string = g_ref_string_new(text);

		g_rc_box_acquire(box);
		g_rc_box_release(box);
		g_atomic_rc_box_acquire(copy);
		g_atomic_rc_box_release_full(copy, nothing);
		g_ref_string_acquire(string);
		g_ref_string_release(string);
		if (i < 150) {
			g_rc_box_release_full(box, nothing);
			g_atomic_rc_box_release(copy);
			g_ref_string_release(string);
		}
	}
	printf("%d\n", 3 * 50);
	return 0;
}
