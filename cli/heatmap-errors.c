#include "cli/heatmap-errors.h"

#include <errno.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "store/heatmap/heatmap.h"

int heat_complain(const struct option_set *options, int error)
{
	const char *path = options->operands[0];

	switch (error) {
	case -ENOENT:
		return cmd_fail("%s: there is nothing to draw: the run has totals only, or no "
				"block and no touch has an address",
				path);
	case -ESRCH:
		return cmd_fail("%s: no process of this run has pid %llu; `memsight report %s "
				"--processes' lists them",
				path, (unsigned long long)option_number(options, OPTION_PROCESS),
				path);
	case -ENXIO:
		return cmd_fail("%s: no source of this run is called %s; "
				"`memsight report %s --losses' names them",
				path, option_text(options, OPTION_OF_SOURCE), path);
	case -EADDRNOTAVAIL:
		return cmd_fail("%s: nothing lay at %s in this process", path,
				option_text(options, OPTION_ADDR));
	case -ERANGE:
		return cmd_fail("%s: the run ended before %s", path,
				option_text(options, OPTION_FROM));
	default:
		return CMD_DONE;
	}
}

int cells_read(const struct option_set *options, unsigned ret_cells[2])
{
	const char *text = option_text(options, OPTION_CELLS);
	unsigned width, height;
	char rest;

	if (!text)
		return CMD_DONE;
	if (sscanf(text, "%4u%*1[xX]%4u%c", &width, &height, &rest) != 2 || width < 1 ||
	    height < 1 || width > PICTURE_MAX_CELLS || height > PICTURE_MAX_CELLS)
		return cmd_usage(
			"--cells: '%s' is not COLUMNSxROWS (such as 200x100, at most %ux%u)", text,
			PICTURE_MAX_CELLS, PICTURE_MAX_CELLS);
	ret_cells[0] = width;
	ret_cells[1] = height;
	return CMD_DONE;
}
