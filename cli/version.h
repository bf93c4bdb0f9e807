#pragma once
#include <stdio.h>

/* Print the versions of memsight and of the libraries that it runs with. Returns an exit status. */
int version_print(FILE *file);
