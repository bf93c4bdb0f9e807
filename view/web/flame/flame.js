/**
 * The page "Flame graph": a call tree by bytes, time, accesses ..., from the outermost function in,
 * or inversely from the innermost out. State: flame.by, flame.inverse, flame.at (the frame that is
 * as wide as the picture), flame.search, and the selected time.
 */
import { debounced, h, select } from "memsight/dom";
import { createFlameCanvas } from "memsight/flame-canvas";
import { findSteps, frameName, functionsOf, pathOf, search, stepsOf, treeOf } from "memsight/flame-layout";
import { METRICS, pickMetric } from "memsight/flame-metrics";
import { count, place, share } from "memsight/format";
import { createGrid } from "memsight/grid";
import { categorical } from "memsight/palette";
import { createPane } from "memsight/pane";
import { placeButton } from "memsight/source-text";
import { rangeOf, shareText, valueText } from "memsight/units";

const HELP = "Each box is a function; it stands below the one that called it and is as wide as its part of the whole. The order from "
	+ "left to right is by width and means nothing else. A click makes a box as wide as the picture. Colours show the file "
	+ "(program or library) that the function lies in. \"Innermost first\" turns the tree around: below each function stand those that called it.";
const N_COLOURS = 6;

/*
 * The files that most of the tree's own value lies in have colours of their own, all others one.
 * `given` keeps what each got first: it is the same in both directions, and by each metric.
 */
function coloursOf(tree, isInverse, given) {
	const sums = new Map();
	for (let i = 1; i < tree.n; i++)
		sums.set(tree.frame[i].module, (sums.get(tree.frame[i].module) ?? 0) + (isInverse ? (tree.depth[i] === 1 ? tree.value[i] : 0) : tree.self[i]));
	const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a) || (a < b ? -1 : 1)).slice(0, N_COLOURS);
	for (const name of names)
		given.set(name, given.get(name) ?? given.size);
	return { names, of: (module) => (names.includes(module) ? given.get(module) : -1) };
}

