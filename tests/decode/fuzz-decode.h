#pragma once
#include <stddef.h>
#include <stdint.h>

/* Decode one input of any bytes; aborts when an invariant of decode.h does not hold. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);
