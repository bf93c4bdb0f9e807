#include "analyze/live/pages/owners.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

bool span_is_next(const struct span *span, const struct span *before)
{
	int64_t length = (before->end_ns - before->begin_ns) / before->n_intervals;

	if (length < span->end_ns - span->begin_ns)
		length = span->end_ns - span->begin_ns;
	return span->begin_ns - before->end_ns <= length;
}

void span_extend(struct span *span, const struct span *before)
{
	span->begin_ns = before->begin_ns;
	span->n_intervals += before->n_intervals;
}

/* ---- Owners ---- */

/* A walk over blocks. */
struct walk {
	const struct memory *memory;
	take_owner take;
	void *user;
};

static int visit_block(void *context, const struct heap_block *block)
{
	const struct walk *walk = context;
	const struct tally *tally = walk->memory->tally;

	if (block->site >= tally->n_sites)
		return -EBADMSG;
	return walk->take(walk->user,
			  &(struct page_owner){
				  .address = block->address,
				  .size = block->size,
				  .stack_id = tally->sites[block->site].stack_id,
				  .site = block->site,
				  .meant = { walk->memory->first_allocation + (int64_t)block->id,
					     false, block->allocated_ns },
			  });
}

static int visit_mappings(const struct walk *walk, const struct mappings *mappings)
{
	const struct mapping *mapping = mappings_next(mappings, 0);
	int r = 0;

	while (r == 0 && mapping) {
		uint64_t end = mapping_end(mapping);

		if (mapping->call && mapping->thread && !mapping->is_nested)
			r = walk->take(walk->user, &(struct page_owner){
							   .address = mapping->address,
							   .size = end - mapping->address,
							   .stack_id = mapping->stack_id,
							   .meant = { walk->memory->first_mapping +
									      (int64_t)mapping->id,
								      true, mapping->allocated_ns },
						   });
		mapping = end > mapping->address ? mappings_next(mappings, end) : NULL;
	}
	return r;
}

int page_owners_walk(struct memory *memory, struct memory_image *image, bool is_mapping,
		     take_owner take, void *user)
{
	struct walk walk = { memory, take, user };

	return is_mapping ? visit_mappings(&walk, &image->mappings)
			  : live_blocks_walk(&image->blocks, 0, visit_block, &walk);
}

/* ---- Sites ---- */

void page_sites_finish(struct page_sites *sites)
{
	free(sites->sites);
	free(sites->of_block);
	*sites = (struct page_sites){ 0 };
}

static ssize_t new_site(struct page_sites *sites, int64_t stack_id, bool is_mapping,
			const struct span *span)
{
	if (grow_one(&sites->sites, sites->n, &sites->n_allocated) < 0)
		return -ENOMEM;
	sites->sites[sites->n] = (struct page_site){
		.stack_id = stack_id,
		.is_mapping = is_mapping,
		.span = *span,
	};
	return (ssize_t)sites->n++;
}

ssize_t page_sites_of_block(struct page_sites *sites, uint32_t number, int64_t stack_id,
			    const struct span *span)
{
	if (grow_array_to(&sites->of_block, number, &sites->n_of_block, sizeof(*sites->of_block)) <
	    0)
		return -ENOMEM;
	if (sites->of_block[number])
		return (ssize_t)sites->of_block[number] - 1;
	ssize_t site = new_site(sites, stack_id, false, span);
	sites->of_block[number] = site < 0 ? 0 : (size_t)site + 1;
	return site;
}

ssize_t page_sites_of_mapping(struct page_sites *sites, int64_t stack_id, const struct span *span)
{
	for (size_t i = sites->n; i-- > 0 && sites->sites[i].is_mapping;)
		if (sites->sites[i].stack_id == stack_id)
			return (ssize_t)i;
	return new_site(sites, stack_id, true, span);
}

ssize_t page_sites_of(struct page_sites *sites, const struct page_owner *owner,
		      const struct span *span)
{
	return owner->meant.is_mapping
		       ? page_sites_of_mapping(sites, owner->stack_id, span)
		       : page_sites_of_block(sites, owner->site, owner->stack_id, span);
}

uint64_t page_site_count(struct page_site *site, uint64_t first, uint64_t end)
{
	if (first < site->next_page)
		first = site->next_page;
	if (first >= end)
		return 0;
	site->next_page = end;
	return end - first;
}

DEFINE_ORDER(compare_sites, struct page_site, BY(is_mapping) ?: BY(stack_id));

void page_sites_sort(struct page_sites *sites)
{
	free(sites->of_block);
	sites->of_block = NULL;
	sites->n_of_block = 0;
	if (sites->n > 0)
		qsort(sites->sites, sites->n, sizeof(*sites->sites), compare_sites);
}

static bool is_alike(const struct page_site *site, const struct page_site *before)
{
	return compare_sites(site, before) == 0 && site->size == before->size &&
	       site->known == before->known && site->least == before->least &&
	       site->most == before->most && site->nodes == before->nodes && !site->has_ended &&
	       !before->has_ended && span_is_next(&site->span, &before->span);
}

static int write_site(struct rows *rows, const int64_t ids[2], const struct page_site *site,
		      bool of_touches)
{
	union rows_cell *row = rows_add(rows);

	if (!row)
		return rows_error(rows);
	row[0].integer = ids[0];
	row[1].integer = ids[1];
	row[2].text = site->is_mapping ? "mapping" : "heap";
	row[3].integer = site->stack_id;
	row[4].integer = site->span.begin_ns;
	row[5].integer = site->span.end_ns;
	row[6].integer = site->span.n_intervals;
	row[7].integer = (int64_t)site->size;
	row[8].integer = (int64_t)site->known;
	row[9].integer = (int64_t)site->least;
	row[10].integer = (int64_t)site->most;
	if (of_touches) {
		row[11].integer = site->has_ended;
		row[12].text = site->nodes;
	}
	return 0;
}

int page_sites_replace(struct page_sites *held, struct page_sites *sites, struct rows *rows,
		       const int64_t ids[2], bool of_touches)
{
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < held->n && r == 0; i++) {
		const struct page_site *before = &held->sites[i];

		while (at < sites->n && compare_sites(&sites->sites[at], before) < 0)
			at++;
		if (at < sites->n && is_alike(&sites->sites[at], before))
			span_extend(&sites->sites[at].span, &before->span);
		else
			r = write_site(rows, ids, before, of_touches);
	}
	page_sites_finish(held);
	*held = *sites;
	*sites = (struct page_sites){ 0 };
	return r;
}
