/*
 * Whose the shares are that could not be resolved, concluded from what the same instructions access
 * in samples that tell, and the end-to-end answer for each owner.
 *
 * Whether a sample resolves an operand depends on where in the code it lands, and so on how long
 * each access takes: slow memory is resolved more rarely, or more often, than fast memory. So what
 * resolved samples tell in proportions is no measure of the rest. They tell who is accessed. Where
 * one owner is all that an instruction accesses, beside the other memory that the sample tells, the
 * rest is likely its too: of n samples none was another's, so with 95 % confidence others have at
 * most 3 / n (the rule of three: Hanley and Lippman-Hand, 1983), times the odds of a sample not to
 * resolve it where they are more than even. Where several are accessed, each may have any part of
 * it.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/database.h"
#include "store/statement.h"
#include "store/totals/totals.h"
#include "store/touch.h"

#define RULE_OF_THREE 3.0
/* Of an instruction: more than instruction-owners.h keeps, for several runs of one stack. */
#define MAX_OWNERS 16u

static bool is_same(const struct owner_name *a, const struct owner_name *b)
{
	return a->kind == b->kind && a->id == b->id;
}

/* ---- Evidence ---- */

/* What samples tell of an instruction, beside something or not. */
struct evidence {
	struct owner_name beside;
	double n; /* samples that tell */
	double n_unresolved;
	double time;
	double others_time;
	bool has_others; /* more owners than are named */
	unsigned n_owners;
	struct {
		struct owner_name owner;
		double time;
	} owners[MAX_OWNERS];
};

static void add_row(struct evidence *evidence, sqlite3_stmt *row)
{
	const struct owner_name owner = { sqlite3_column_int64(row, 3),
					  sqlite3_column_int64(row, 4) };
	double time = sqlite3_column_double(row, 6);

	evidence->n_unresolved = sqlite3_column_double(row, 2);
	evidence->n += sqlite3_column_double(row, 5);
	evidence->time += time;
	if (owner.kind == OWNER_unknown || evidence->n_owners == MAX_OWNERS) {
		evidence->has_others = true;
		evidence->others_time += time;
		return;
	}
	evidence->owners[evidence->n_owners].owner = owner;
	evidence->owners[evidence->n_owners++].time = time;
}

/* The most that others may have of what is not resolved, 0 to 1. */
static double doubt(const struct evidence *evidence)
{
	double odds = evidence->n > 0 ? evidence->n_unresolved / evidence->n : 1;

	return evidence->n > 0 ? fmin(1, RULE_OF_THREE * fmax(odds, 1) / evidence->n) : 1;
}

static bool is_single(const struct evidence *evidence)
{
	return evidence->n_owners == 1 && !evidence->has_others;
}

/* One owner before several, then what is known best. */
static bool is_better(const struct evidence *a, const struct evidence *b)
{
	if (a->n_owners + a->has_others == 0 || b->n_owners + b->has_others == 0)
		return a->n_owners + a->has_others > b->n_owners + b->has_others;
	return is_single(a) != is_single(b) ? is_single(a) : doubt(a) < doubt(b);
}

static bool is_wanted(const struct unresolved_share *share, const struct owner_name *beside)
{
	for (unsigned i = 0; i < UNRESOLVED_BESIDE; i++)
		if (is_same(&share->beside[i], beside))
			return true;
	return beside->kind == 0;
}

static int read_evidence(sqlite3_stmt *row, const struct unresolved_share *share,
			 struct evidence *ret_best)
{
	struct evidence best = { 0 }, current = { 0 };
	int r;

	sqlite3_reset(row);
	statement_integer(row, 2, share->frame);
	while ((r = statement_step(row)) == 1) {
		const struct owner_name beside = { sqlite3_column_int64(row, 0),
						   sqlite3_column_int64(row, 1) };
		if (!is_same(&beside, &current.beside)) {
			best = is_better(&current, &best) ? current : best;
			current = (struct evidence){ .beside = beside };
		}
		if (is_wanted(share, &beside))
			add_row(&current, row);
	}
	*ret_best = is_better(&current, &best) ? current : best;
	return r;
}

/* ---- Conclusions ---- */

/* Give a part of a share: a best guess, of which doubt (0 to 1) may be others'. */
static void give(struct imputed *imputed, const struct unresolved_share *share, double part,
		 double doubt_part)
{
	imputed->n += part * share->n;
	imputed->time += part * share->time;
	imputed->least += part * (1 - doubt_part) * share->time;
	imputed->time_sq += part * part * share->time_sq;
}

