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
import { count, isKnown, plural } from "memsight/format";
import { createGrid, numberColumn } from "memsight/grid";
import { mix } from "memsight/palette";
import { createPane } from "memsight/pane";
import { drawing, svgLine, svgRect } from "memsight/spark";
import { changeText, valueText } from "memsight/units";

const LIMIT = 2000;
const HELP = "Call sites of two runs, equal by name: file, function and line of each call. "
	+ "The bar is the change, to the right more, to the left less, with its 95 % interval "
	+ "where it has one; \"may be 0\" means that the interval holds 0. Bytes and blocks of "
	+ "single runs are exact.";
const FLAME_HELP = "Each box is as wide as before and after together. Orange with + has grown, "
	+ "blue with − has shrunk, grey is as it was; the stronger, the larger the change is "
	+ "against the whole of the box.";
const ONE_RUN = "This database holds one run. Give two to one database (memsight analyze "
	+ "-o BOTH.db A.mst B.mst) and view that, or compare two files in the terminal: "
	+ "memsight diff A B.";
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

function runName({ program, mode, repetition }) {
	return `${program}.${mode}.${repetition}`;
}

/** "all repetitions" of a mode, and each run. */
function choicesOf(runs) {
	return [...groupsOf(runs).map(([name, n]) => [name, `${name}: all ${n} runs`]),
		...runs.map((run) => [String(run.id), `${run.id}: ${runName(run)}`])];
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
	return !isKnown(row.low) || row.low > 0 || row.high < 0;
}

function changeBar(row, most) {
	const width = 120;
	const half = width / 2;
	const place = (value) => half + Math.max(-1, Math.min(1, value / most)) * (half - 3);
	const [from, to] = [place(0), place(row.change)];
	const whisker = isKnown(row.low)
		? [svgLine("whisker", [place(row.low), 8], [place(row.high), 8])] : [];
	const kind = `change-bar ${row.change > 0 ? "more" : "less"}`;
	return drawing({ class: kind, "aria-hidden": "true" }, width, 16,
		svgLine("change-zero", [half, 0], [half, 16]),
		svgRect(null, [Math.min(from, to), 3], Math.abs(to - from), 10), ...whisker);
}

function intervalText(row, unit) {
	if (!isKnown(row.low))
		return "exact";
	const ends = `${changeText(row.low, unit)} to ${changeText(row.high, unit)}`;
	return isSure(row) ? ends : `${ends} · may be 0`;
}

function ratioText({ change, before }) {
	if (!before)
		return "new";
	const sign = change > 0 ? "+" : change < 0 ? "\u2212" : "";
	return `${sign}${Math.abs(100 * change / before).toFixed(1)} %`;
}

function rowsGrid(now) {
	const unit = () => now.unit;
	const place = (row) => h("details", { class: "path" },
		h("summary", {}, siteText(row.path)),
		h("ol", {}, [...row.path].reverse().map((step) => h("li", {}, step))));
	const change = (row) => h("div", { class: "share-cell" },
		changeBar(row, now.most), h("span", {}, changeText(row.change, unit())));
	const sort = { key: "change", isDescending: true };
	return createGrid({ caption: "Call sites that differ", sort, part: 50, columns: [
		{ key: "place", title: "Allocated at",
			order: (row) => row.function ?? "", cell: place },
		numberColumn("change", "Change", change, {
			order: (row) => Math.abs(row.change),
			help: "Sorted by its size, whatever its sign" }),
		numberColumn("low", "95 % interval", (row) => intervalText(row, unit())),
		numberColumn("before", "Before", (row) => valueText(row.before, unit())),
		numberColumn("after", "After", (row) => valueText(row.after, unit())),
		numberColumn("ratio", "Of before", ratioText, {
			order: (row) => (row.before ? row.change / row.before : null) }),
	] });
}

