#pragma once
/*
 * The blocks of a call site and the samples that touched them, found in stored pictures, whose
 * columns are read a hundred times faster than rows: for sites of few blocks among many, since rows
 * have no index by site.
 */
#include <stdint.h>

struct view_question;

#define OBJECT_LIST_MAX                                                                            \
	200000 /* blocks, or samples: of more the rows themselves are read as fast */

/*
 * Put them into the temporary tables its_block(id) and its_sample(id) of question->db; with a span
 * of time at least those that may lie in it. Returns 1; 0: there are too many, or no pictures that
 * tell; or a negative errno.
 */
int object_list_make(struct view_question *question, int64_t site);
