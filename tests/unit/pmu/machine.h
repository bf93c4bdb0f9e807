#pragma once
/*
 * Machines that are not here: folders as sysfs has them, with the contents that the kernel's
 * sources give, and processors by their numbers.
 */
#include "pmu/host.h"

struct machine_file {
	const char *path; /* below devices; NULL ends the list */
	const char *content;
};

struct machine {
	const char *name;
	enum pmu_vendor vendor;
	unsigned family, model;
	const char *library_pmu; /* NULL: libpfm4 has no name for it */
	const struct machine_file *files;
};

/* "skx" "spr" "adl" "zen3" "zen4" "zen5" "neoverse" "power9" "vm-intel" "vm-amd" "nothing" */
const struct machine *machine_find(const char *name);

/* Build its folder in a new one of the temporary ones. Asserts that it can. */
void machine_make(const struct machine *machine, struct pmu_host *ret_host);

/* Remove the folder. */
void machine_remove(const struct pmu_host *host);
