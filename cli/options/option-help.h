#pragma once
#include <stdio.h>

#include "cli/options/option.h"

/*
 * Print --help of a command (COMMAND_GLOBAL: of memsight, with the list of commands), with lines
 * of at most n_columns characters where words permit.
 */
void option_print_help(enum command_id command, unsigned n_columns, FILE *file);
