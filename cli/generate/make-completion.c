/*
 * Runs at build time: prints the completion of a shell (bash, zsh or fish), made from
 * schemas/commands.def and schemas/options.def.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/generate/completion.h"

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = {
		{ "bash", completion_bash },
		{ "zsh", completion_zsh },
		{ "fish", completion_fish },
	};

	for (size_t i = 0; argc == 2 && i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(argv[1], shells[i].name) == 0) {
			shells[i].print();
			return EXIT_SUCCESS;
		}
	}
	fputs("usage: make-completion bash|zsh|fish\n", stderr);
	return EXIT_FAILURE;
}
