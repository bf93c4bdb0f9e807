#pragma once
/*
 * Arrays of small numbers as text. Served: base64 of little-endian numbers. In a file that holds
 * its answers they are shorter: '!' and base64 of runs (PackBits), numbers of two bytes as all low
 * bytes, then all high bytes. A byte c below 128 stands before c + 1 bytes as they are, one above
 * before a byte that comes c - 126 times.
 */
#include <stddef.h>
#include <stdint.h>

#include "view/json.h"

/* Write as a value. is_short: in runs. */
void packed_write_u8(struct json *json, const uint8_t *numbers, size_t n, bool is_short);

/* The same of numbers of two bytes; 65535: that many or more. */
void packed_write_u16(struct json *json, const uint32_t *numbers, size_t n, bool is_short);