/* Twice what it shares samples with, for the square of a sum. */
static double cross_of(const struct unresolved_share *share, const struct owner_name *owner,
		       bool is_kind)
{
	double sum = 0;

	for (unsigned i = 0; i < UNRESOLVED_BESIDE; i++)
		if (share->beside[i].kind == owner->kind &&
		    (is_kind || share->beside[i].id == owner->id))
			sum += 2 * share->cross[i];
	return sum;
}

static double part_of(const struct evidence *evidence, unsigned i)
{
	unsigned n = evidence->n_owners + evidence->has_others;

	return evidence->time > 0 ? evidence->owners[i].time / evidence->time : 1.0 / n;
}

static void give_owners(struct tally *tally, const struct unresolved_share *share,
			const struct evidence *evidence)
{
	bool is_one = is_single(evidence);

	for (unsigned i = 0; i < evidence->n_owners; i++) {
		struct owner_shares *to = tally_shares_of(tally, &evidence->owners[i].owner);
		double part = part_of(evidence, i);
		if (!to)
			continue;
		struct imputed *imputed = &to->imputed[share->of];
		give(imputed, share, part, is_one ? doubt(evidence) : 1);
		imputed->most += (1 - part) * share->time;
		imputed->time_sq += part * cross_of(share, &evidence->owners[i].owner, false);
	}
}

static void give_kinds(struct tally *tally, const struct unresolved_share *share,
		       const struct evidence *evidence)
{
	double parts[TALLY_KINDS] = { 0 };
	unsigned n_kinds = evidence->has_others;

	for (unsigned i = 0; i < evidence->n_owners; i++) {
		uint64_t kind = (uint64_t)evidence->owners[i].owner.kind;
		if (kind >= TALLY_KINDS)
			continue;
		n_kinds += parts[kind] == 0;
		parts[kind] += part_of(evidence, i) + 1e-9; /* named, be it by a fault only */
	}
	for (unsigned kind = 0; kind < TALLY_KINDS; kind++) {
		const struct owner_name name = { .kind = kind };
		struct imputed *imputed = &tally->kinds[kind].imputed[share->of];
		double part = fmin(parts[kind], 1);
		if (part == 0)
			continue;
		give(imputed, share, part, n_kinds == 1 ? doubt(evidence) : 1);
		imputed->most += (1 - part) * share->time;
		imputed->time_sq += part * cross_of(share, &name, true);
	}
}

/* What is given to others is no longer unknown's. */
static void take_unknown(struct tally *tally, const struct unresolved_share *share, double part)
{
	static const struct owner_name unknown = { .kind = OWNER_unknown };
	struct owner_shares *object = tally_shares_of(tally, &unknown);

	if (object)
		object->imputed[share->of].time -= part * share->time;
	tally->kinds[OWNER_unknown].imputed[share->of].time -= part * share->time;
}

static int conclude(struct tally *tally, sqlite3_stmt *row, const struct unresolved_share *share)
{
	struct evidence evidence = { 0 };
	int r = share->frame ? read_evidence(row, share, &evidence) : 0;

	if (r < 0)
		return r;
	if (evidence.n_owners == 0) {
		tally->anybody[share->of] += share->time;
		return 0;
	}
	double others = evidence.time > 0 ? evidence.others_time / evidence.time : 0;
	others = fmin(1, others + doubt(&evidence));
	tally->anybody[share->of] += others * share->time;
	take_unknown(tally, share,
		     1 - (evidence.time > 0 ? evidence.others_time / evidence.time : 0));
	give_owners(tally, share, &evidence);
	give_kinds(tally, share, &evidence);
	return 0;
}

int tally_impute(struct tally *tally, struct db *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = tally_settle(tally);

	if (r == 0)
		r = statement_prepare(
			db_handle(db),
			"SELECT beside_kind, beside_id, n_unresolved, owner_kind, owner_id, n,"
			" time_ns"
			" FROM main.instruction_owner WHERE run_id = ?1 AND frame_id = ?2"
			" ORDER BY beside_kind, beside_id, owner_kind, owner_id",
			&row);
	if (r == 0)
		statement_integer(row, 1, run_id);
	for (size_t i = 0; r == 0 && i < tally->unresolved.n; i++)
		r = conclude(tally, row, &tally->unresolved.items[i]);
	unresolved_finish(&tally->unresolved);
	return r;
}

double tally_unsampled(struct db *db, int64_t run_id)
{
	int64_t ppm =
		db_integer_of(db, 0,
			      "SELECT CAST(1e6 * sum(unsampled_ns) /"
			      " sum(unsampled_ns + weight * scale) AS INTEGER)"
			      " FROM main.source JOIN main.source_ledger ON source_id = source.id"
			      " WHERE source.run_id = ?1 AND unsampled_ns > 0",
			      "i", run_id);

	return (double)ppm / 1e6;
}
