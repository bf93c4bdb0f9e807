/**
 * The sites of a diff as a call tree whose frames know what they were before and after. A frame is
 * as wide as both together, so that what is new and what is gone can be seen, and widths add up.
 * Nothing here draws.
 */

/* "function at file:line" as a frame of memsight/flame-layout. */
function frameOf(text) {
	const found = /^(.*?)(?: at (.+?)(?::(\d+))?)?$/.exec(text);
	const [, name, file = "", line = 0] = found;
	return { function: name, module: "", file, line: Number(line) };
}

/*
 * A function is one frame however many of its lines call, as in other flame graphs; the table of
 * sites has the lines.
 */
function functionOf(text) {
	return text.replace(/( at .+?):\d+$/, "$1");
}

/**
 * @param {Object[]} rows  { path: [texts, outermost first], before, after }
 * @returns {Object} an answer as of the request "flame", and beside each node: before, after
 */
export function diffTree(rows, unit) {
	const names = new Map();
	const nodes = [];
	const places = new Map(); // "parent name": node
	const total = { before: 0, after: 0 };

	function nodeOf(parent, text) {
		const key = `${parent} ${text}`;
		if (!places.has(key)) {
			if (!names.has(text))
				names.set(text, names.size);
			const place = {
				parent, function: names.get(text), site: null,
				value: 0, self: 0, before: 0, after: 0,
			};
			places.set(key, nodes.push(place) - 1);
		}
		return places.get(key);
	}

	for (const { path, before, after } of rows) {
		let at = -1;
		for (const text of path.length ? path : ["(no call stack)"]) {
			at = nodeOf(at, functionOf(text));
			nodes[at].before += before;
			nodes[at].after += after;
			nodes[at].value += before + after;
		}
		nodes[at].self += before + after;
		total.before += before;
		total.after += after;
	}
	const frames = [...names.keys()].map(frameOf);
	const columnsOf = (rows, keys) => ({ n: rows.length, columns: Object.fromEntries(
		keys.map((key) => [key, rows.map((row) => row[key])])) });
	return {
		unit, total: total.before + total.after, n_samples: null,
		nodes: columnsOf(nodes, ["parent", "function", "value", "self", "site"]),
		names: columnsOf(frames, ["function", "module", "file", "line"]),
		before: [total.before, ...nodes.map(({ before }) => before)],
		after: [total.after, ...nodes.map(({ after }) => after)],
	};
}

/** From -1 (gone) over 0 (as before) to 1 (new). */
export function changeOf(before, after) {
	return before + after > 0 ? (after - before) / (after + before) : 0;
}
