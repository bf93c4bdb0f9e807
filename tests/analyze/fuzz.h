#pragma once
/* What fuzz-replay.c runs without a fuzzer, and libFuzzer with one. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);
