/* A call tree: the outermost calls below, as wide as what was charged to them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "report/callgraph/profile.h"
#include "report/plot/figure.h"
#include "report/plot/plot.h"
#include "report/text/table.h"
#include "store/query-value.h"
#include "store/statement.h"

#define LEAST_WIDTH 0.4 /* points: what is narrower is not drawn */
#define ROW	    1.45 /* height, of the font */
#define ROOT	    0u

struct node {
	uint32_t parent;
	uint32_t function; /* of paths.functions; 0: all of it, or no call stack */
	double value;
	unsigned depth;
	bool is_library; /* and what the program asked for there */
};

struct tree {
	struct paths *paths;
	struct node *nodes; /* parents before their children */
	size_t n;
	size_t n_allocated;
	struct key_map number_of; /* of parent and function: index */
	size_t n_sites;
};

static void finish_tree(struct tree *tree)
{
	paths_close(tree->paths);
	free(tree->nodes);
	key_map_finish(&tree->number_of);
}
#define auto_tree __attribute__((cleanup(finish_tree)))

/* The child of a node, made when it is new; 0: no memory. */
static uint32_t child_of(struct tree *tree, uint32_t parent, const struct path_step *step)
{
	uint64_t number = key_map_get(&tree->number_of, parent, step->function);

	if (number)
		return (uint32_t)number;
	if (grow_one(&tree->nodes, tree->n, &tree->n_allocated) < 0 ||
	    key_map_put(&tree->number_of, parent, step->function, tree->n) < 0)
		return 0;
	tree->nodes[tree->n] = (struct node){
		.parent = parent,
		.function = step->function,
		.depth = tree->nodes[parent].depth + 1,
		.is_library = step->is_library,
	};
	return (uint32_t)tree->n++;
}

static int add_site(struct tree *tree, sqlite3_stmt *row)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	double value = sqlite3_column_double(row, 1);
	size_t n = paths_walk(tree->paths, sqlite3_column_int64(row, 0), steps);
	uint32_t at = ROOT;

	if (value <= 0)
		return 0;
	if (n == 0)
		steps[n++] = (struct path_step){ 0 };
	tree->n_sites++;
	tree->nodes[ROOT].value += value;
	for (size_t i = 0; i < n; i++) {
		at = child_of(tree, at, &steps[i]);
		if (at == 0)
			return -ENOMEM;
		tree->nodes[at].value += value;
	}
	return 0;
}

static int read_tree(struct plot *plot, struct tree *tree)
{
	static const struct paths_options folded = { .fold = PATHS_ASKED };
	const struct plot_request *request = plot->request;
	const struct profile_metric_row *metric =
		profile_metric_row_of(plot->db, request->run_id, request->by);
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(plot->db, metric->sql, request->run_id, -1);
	int r = row ? paths_open(plot->db, &folded, &tree->paths) : -EPROTO;
	int code = SQLITE_DONE;

	r = r ?: grow_one(&tree->nodes, 0, &tree->n_allocated);
	if (r < 0)
		return r;
	tree->nodes[tree->n++] = (struct node){ 0 };
	while (r == 0 && (code = statement_advance(row)) == SQLITE_ROW)
		r = add_site(tree, row);
	return r < 0 ? r : code == SQLITE_DONE ? 0 : -EPROTO;
}

/* ---- Drawing ---- */

struct order {
	uint32_t parent;
	uint32_t node;
	double value;
};

DEFINE_ORDER(compare, struct order, BY(parent) ?: ORDER(b->value, a->value) ?: BY(node));

/* Where each node begins: the biggest of a parent's first. */
static int place_nodes(const struct tree *tree, double *starts)
{
	auto_free struct order *order = calloc(tree->n, sizeof(*order));
	double at = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 1; i < tree->n; i++)
		order[i] =
			(struct order){ tree->nodes[i].parent, (uint32_t)i, tree->nodes[i].value };
	qsort(order + 1, tree->n - 1, sizeof(*order), compare);
	/* Parents have lower numbers than their children: they are placed by then. */
	for (size_t i = 1; i < tree->n; i++) {
		if (i == 1 || order[i].parent != order[i - 1].parent)
			at = starts[order[i].parent];
		starts[order[i].node] = at;
		at += order[i].value;
	}
	return 0;
}

