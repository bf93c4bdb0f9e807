/**
 * The page "Diff": two runs, what each call site has more or less, with the interval of the change,
 * as rows and as a flame graph coloured by change. State: diff.a, diff.b (runs), diff.by,
 * diff.filter, diff.at (the widest frame of the graph).
 */
import { debounced, h, select } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { changeOf, diffTree } from "memsight/diff-tree";
import { createFlameCanvas } from "memsight/flame-canvas";
import { frameName, treeOf } from "memsight/flame-layout";
import { METRICS } from "memsight/flame-metrics";
import { count, plural } from "memsight/format";
import { createGrid } from "memsight/grid";
import { mix } from "memsight/palette";
import { createPane } from "memsight/pane";
import { svg } from "memsight/spark";
import { changeText, valueText } from "memsight/units";

const LIMIT = 2000;
const HELP = "Call sites of two runs, equal by name: file, function and line of each call. The bar is the change, to the right more, to the left less, with its "
	+ "95 % interval where it has one; \"may be 0\" means that the interval holds 0. Bytes and blocks of single runs are exact.";
const FLAME_HELP = "Each box is as wide as before and after together. Orange with + has grown, blue with − has shrunk, grey is as it was; the stronger, the larger "
	+ "the change is against the whole of the box.";
const KINDS = ["bytes", "blocks", "peak", "leaked", "time", "faults"];

/** Modes of programs that have repetitions: [name, number of runs]. */
function groupsOf(runs) {
	const groups = new Map();
	for (const run of runs) {
		const name = `${run.program}.${run.mode}`;
		groups.set(name, (groups.get(name) ?? 0) + 1);
	}
	return [...groups].filter(([, n]) => n > 1);
}

/** Two modes of the first program, where it has two that were repeated; else null. */
export function usualModes(runs) {
	const groups = groupsOf(runs.filter(({ program }) => program === runs[0].program));
	return groups.length > 1 ? groups.slice(0, 2).map(([name]) => name) : null;
}

/** "all repetitions" of a mode, and each run. */
function choicesOf(runs) {
	return [...groupsOf(runs).map(([name, n]) => [name, `${name}: all ${n} runs`]),
		...runs.map((run) => [String(run.id), `${run.id}: ${run.program}.${run.mode}.${run.repetition}`])];
}

/**
 * The innermost function, and where that has no name the callers that have: "(in libx.so) < f at
 * x.c:3 < g".
 */
export function siteText(path) {
	const inner = path.at(-1) ?? "(no call stack)";
	const named = path.slice(0, -1).reverse().filter((step) => !step.startsWith("(in "));
	return inner.startsWith("(in ") ? [inner, ...named.slice(0, 2)].join(" < ") : inner;
}

/** Whether an interval tells the change from 0; exact ones always do. */
function isSure(row) {
	return row.low === null || row.low === undefined || row.low > 0 || row.high < 0;
}

function changeBar(row, most) {
	const width = 120;
	const place = (value) => width / 2 + Math.max(-1, Math.min(1, value / most)) * (width / 2 - 3);
	const whisker = row.low === null || row.low === undefined ? [] : [svg("line", { class: "whisker", x1: place(row.low), x2: place(row.high), y1: 8, y2: 8 })];
	return svg("svg", { class: `change-bar ${row.change > 0 ? "more" : "less"}`, width, height: 16, viewBox: `0 0 ${width} 16`, "aria-hidden": "true" },
		svg("line", { class: "change-zero", x1: width / 2, x2: width / 2, y1: 0, y2: 16 }),
		svg("rect", { x: Math.min(place(0), place(row.change)), y: 3, width: Math.abs(place(row.change) - place(0)), height: 10 }), ...whisker);
}

