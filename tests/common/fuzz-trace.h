#pragma once
#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry: one input. Returns 0; crashes on a bug. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);
