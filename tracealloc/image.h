#pragma once
/* Attaching an image to its recording: after exec, and as a forked child. */
#include <stdint.h>

/*
 * Attach this image: by the socket after exec, by claiming a slot after fork. Leaves the state
 * word on or off. For the thread that won the state word from TA_ASK to TA_BUSY; async-signal
 * safe, no errno, at most RECORDING_PATIENCE_MS.
 */
void ta_image_attach(void);

/*
 * Wait while another thread attaches, bounded in time: a signal handler may have jumped out of
 * it. Returns the state then; TA_OFF when it took too long. Keeps errno.
 */
uint32_t ta_image_wait(void);

/*
 * Attach an image that runs already, to ta_told.socket, and leave its state word off. 0 or a
 * negative errno. For the thread that was made to call us; nothing else of us runs.
 */
int ta_image_attach_late(void);
