#pragma once
#include "cli/options/option.h"
#include "runner/run-options.h"

/* What options of `record` ask for, as the runner takes it. Strings stay those of the set. */
struct run_options record_options_of(const struct option_set *options);