static const char *name_of(const struct tree *tree, size_t i)
{
	return i == ROOT		 ? "all"
	       : tree->nodes[i].function ? tree->paths->functions[tree->nodes[i].function].name
					 : "(no call stack)";
}

static void draw_node(struct plot *plot, const struct tree *tree, size_t i, struct canvas_rect rect)
{
	static const uint32_t colours[] = { PALETTE_LIGHT_BLUE, PALETTE_YELLOW };
	double font = plot->figure.font;
	const struct node *node = &tree->nodes[i];
	char name[160];

	canvas_box(plot->figure.canvas, rect,
		   &(struct canvas_pen){ 0xffffff, FIGURE_LINE, 0,
					 i == ROOT ? PALETTE_LIGHT : colours[node->is_library] });
	figure_cut(name, sizeof(name), name_of(tree, i), rect.width - 0.6 * font, 0.85 * font);
	if (*name)
		figure_text(&plot->figure,
			    &(struct figure_text){ rect.x + 0.3 * font,
						   rect.y + rect.height - 0.42 * font, CANVAS_START,
						   0.85, PALETTE_BLACK },
			    name);
}

/* Returns how many calls were too narrow, or too far in. */
static size_t draw_nodes(struct plot *plot, const struct tree *tree, const double *starts,
			 struct canvas_rect rect)
{
	double height = ROW * plot->figure.font, scale = rect.width / tree->nodes[ROOT].value;
	size_t n_left_out = 0;

	for (size_t i = 0; i < tree->n; i++) {
		const struct node *node = &tree->nodes[i];
		double bottom = (node->depth + 1) * height;
		if (node->value * scale < LEAST_WIDTH || bottom > rect.height + 0.01) {
			n_left_out++;
			continue;
		}
		draw_node(plot, tree, i,
			  (struct canvas_rect){ rect.x + starts[i] * scale,
						rect.y + rect.height - bottom, node->value * scale,
						height });
	}
	return n_left_out;
}

static unsigned depth_of(const struct tree *tree)
{
	unsigned depth = 0;

	for (size_t i = 0; i < tree->n; i++)
		depth = tree->nodes[i].depth > depth ? tree->nodes[i].depth : depth;
	return depth + 1;
}

static int make_notes(struct plot *plot, const struct tree *tree, char **ret_notes)
{
	const struct profile_metric_row *metric =
		profile_metric_row_of(plot->db, plot->request->run_id, plot->request->by);
	auto_free char *title = profile_title(plot->db, plot->request->run_id, metric->title);

	if (asprintf(ret_notes,
		     "width: %s, %s in all, of %zu call sites; callers below; yellow: what the"
		     " program asked a library for\n",
		     title ? title : metric->title,
		     table_value_text(tree->nodes[ROOT].value, metric->kind).text,
		     tree->n_sites) < 0) {
		*ret_notes = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int draw(struct plot *plot, const struct tree *tree)
{
	auto_free double *starts = calloc(tree->n, sizeof(*starts));
	auto_free char *notes = NULL;
	int r = starts ? make_notes(plot, tree, &notes) : -ENOMEM;

	r = r ?: place_nodes(tree, starts);
	if (r < 0)
		return r;
	plot_frame(plot, notes);
	struct canvas_rect rect = plot->figure.body;
	double wanted = depth_of(tree) * ROW * plot->figure.font;
	if (wanted < rect.height) {
		rect.y += rect.height - wanted;
		rect.height = wanted;
	}
	r = figure_check(&plot->figure, plot->figure.body);
	if (r == 0)
		draw_nodes(plot, tree, starts, rect);
	return r;
}

int plot_flame(struct plot *plot)
{
	auto_tree struct tree tree = { 0 };
	int r = read_tree(plot, &tree);

	if (r < 0)
		return r;
	return tree.nodes[ROOT].value > 0 ? draw(plot, &tree) : -ENOENT;
}