export function create(root, app) {
	const pane = createPane(root, "Difference of two runs", HELP, () => load(app.state));
	const flame = createPane(root, "Where it changed", FLAME_HELP);
	const now = { answer: null, asked: "", most: 1, tree: null, sides: null };
	const grid = rowsGrid(now);
	const summary = h("p", { class: "diff-summary" });
	const search = debounced(200, () =>
		app.set({ "diff.filter": field.value || null }, { replace: true }));
	const field = h("input", {
		type: "search", id: "diff-filter", placeholder: "function, file",
		"aria-label": "Filter call sites", oninput: search });
	const canvas = createFlameCanvas({
		theme: app.theme, tell, onChoose() {},
		onZoom: (node) => app.set({ "diff.at": node || null }),
		colour(node) {
			const change = changeOf(now.sides.before[node], now.sides.after[node]);
			const grey = app.theme().dark ? "#5a656e" : "#c9cfd4";
			const strength = Math.min(1, Math.sqrt(Math.abs(change)));
			return mix(grey, change > 0 ? "#e0701a" : "#2f7fc1", strength);
		},
	});
	pane.body.append(summary, grid.element);
	flame.body.append(canvas.element);

	function tell(node) {
		const [before, after] = [now.sides.before[node], now.sides.after[node]];
		const change = after - before;
		const text = (value) => valueText(value, now.unit);
		return [
			node === 0 ? "all of it" : frameName(now.tree.frame[node]),
			`before ${text(before)}, after ${text(after)}`,
			changeText(change, now.unit) + (percentText(change, before) || ", new"),
		].join("\n");
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
		const numbers = app.isStored ? app.runs.map(({ id }) => id) : [];
		const pairs = numbers.flatMap((a) => numbers.map((b) => [a, b]));
		const held = pairs.find(([a, b]) => a !== b && app.holds("diff", { a, b }));
		return held ?? [0, 1].map((i) => recorded[i]?.id ?? app.runs[i]?.id ?? "");
	}

	/* The two that are chosen, else those. */
	function sidesOf(state) {
		const choices = choicesOf(app.runs);
		const isKept = (name) => choices.some(([key]) => key === name);
		const [a, b] = [state["diff.a"], state["diff.b"]];
		const [first, second] = usualPair();
		const side = (wanted, usual) => (isKept(wanted) ? wanted : String(usual));
		return { choices, a: side(a, first), b: side(b, second) };
	}

	function showChoices({ choices, a, b }, by) {
		const set = (changes) => app.set({ ...changes, "diff.at": null });
		const kinds = METRICS.filter(({ id }) => KINDS.includes(id));
		const swap = {
			type: "button", "aria-label": "Swap before and after", title: "Swap",
			onclick: () => set({ "diff.a": b, "diff.b": a }) };
		pane.tools.replaceChildren(
			select("Before", choices, a, (value) => set({ "diff.a": value })),
			h("button", swap, "⇄"),
			select("After", choices, b, (value) => set({ "diff.b": value })),
			select("By", kinds.map(({ id, title }) => [id, title]), by,
				(value) => set({ "diff.by": value })),
			h("label", { class: "choice" }, h("span", {}, "Filter"), field));
	}

	function requestOf(state, { a, b }) {
		const by = KINDS.includes(state["diff.by"]) ? state["diff.by"] : "bytes";
		return { a, b, by, limit: LIMIT };
	}

	function load(state) {
		const sides = sidesOf(state);
		const request = requestOf(state, sides);
		const { by } = request;
		now.asked = JSON.stringify(request);
		if (app.runs.length < 2) {
			pane.empty(ONE_RUN);
			flame.empty("");
			flame.element.hidden = true;
			return;
		}
		showChoices(sides, by);
		flame.empty("");
		pane.show(app.ask("diff", request, pane), (answer) => {
			now.answer = answer;
			now.unit = METRICS.find(({ id }) => id === by).unit;
			now.rows = rowsOf(answer.rows)
				.map((row) => ({ ...row, path: pathOf(row) }));
			now.sides = diffTree(now.rows, now.unit);
			now.tree = treeOf(now.sides);
			draw(app.state);
		});
	}

	/* "sq.old.1" of a run that was asked for by its number */
	function nameOf(side) {
		const run = app.runs.find(({ id }) => String(id) === side);
		return run ? runName(run) : side;
	}

	function draw(state) {
		const { answer } = now;
		const wanted = (state["diff.filter"] ?? "").toLowerCase();
		const holds = (step) => step.toLowerCase().includes(wanted);
		const changed = now.rows.filter((row) => row.change !== 0);
		const rows = changed.filter((row) => !wanted || row.path.some(holds));
		const ends = changed.flatMap(({ change, low, high }) => [
			change, low ?? 0, high ?? 0]);
		now.most = Math.max(...ends.map(Math.abs), 1e-300);
		if (document.activeElement !== field)
			field.value = state["diff.filter"] ?? "";
		grid.element.hidden = changed.length === 0;
		grid.show(rows);
		summary.textContent = summaryOf(answer, changed, { unit: now.unit, nameOf });
		pane.foot.textContent = footText(rows.length, changed.length);
		if (now.sides.total === 0)
			flame.empty("Both runs have nothing of that.");
		else if (changed.length === 0)
			flame.empty("Nothing: every call site has as much as before.");
		else
			drawFlame(state);
	}

	function footText(n, nChanged) {
		const [nHere, nAll] = [now.rows.length, now.answer.n_all];
		if (nChanged === 0)
			return "";
		const shown = `${count(n)} of ${plural(nChanged, "call site")} that differ`;
		return nHere < nAll ? `${shown} · the ${count(nHere)} biggest changes of `
			+ `${count(nAll)} sites are here` : shown;
	}
	function drawFlame(state) {
		const at = Number(state["diff.at"] ?? 0);
		flame.ready();
		const zoom = Number.isInteger(at) && at > 0 && at < now.tree.n ? at : 0;
		canvas.show({ tree: now.tree, zoom, matches: null });
		const n = now.rows.length;
		const isWhole = n >= (now.answer.n_all ?? 0);
		flame.foot.textContent = [
			state["diff.at"] ? "Escape, or a click on a box above, goes back out"
				: "A click makes a box as wide as the picture",
			isWhole ? "all call sites"
				: `the ${count(n)} sites with the biggest changes, not all`,
		].join(" · ");
	}

	return {
		update(state) {
			const request = requestOf(state, sidesOf(state));
			if (now.asked !== JSON.stringify(request))
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

/* " (12.3 %)" of what was before, if there was something. */
function percentText(change, before) {
	return before > 0 ? ` (${(100 * change / before).toFixed(1)} %)` : "";
}

function summaryOf(answer, changed, { unit, nameOf }) {
	const { total_before: before, total_after: after } = answer;
	if (before === undefined)
		return `${nameOf(answer.before)} against ${nameOf(answer.after)}`;
	const side = (name, n, total) => {
		const mean = n > 1 ? ` (mean of ${n} runs)` : "";
		return `${nameOf(name)}${mean}: ${valueText(total, unit)}`;
	};
	const first = side(answer.before, answer.n_before, before);
	const second = side(answer.after, answer.n_after, after);
	const change = changeText(after - before, unit) + percentText(after - before, before);
	const nSure = changed.filter(isSure).length;
	const sites = changed.length === 0 ? "No call site differs."
		: `${count(nSure)} of ${plural(changed.length, "change")} are surely not 0.`;
	return `${first} → ${second}, ${change}. ${sites}`;
}