function rowsGrid(now) {
	const unit = () => now.unit;
	return createGrid({ caption: "Call sites that differ", sort: { key: "change", isDescending: true }, part: 50, columns: [
		{ key: "place", title: "Allocated at", order: (row) => row.function ?? "", cell: (row) => h("details", { class: "path" },
			h("summary", {}, siteText(row.path)),
			h("ol", {}, [...row.path].reverse().map((step) => h("li", {}, step)))) },
		{ key: "change", title: "Change", isNumber: true, order: (row) => Math.abs(row.change), help: "Sorted by its size, whatever its sign",
			cell: (row) => h("div", { class: "share-cell" }, changeBar(row, now.most), h("span", {}, changeText(row.change, unit()))) },
		{ key: "low", title: "95 % interval", isNumber: true, cell: (row) => (row.low === null || row.low === undefined ? "exact"
			: `${changeText(row.low, unit())} to ${changeText(row.high, unit())}${isSure(row) ? "" : " · may be 0"}`) },
		{ key: "before", title: "Before", isNumber: true, cell: (row) => valueText(row.before, unit()) },
		{ key: "after", title: "After", isNumber: true, cell: (row) => valueText(row.after, unit()) },
		{ key: "ratio", title: "Of before", isNumber: true, order: (row) => (row.before ? row.change / row.before : null),
			cell: (row) => (row.before ? `${row.change > 0 ? "+" : row.change < 0 ? "\u2212" : ""}${Math.abs(100 * row.change / row.before).toFixed(1)} %` : "new") },
	] });
}

