/**
 * A call tree as a flame graph: which frame lies where. Nothing here draws or knows the page, so
 * that tests can ask it alone.
 *
 * @typedef {Object} Tree  node 0 is the root, "all"; the nodes of an answer follow in its order
 * @property {number} n
 * @property {Int32Array} parent    -1: the root
 * @property {Int32Array} depth     0: the root
 * @property {Float64Array} value   with everything below
 * @property {Float64Array} self    without
 * @property {Float64Array} samples       samples that value is from, where it is sampled time
 * @property {Float64Array} start   where it begins, in the unit of value; a parent's children lie
 *                                  side by side
 * @property {?{ all: Object, self: Object }[]} ends   what ranges are told by (rangeOf() of
 *                                  memsight/units), where some site has one only
 * @property {number[][]} children  the widest first
 * @property {Object[]} frame       {function, module, file, line} of each node
 * @property {number} levels        rows of the graph
 */

const ROOT = { function: "all", module: "", file: "", line: 0 };

/** What a frame is called: its function, or where it lies if nobody knows that. */
export function frameName(frame) {
	const { function: name, module } = frame;
	return name || (module ? `[${module.split("/").pop()}]` : "[unknown]");
}

function childrenOf(parent, value, names) {
	const children = Array.from(parent, () => []);
	for (let i = 1; i < parent.length; i++)
		children[parent[i]].push(i);
	const byName = (a, b) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b);
	for (const list of children)
		list.sort((a, b) => value[b] - value[a] || byName(a, b));
	return children;
}

const ENDS = ["told", "n_told", "low", "high", "n_sites", "n_unknown"];

/** The sum of two nodes' ends; null is none. */
function addEnds(a, b) {
	return a && b ? Object.fromEntries(ENDS.map((name) => [name, a[name] + b[name]])) : a ?? b;
}

function endsOf(columns, prefix, i) {
	return Object.fromEntries(ENDS.map((name) => [name, columns[prefix + name][i]]));
}

/* Parents before their children, whatever the order of the nodes. */
function place(tree) {
	const waiting = [0];
	while (waiting.length) {
		const node = waiting.pop();
		let start = tree.start[node];
		for (const child of tree.children[node]) {
			tree.start[child] = start;
			tree.depth[child] = tree.depth[node] + 1;
			tree.levels = Math.max(tree.levels, tree.depth[child] + 1);
			start += tree.value[child];
			waiting.push(child);
		}
	}
}

/** @param {Object} answer of the request "flame" @returns {Tree} */
export function treeOf(answer) {
	const { n, columns } = answer.nodes;
	const names = answer.names.columns;
	const frames = Array.from({ length: answer.names.n }, (_, i) => ({
		function: names.function[i] ?? "", module: names.module[i] ?? "",
		file: names.file[i] ?? "", line: names.line[i] ?? 0,
	}));
	const frameAt = (i) => frames[i] ?? { ...ROOT, function: "" };
	const endsAt = (_, i) => ({
		all: endsOf(columns, "", i), self: endsOf(columns, "self_", i) });
	const tree = {
		n: n + 1, levels: 1,
		parent: Int32Array.from([-1, ...columns.parent.map((parent) => parent + 1)]),
		depth: new Int32Array(n + 1),
		value: Float64Array.from([answer.total, ...columns.value]),
		self: Float64Array.from([0, ...columns.self]),
		samples: Float64Array.from([0, ...(columns.n ?? columns.value.map(() => 0))]),
		start: new Float64Array(n + 1),
		frame: [ROOT, ...columns.function.map(frameAt)],
		number: Int32Array.from([-1, ...columns.function]),
		site: [null, ...(columns.site ?? [])],
		children: [],
		ends: columns.n_unknown
			? [{ all: null, self: null }, ...columns.n_unknown.map(endsAt)] : null,
	};
	tree.children = childrenOf(tree.parent, tree.value, tree.frame.map(frameName));
	const [below] = tree.children;
	tree.samples[0] = below.reduce((sum, child) => sum + tree.samples[child], 0);
	if (tree.ends)
		tree.ends[0].all = below.map((child) => tree.ends[child].all).reduce(addEnds, null);
	place(tree);
	return tree;
}

/** From the root to a node, both included. */
export function pathOf(tree, node) {
	const path = [];
	for (let at = node; at >= 0; at = tree.parent[at])
		path.unshift(at);
	return path;
}

/* What a frame is found by in another tree. */
function stepOf({ frame }, node) {
	return `${frameName(frame[node])}:${frame[node].line}`;
}

/**
 * What finds a node again in another tree of the same program: the frames from the outermost in.
 */
export function stepsOf(tree, node) {
	return pathOf(tree, node).slice(1).map((i) => stepOf(tree, i));
}

/** The node of such steps, or the last one on the way that is there. */
export function findSteps(tree, steps) {
	let node = 0;
	for (const step of steps) {
		const next = tree.children[node].find((child) => stepOf(tree, child) === step);
		if (next === undefined)
			break;
		node = next;
	}
	return node;
}

/**
 * The rectangles to draw when `zoom` is as wide as the picture: its callers above it all the way,
 * and below it what is at least `least` pixels wide.
 *
 * @returns {{ node: number, x: number, width: number, level: number }[]} in pixels, level in rows
 */
