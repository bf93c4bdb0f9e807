#pragma once
/*
 * A variable whose symbol tells its own size: clang's AddressSanitizer counts what it puts behind
 * one in, gcc's does not.
 */
#if defined(__clang__)
#define OWN_SIZE __attribute__((no_sanitize("address")))
#else
#define OWN_SIZE
#endif