export function create(root, app) {
	const pane = createPane(root, "Difference of two runs", HELP, () => load(app.state));
	const flame = createPane(root, "Where it changed", FLAME_HELP);
	const now = { answer: null, asked: "", most: 1, tree: null, sides: null };
	const grid = rowsGrid(now);
	const summary = h("p", { class: "diff-summary" });
	const field = h("input", { type: "search", id: "diff-filter", placeholder: "function, file", "aria-label": "Filter call sites",
		oninput: debounced(200, () => app.set({ "diff.filter": field.value || null }, { replace: true })) });
	const canvas = createFlameCanvas({ theme: app.theme, tell, onChoose() {}, onZoom: (node) => app.set({ "diff.at": node || null }),
		colour(node) {
			const change = changeOf(now.sides.before[node], now.sides.after[node]);
			const grey = app.theme().dark ? "#5a656e" : "#c9cfd4";
			return mix(grey, change > 0 ? "#e0701a" : "#2f7fc1", Math.min(1, Math.sqrt(Math.abs(change))));
		} });
	pane.body.append(summary, grid.element);
	flame.body.append(canvas.element);

	function tell(node) {
		const [before, after] = [now.sides.before[node], now.sides.after[node]];
		return [node === 0 ? "all of it" : frameName(now.tree.frame[node]), `before ${valueText(before, now.unit)}, after ${valueText(after, now.unit)}`,
			`${changeText(after - before, now.unit)}${before > 0 ? ` (${(100 * (after - before) / before).toFixed(1)} %)` : ", new"}`].join("\n");
	}

	/*
	 * Two modes of a program that was repeated, else the first two runs that have something; of
	 * an exported file the two that it holds.
	 */
	function usualPair() {
		const recorded = app.runs.filter((run) => run.n_blocks + run.n_samples > 0);
		const modes = app.isStored ? null : usualModes(recorded);
		if (modes)
			return modes;
		const pairs = app.isStored ? app.runs.flatMap((a) => app.runs.map((b) => [a.id, b.id])) : [];
		const held = pairs.find(([a, b]) => a !== b && app.holds("diff", { a, b }));
		return held ?? [recorded[0]?.id ?? app.runs[0]?.id ?? "", recorded[1]?.id ?? app.runs[1]?.id ?? ""];
	}

	/* The two that are chosen, else those. */
	function sidesOf(state) {
		const choices = choicesOf(app.runs);
		const known = (name) => choices.some(([key]) => key === name);
		const [first, second] = usualPair();
		return { choices, a: known(state["diff.a"]) ? state["diff.a"] : String(first), b: known(state["diff.b"]) ? state["diff.b"] : String(second) };
	}

	function showChoices({ choices, a, b }, by) {
		pane.tools.replaceChildren(select("Before", choices, a, (value) => app.set({ "diff.a": value, "diff.at": null })),
			h("button", { type: "button", "aria-label": "Swap before and after", title: "Swap", onclick: () => app.set({ "diff.a": b, "diff.b": a, "diff.at": null }) }, "⇄"),
			select("After", choices, b, (value) => app.set({ "diff.b": value, "diff.at": null })),
			select("By", METRICS.filter(({ id }) => KINDS.includes(id)).map(({ id, title }) => [id, title]), by, (value) => app.set({ "diff.by": value, "diff.at": null })),
			h("label", { class: "choice" }, h("span", {}, "Filter"), field));
	}

	function load(state) {
		const sides = sidesOf(state);
		const by = KINDS.includes(state["diff.by"]) ? state["diff.by"] : "bytes";
		const request = { a: sides.a, b: sides.b, by, limit: LIMIT };
		now.asked = JSON.stringify(request);
		if (app.runs.length < 2) {
			pane.empty("This database holds one run. Give two to one database (memsight analyze -o BOTH.db A.mst B.mst) and view that, or compare two files in the "
				+ "terminal: memsight diff A B.");
			flame.empty("");
			flame.element.hidden = true;
			return;
		}
		showChoices(sides, by);
		flame.empty("");
		pane.show(app.ask("diff", request, pane), (answer) => {
			now.answer = answer;
			now.unit = METRICS.find(({ id }) => id === by).unit;
			now.rows = rowsOf(answer.rows).map((row) => ({ ...row, path: pathOf(row) }));
			now.sides = diffTree(now.rows, now.unit);
			now.tree = treeOf(now.sides);
			draw(app.state);
		});
	}

	/* "sq.old.1" of a run that was asked for by its number */
	function nameOf(side) {
		const run = app.runs.find(({ id }) => String(id) === side);
		return run ? `${run.program}.${run.mode}.${run.repetition}` : side;
	}

	function draw(state) {
		const { answer } = now;
		const wanted = (state["diff.filter"] ?? "").toLowerCase();
		const changed = now.rows.filter((row) => row.change !== 0);
		const rows = changed.filter((row) => !wanted || row.path.some((step) => step.toLowerCase().includes(wanted)));
		now.most = Math.max(...changed.map((row) => Math.max(Math.abs(row.change), Math.abs(row.low ?? 0), Math.abs(row.high ?? 0))), 1e-300);
		if (document.activeElement !== field)
			field.value = state["diff.filter"] ?? "";
		grid.element.hidden = changed.length === 0;
		grid.show(rows);
		summary.textContent = summaryOf(answer, changed, { unit: now.unit, nameOf });
		pane.foot.textContent = changed.length === 0 ? "" : [`${count(rows.length)} of ${plural(changed.length, "call site")} that differ`, now.rows.length < answer.n_all
			? `the ${count(now.rows.length)} biggest changes of ${count(answer.n_all)} sites are here` : ""].filter(Boolean).join(" · ");
		if (now.sides.total === 0)
			flame.empty("Both runs have nothing of that.");
		else if (changed.length === 0)
			flame.empty("Nothing: every call site has as much as before.");
		else
			drawFlame(state);
	}

	function drawFlame(state) {
		const at = Number(state["diff.at"] ?? 0);
		flame.ready();
		canvas.show({ tree: now.tree, zoom: Number.isInteger(at) && at > 0 && at < now.tree.n ? at : 0, matches: null });
		const isWhole = now.rows.length >= (now.answer.n_all ?? 0);
		flame.foot.textContent = [state["diff.at"] ? "Escape, or a click on a box above, goes back out" : "A click makes a box as wide as the picture",
			isWhole ? "all call sites" : `the ${count(now.rows.length)} sites with the biggest changes, not all`].join(" · ");
	}

	return {
		update(state) {
			const sides = sidesOf(state);
			const by = KINDS.includes(state["diff.by"]) ? state["diff.by"] : "bytes";
			if (now.asked !== JSON.stringify({ a: sides.a, b: sides.b, by, limit: LIMIT }))
				load(state);
			else if (now.answer && pane.element.dataset.state === "ready")
				draw(state);
		},
	};
}

/* Outermost first; a text "f < g" as older answers have it is turned around. */
function pathOf(row) {
	if (Array.isArray(row.path))
		return row.path;
	return row.path ? String(row.path).split(" < ").reverse() : [];
}

function summaryOf(answer, changed, { unit, nameOf }) {
	const side = (name, n, total) => `${nameOf(name)}${n > 1 ? ` (mean of ${n} runs)` : ""}: ${valueText(total, unit)}`;
	if (answer.total_before === undefined)
		return `${nameOf(answer.before)} against ${nameOf(answer.after)}`;
	const change = answer.total_after - answer.total_before;
	return `${side(answer.before, answer.n_before, answer.total_before)} → ${side(answer.after, answer.n_after, answer.total_after)}, ${changeText(change, unit)}${
		answer.total_before > 0 ? ` (${(100 * change / answer.total_before).toFixed(1)} %)` : ""}. ${changed.length === 0 ? "No call site differs."
		: `${count(changed.filter(isSure).length)} of ${plural(changed.length, "change")} are surely not 0.`}`;
}
