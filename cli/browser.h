#pragma once
/*
 * Opens a browser at an address that others on this machine must not see: not as an argument, which
 * anybody can list, but through a file that only this user can read and that leads there.
 */

struct browser;

/*
 * Start xdg-open, in a session of its own, with what it says thrown away. Returns 0 or a negative
 * errno (no xdg-open, no folder for the file).
 */
int browser_open(const char *address, struct browser **ret_browser);

/* Take the file away; the browser stays. Accepts NULL, returns NULL. */
struct browser *browser_forget(struct browser *browser);

static inline void browser_cleanup(struct browser **browser)
{
	*browser = browser_forget(*browser);
}
#define auto_browser __attribute__((cleanup(browser_cleanup)))
