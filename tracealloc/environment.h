#pragma once
/* Our variables, LD_PRELOAD and MEMSIGHT_RECORDING, in the environments of new programs. */
#include <stdbool.h>
#include <stddef.h>

/* Remember MEMSIGHT_RECORDING and our own path as they are when the image starts. Once. */
void ta_environment_start(void);