export function rectanglesOf(tree, zoom, width, least = 0.5) {
	const { start, value, depth } = tree;
	const callers = pathOf(tree, zoom).slice(0, -1);
	const found = callers.map((node) => ({ node, x: 0, width, level: depth[node] }));
	const scale = value[zoom] > 0 ? width / value[zoom] : 0;
	const waiting = [zoom];
	while (waiting.length) {
		const node = waiting.pop();
		const wide = node === zoom ? width : value[node] * scale;
		if (wide < least)
			continue;
		const x = (start[node] - start[zoom]) * scale;
		found.push({ node, x, width: wide, level: depth[node] });
		waiting.push(...tree.children[node]);
	}
	return found;
}

/** The node at x of `width` pixels and a row, or -1. */
export function nodeAt(tree, zoom, width, x, level) {
	const path = pathOf(tree, zoom);
	if (level < path.length)
		return path[level] ?? -1;
	const at = tree.start[zoom] + x / width * tree.value[zoom];
	const holds = (node) =>
		at >= tree.start[node] && at < tree.start[node] + tree.value[node];
	let node = zoom;
	while (tree.depth[node] < level) {
		node = tree.children[node].find(holds) ?? -1;
		if (node < 0)
			return -1;
	}
	return node;
}

/** Lower-case text that a search looks through. */
function textOf(frame) {
	const { module, file, line } = frame;
	return `${frameName(frame)} ${module} ${file}${line ? ":" + line : ""}`.toLowerCase();
}

/**
 * What a search finds below `zoom`: the nodes, and their sum. What lies inside a match is not added
 * again, so the share is of paths on which anything matches, and never above 1.
 *
 * @returns {{ matches: Set<number>, value: number, samples: number, ends: ?Object,
 *   share: number }} share: of zoom's value
 */
export function search(tree, text, zoom = 0) {
	const wanted = text.trim().toLowerCase();
	const matches = new Set();
	let value = 0;
	let samples = 0;
	let ends = null;
	const waiting = wanted ? [[zoom, false]] : [];
	while (waiting.length) {
		const [node, isInside] = waiting.pop();
		const isMatch = node > 0 && textOf(tree.frame[node]).includes(wanted);
		if (isMatch)
			matches.add(node);
		if (isMatch && !isInside) {
			value += tree.value[node];
			samples += tree.samples[node];
			ends = addEnds(ends, tree.ends?.[node].all);
		}
		for (const child of tree.children[node])
			waiting.push([child, isInside || isMatch]);
	}
	const share = tree.value[zoom] > 0 ? value / tree.value[zoom] : 0;
	return { matches, value, samples, ends, share };
}

/* What a node has for itself; samples of it in proportion, as its children's are known. */
function ownOf(tree, node, isInverse) {
	const { value, self, samples, children } = tree;
	const ends = tree.ends?.[node];
	if (isInverse)
		return tree.depth[node] === 1
			? { value: value[node], samples: samples[node], ends: ends?.all }
			: { value: 0, samples: 0 };
	const left = children[node].reduce((rest, child) => rest - samples[child], samples[node]);
	return { value: self[node], ends: ends?.self, samples: Math.max(0, left) };
}

function emptyRow(frame, node) {
	return { frame, self: 0, total: 0, selfSamples: 0, samples: 0, selfEnds: null, ends: null,
		node };
}

/**
 * The functions below `zoom`, by their own value: a function counts once on each path, however
 * often it stands there. Of an inverse tree, whose first row are the innermost functions, the own
 * value is that of this row.
 *
 * @returns {{ frame: Object, self: number, total: number, selfEnds: ?Object, ends: ?Object,
 *   node: number }[]} node: the widest one
 */
export function functionsOf(tree, zoom = 0, isInverse = false) {
	const found = new Map();
	const open = new Map();
	const walk = [[zoom, true]];
	while (walk.length) {
		const [node, isEntered] = walk.pop();
		const key = tree.number[node];
		if (!isEntered) {
			open.set(key, open.get(key) - 1);
			continue;
		}
		if (node > 0) {
			const row = found.get(key) ?? emptyRow(tree.frame[node], node);
			const own = ownOf(tree, node, isInverse);
			row.self += own.value;
			row.selfSamples += own.samples;
			row.selfEnds = addEnds(row.selfEnds, own.ends);
			if (!open.get(key)) {
				row.total += tree.value[node];
				row.samples += tree.samples[node];
				row.ends = addEnds(row.ends, tree.ends?.[node].all);
			}
			row.node = tree.value[node] > tree.value[row.node] ? node : row.node;
			found.set(key, row);
			open.set(key, (open.get(key) ?? 0) + 1);
			walk.push([node, false]);
		}
		for (const child of tree.children[node])
			walk.push([child, true]);
	}
	return [...found.values()].sort((a, b) => b.self - a.self || b.total - a.total);
}

/** The frame that an arrow key leads to from `node`. */
export function neighbour(tree, node, key) {
	if (key === "ArrowUp")
		return Math.max(tree.parent[node], 0);
	if (key === "ArrowDown")
		return tree.children[node][0] ?? node;
	if (node === 0)
		return 0;
	const row = tree.children[tree.parent[node]];
	const next = row[row.indexOf(node) + (key === "ArrowRight" ? 1 : -1)];
	return next ?? node;
}