export function create(root, app) {
	const pane = createPane(root, "Flame graph", HELP, () => load(app.state));
	const now = { tree: null, answer: null, zoom: 0, colours: null, asked: "", given: new Map() };
	const canvas = createFlameCanvas({
		theme: app.theme, tell, onChoose: showFrame,
		colour(node) {
			const i = now.colours.of(now.tree.frame[node].module);
			return i < 0 ? "#8a939b" : categorical(i, app.theme().dark);
		},
		onZoom: (node) => app.set({ "flame.at": node || null }),
	});
	const choices = h("div", { class: "tools-row" });
	const missing = h("details", { class: "missing" });
	const crumbs = h("nav", { class: "crumbs", "aria-label": "Callers of the widest frame" });
	const found = h("output", { class: "found", "aria-live": "polite" });
	const field = h("input", { type: "search", id: "flame-search", placeholder: "function, file or library", "aria-label": "Search frames",
		oninput: debounced(250, () => app.set({ "flame.search": field.value || null }, { replace: true })) });
	const legend = h("div", { class: "flame-legend" });
	const detail = h("div", { class: "frame-detail" });
	const functions = functionsGrid(now, shareOf, atLeast, (node) => app.set({ "flame.at": node || null }));
	pane.tools.append(choices);
	pane.body.append(h("div", { class: "tools-row" }, h("label", { class: "choice" }, h("span", {}, "Search"), field), found, crumbs),
		canvas.element, legend, detail,
		h("details", { class: "as-table", id: "flame-table" }, h("summary", {}, "Functions as a table"), functions.element));

	const unit = () => now.metric.unit;

	/*
	 * Of all that was counted; of time, of all samples that were taken, as in the reports: a
	 * range where samples leave it open.
	 */
	function shareOf(value, samples, ends) {
		const { total, n_samples: n, clock_ns: clockNs } = now.answer;
		const range = rangeOf(ends, clockNs, n);
		if (range)
			return share(null, ...range);
		return n === null ? shareText(value / (total || 1)) : shareText(samples / (n || 1), n);
	}

	/* Where some sites are known as a range only, a sum has what surely is theirs. */
	function atLeast(value, ends) {
		return `${ends?.n_unknown ? "at least " : ""}${valueText(value, unit())}`;
	}

	function tell(node) {
		const { tree, answer, zoom } = now;
		const isSampled = answer.n_samples !== null;
		const lines = [node === 0 ? "all of it" : place(tree.frame[node]),
			`${atLeast(tree.value[node], tree.ends?.[node].all)}, ${shareOf(tree.value[node], tree.samples[node], tree.ends?.[node].all)} of ${isSampled ? "all samples" : "all"}`];
		if (!tree.ends && (zoom > 0 || isSampled) && node !== 0 && !(zoom > 0 && pathOf(tree, zoom).includes(node)))
			lines.push(`${partText(node)} of ${zoom > 0 ? frameName(tree.frame[zoom]) : "this graph"}`);
		if (tree.self[node] > 0)
			lines.push(`${atLeast(tree.self[node], tree.ends?.[node].self)} ${now.isInverse ? "of paths that begin here" : "right in it"}`);
		return lines.join("\n");
	}

	/* Of what is as wide as the picture. */
	function partText(node) {
		const { tree, zoom } = now;
		return now.answer.n_samples === null ? shareText(tree.value[node] / tree.value[zoom]) : shareText(tree.samples[node] / tree.samples[zoom], tree.samples[zoom]);
	}

	function showFrame(node) {
		const frame = now.tree.frame[node];
		if (node === 0) {
			detail.replaceChildren();
			return;
		}
		const site = now.tree.site[node];
		detail.replaceChildren(h("div", {}, h("h3", {}, frameName(frame)), h("p", {}, frame.module ? h("span", { class: "mono" }, frame.module) : null),
			h("p", {}, tell(node).split("\n").slice(1).join(" · ")),
			frame.file && frame.line ? h("div", {}, "Source: ", placeButton(app, frame)) : null,
			h("div", { class: "tools-row" }, h("button", { type: "button", onclick() {
				field.value = frameName(frame);
				app.set({ "flame.search": field.value });
			} }, "Search for this function"),
			site ? h("a", { class: "button", href: app.link({ page: "object", site, block: null }) }, "Open the object") : null)));
	}

	function whyNot(metric) {
		return metric.missing(app.run) ?? (app.holds("flame", { run: app.runId, by: metric.id }) ? null : "this exported file does not hold it");
	}

	function showChoices(metric) {
		const there = METRICS.map((one) => ({ ...one, why: whyNot(one) }));
		const picker = select("By", there.map(({ id, title }) => [id, title]), metric.id, (by) => setTree({ "flame.by": by }));
		there.forEach(({ why }, i) => {
			const option = picker.querySelector("select").options[i];
			option.disabled = why !== null;
			option.title = why ?? "";
		});
		picker.querySelector("select").id = "flame-by";
		const inverse = app.state["flame.inverse"] === "1";
		choices.replaceChildren(picker, h("div", { class: "switch", role: "group", "aria-label": "Direction" },
			[["Outermost first", false], ["Innermost first", true]].map(([text, value]) => h("button", { type: "button",
				"aria-pressed": String(inverse === value), onclick: () => setTree({ "flame.inverse": value ? 1 : null }) }, text))), missing);
		const absent = there.filter(({ why }) => why);
		missing.hidden = absent.length === 0;
		missing.replaceChildren(h("summary", {}, `${absent.length} not there`), h("ul", {}, absent.map(({ title, why }) => h("li", {}, `${title}: ${why}`))));
	}

	/* Another tree: stay at the same frame where it has it. */
	function setTree(changes) {
		now.steps = now.tree && now.zoom ? stepsOf(now.tree, now.zoom) : null;
		app.set({ ...changes, "flame.at": null });
	}

	function requestOf(state, metric) {
		const { from, to, isAll } = app.span();
		return { run: app.runId, by: metric.id, inverse: state["flame.inverse"] === "1" ? 1 : 0,
			...(isAll ? {} : { from: Math.round(from), to: Math.round(to) }) };
	}

	function load(state) {
		const metric = pickMetric(whyNot, state["flame.by"]);
		now.asked = "";
		if (!metric) {
			pane.empty("This run has neither allocations nor samples, so there is no call tree to draw. The page \"Run\" shows what was "
				+ "recorded and what could not be.");
			return;
		}
		const request = requestOf(state, metric);
		now.asked = JSON.stringify(request);
		showChoices(metric);
		pane.show(app.ask("flame", request, pane), (answer) => {
			take(answer, metric, request.inverse === 1);
			redraw(app.state);
		});
	}

	function take(answer, metric, isInverse) {
		now.answer = answer;
		now.metric = metric;
		now.isInverse = isInverse;
		now.tree = treeOf(answer);
		now.colours = coloursOf(now.tree, isInverse, now.given);
		now.zoom = 0;
		detail.replaceChildren();
		if (now.steps && !app.state["flame.at"]) {
			const node = findSteps(now.tree, now.steps);
			now.steps = null;
			if (node)
				app.set({ "flame.at": node }, { replace: true });
		}
	}

	function redraw(state) {
		const { tree, answer } = now;
		const at = Number(state["flame.at"] ?? 0);
		const zoom = Number.isInteger(at) && at > 0 && at < tree.n ? at : 0;
		now.zoom = zoom;
		const hits = search(tree, state["flame.search"] ?? "", zoom);
		const isSearching = Boolean((state["flame.search"] ?? "").trim());
		if (!(answer.total > 0))
			pane.empty(`${app.span().isAll ? "In this run" : "In the selected time"} there is none of that (${answer.unit}).`);
		canvas.show({ tree, zoom, matches: isSearching ? hits.matches : null });
		if (document.activeElement !== field)
			field.value = state["flame.search"] ?? "";
		found.textContent = isSearching ? `${hits.matches.size ? "" : "no match, "}${count(hits.matches.size)} frames, ${
			atLeast(hits.value, hits.ends)}, ${foundShare(hits, zoom)}` : "";
		found.dataset.share = isSearching ? hits.share : "";
		crumbs.replaceChildren(...crumbsOf(tree, zoom));
		legend.replaceChildren(...legendOf(app));
		functions.show();
		pane.foot.textContent = footOf();
	}

	function foundShare(hits, zoom) {
		const { tree, answer } = now;
		if (answer.n_samples === null)
			return `${shareText(hits.share)}${zoom ? " of what is shown" : ""}`;
		return zoom && !tree.ends ? `${shareText(hits.samples / (tree.samples[zoom] || 1), tree.samples[zoom])} of what is shown` : `${shareOf(hits.value, hits.samples, hits.ends)} of all samples`;
	}

	function crumbsOf(tree, zoom) {
		const path = pathOf(tree, zoom);
		const shown = path.length > 7 ? [...path.slice(0, 2), -1, ...path.slice(-4)] : path;
		return zoom === 0 ? [] : shown.map((node) => (node < 0 ? h("span", {}, "… ") : h("button", { type: "button",
			"aria-current": node === zoom ? "true" : null, onclick: () => app.set({ "flame.at": node || null }) },
		node === 0 ? "all" : frameName(tree.frame[node]))));
	}

	function legendOf() {
		const { names } = now.colours;
		return [...names.map((name) => [name ? name.split("/").pop() : "not known", categorical(now.colours.of(name), app.theme().dark)]),
			["other files", "#8a939b"]].map(([name, colour]) => {
			const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
			swatch.style.background = colour;
			return h("span", { class: "flame-key" }, swatch, name);
		});
	}

	function footOf() {
		const { answer } = now;
		const { from, to, isAll } = app.span();
		const n = answer.n_samples;
		return [`${answer.unit}: ${atLeast(answer.total, now.tree.ends?.[0].all)} in all`,
			n === null ? "counted exactly" : `${shareOf(answer.total, now.tree.samples[0], now.tree.ends?.[0].all)} of n = ${count(n)} samples; ± is the 95 % interval`,
			now.tree.ends ? "two numbers: anywhere between them" : "",
			isAll ? "whole run" : app.isStored ? "whole run: an exported file cannot count a part of the time anew"
				: `of the selected time ${app.format.interval(from, to)}`,
			answer.n_left_out ? `${count(answer.n_left_out)} of the smallest frames are not drawn` : ""].filter(Boolean).join(" · ");
	}

	return {
		update(state) {
			const metric = pickMetric(whyNot, state["flame.by"]);
			if (!metric || now.asked !== JSON.stringify(requestOf(state, metric)))
				load(state);
			else if (now.tree && pane.element.dataset.state !== "busy")
				redraw(state);
		},
	};
}

/* The accessible reading: what functions have for themselves and with what they called. */
function functionsGrid(now, shareOf, atLeast, onZoom) {
	const grid = createGrid({
		caption: "Functions; a function counts once on each path, however often it stands there",
		sort: { key: "self", isDescending: true }, part: 30,
		columns: [
			{ key: "name", title: "Function", order: (row) => frameName(row.frame), cell: (row) => h("button", { type: "button", class: "link",
				onclick: () => onZoom(row.node) }, frameName(row.frame)) },
			{ key: "place", title: "Place", order: (row) => row.frame.file, cell: ({ frame }) => (frame.file
				? `${frame.file.split("/").pop()}:${frame.line}` : frame.module.split("/").pop() || "-") },
			{ key: "self", title: "Right in it", isNumber: true, cell: (row) => `${atLeast(row.self, row.selfEnds)} (${shareOf(row.self, row.selfSamples, row.selfEnds)})` },
			{ key: "total", title: "With what it calls", isNumber: true, cell: (row) => `${atLeast(row.total, row.ends)} (${shareOf(row.total, row.samples, row.ends)})` },
		],
	});
	return { element: grid.element, show: () => grid.show(functionsOf(now.tree, now.isInverse ? 0 : now.zoom, now.isInverse)) };
}
