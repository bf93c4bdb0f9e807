/**
 * The page "Flame graph": a call tree by bytes, time, accesses ..., from the outermost function in,
 * or inversely from the innermost out. State: flame.by, flame.inverse, flame.at (the frame that is
 * as wide as the picture), flame.search, and the selected time.
 */
import { debounced, h, select } from "memsight/dom";
import { createFlameCanvas } from "memsight/flame-canvas";
import {
	findSteps, frameName, functionsOf, pathOf, search, stepsOf, treeOf,
} from "memsight/flame-layout";
import { METRICS, pickMetric, titleOf } from "memsight/flame-metrics";
import { count, fileName, place, plural, share } from "memsight/format";
import { saver } from "memsight/csv";
import { createGrid, numberColumn } from "memsight/grid";
import { moduleColour } from "memsight/palette";
import { createPane } from "memsight/pane";
import { placeButton, sourceBox } from "memsight/source-text";
import { rangeOf, shareText, valueText } from "memsight/units";

const HELP = "Each box is a function; it stands below the one that called it and is as wide as its "
	+ "part of the whole. The order from left to right is by width and means nothing else. "
	+ "A click makes a box as wide as the picture. Colours show the file (program or library) "
	+ "that the function lies in. \"Bottom-up\" turns the tree around: below each "
	+ "function stand those that called it. Self is what a function has for itself, Total "
	+ "with what it called.";
const NOTHING = "This run has neither allocations nor samples, so there is no call tree to draw. "
	+ "The page \"Run\" shows what was recorded and what could not be.";
const MOST_KEYS = 12;

/* Files of the tree, those with most of its own value first. */
function modulesOf(tree, isInverse) {
	const sums = new Map();
	const own = (i) => (!isInverse ? tree.self[i] : tree.depth[i] === 1 ? tree.value[i] : 0);
	for (let i = 1; i < tree.n; i++) {
		const { module } = tree.frame[i];
		sums.set(module, (sums.get(module) ?? 0) + own(i));
	}
	const bySize = (a, b) => sums.get(b) - sums.get(a) || (a < b ? -1 : 1);
	return [...sums.keys()].sort(bySize);
}

export function create(root, app) {
	const pane = createPane(root, "Flame graph", HELP, () => load(app.state));
	const now = {
		tree: null, answer: null, zoom: 0, modules: [], asked: "",
	};
	const zoomTo = (node) => app.set({ "flame.at": node || null });
	const canvas = createFlameCanvas({
		theme: app.theme, tell, onChoose: showFrame, onZoom: zoomTo,
		colour: (node) => moduleColour(now.tree.frame[node].module, app.theme().dark),
	});
	const choices = h("div", { class: "tools-row" });
	const missing = h("details", { class: "missing" });
	const crumbs = h("nav", { class: "crumbs", "aria-label": "Callers of the widest frame" });
	const found = h("output", { class: "found", "aria-live": "polite" });
	const find = () => app.set({ "flame.search": field.value || null }, { replace: true });
	const field = h("input", {
		type: "search", id: "flame-search", placeholder: "function, file or library",
		"aria-label": "Search frames", oninput: debounced(250, find) });
	const legend = h("div", { class: "flame-legend" });
	const detail = h("div", { class: "frame-detail" });
	const functions = functionsGrid(app, now, { shareOf, atLeast, zoomTo });
	pane.tools.append(choices);
	pane.body.append(
		h("div", { class: "tools-row" },
			h("label", { class: "choice" }, h("span", {}, "Search"), field),
			found, crumbs),
		canvas.element, legend, detail,
		h("details", { class: "as-table", id: "flame-table" },
			h("summary", {}, "Functions as a table"), functions.element));

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
		return n === null ? shareText(value / (total || 1))
			: shareText(samples / (n || 1), n);
	}

	/* Where some sites are known as a range only, a sum has what surely is theirs. */
	function atLeast(value, ends) {
		return `${ends?.n_unknown ? "at least " : ""}${valueText(value, unit())}`;
	}

	function tell(node) {
		const { tree, answer, zoom } = now;
		const isSampled = answer.n_samples !== null;
		const whole = isSampled ? "all samples" : "all";
		const [value, ends] = [tree.value[node], tree.ends?.[node]];
		const part = shareOf(value, tree.samples[node], ends?.all);
		const lines = [node === 0 ? "all of it" : place(tree.frame[node]),
			`${atLeast(value, ends?.all)}, ${part} of ${whole}`];
		const isPart = zoom > 0 ? !pathOf(tree, zoom).includes(node) : isSampled;
		if (!tree.ends && node !== 0 && isPart) {
			const shown = zoom > 0 ? frameName(tree.frame[zoom]) : "this graph";
			lines.push(`${partText(node)} of ${shown}`);
		}
		if (tree.self[node] > 0) {
			const own = now.isInverse ? "of paths that begin here" : "self";
			lines.push(`${atLeast(tree.self[node], ends?.self)} ${own}`);
		}
		return lines.join("\n");
	}

	/* Of what is as wide as the picture. */
	function partText(node) {
		const { tree: { value, samples }, zoom } = now;
		if (now.answer.n_samples === null)
			return shareText(value[node] / value[zoom]);
		return shareText(samples[node] / samples[zoom], samples[zoom]);
	}

	function showFrame(node) {
		const frame = now.tree.frame[node];
		if (node === 0) {
			detail.replaceChildren();
			return;
		}
		const site = now.tree.site[node];
		const searchFor = () => {
			field.value = frameName(frame);
			app.set({ "flame.search": field.value });
		};
		detail.replaceChildren(h("div", {},
			h("h3", {}, frameName(frame)),
			h("p", {}, frame.module && h("span", { class: "mono" }, frame.module)),
			h("p", {}, tell(node).split("\n").slice(1).join(" · ")),
			frame.file && frame.line
				? h("div", {}, "Source: ", placeButton(app, frame)) : null,
			h("div", { class: "tools-row" },
				h("button", { type: "button", onclick: searchFor },
					"Search for this function"),
				site ? h("a", { class: "button",
					href: app.link({ page: "object", site, block: null }) },
				"Open the object") : null)));
	}

	function whyNot(metric) {
		const isHeld = app.holds("flame", { run: app.runId, by: metric.id });
		return metric.missing(app.run)
			?? (isHeld ? null : "this exported file does not hold it");
	}

	function showChoices(metric) {
		const there = METRICS.map((one) => ({
			...one, title: titleOf(one, app.run), why: whyNot(one) }));
		const picker = select("By", there.map(({ id, title }) => [id, title]), metric.id,
			(by) => app.set({ "flame.by": by }));
		const list = picker.querySelector("select");
		there.forEach(({ why }, i) => {
			list.options[i].disabled = why !== null;
			list.options[i].title = why ?? "";
		});
		list.id = "flame-by";
		const inverse = app.state["flame.inverse"] === "1";
		const direction = (text, isWanted) => h("button", {
			type: "button", "aria-pressed": String(inverse === isWanted),
			onclick: () => app.set({ "flame.inverse": isWanted ? 1 : null }) }, text);
		choices.replaceChildren(picker,
			h("div", { class: "switch", role: "group", "aria-label": "Direction" },
				direction("Top-down", false),
				direction("Bottom-up", true)),
			missing);
		const absent = there.filter(({ why }) => why);
		missing.hidden = absent.length === 0;
		const item = ({ title, why }) => h("li", {}, `${title}: ${why}`);
		const summary = `${plural(absent.length, "metric")} not recorded`;
		missing.replaceChildren(h("summary", {}, summary),
			h("ul", {}, absent.map(item)));
	}

	/* Another tree: stay at the same frame if it has it. A link names one of its own tree. */
	function keepPlace(state) {
		const isOurs = now.tree && now.zoom && state["flame.at"] === String(now.zoom);
		now.steps = isOurs ? stepsOf(now.tree, now.zoom) : null;
	}

	function requestOf(state, metric) {
		return { run: app.runId, by: metric.id,
			inverse: state["flame.inverse"] === "1" ? 1 : 0, ...app.names(),
			...app.part() };
	}

	function load(state) {
		const metric = pickMetric(whyNot, state["flame.by"]);
		now.asked = "";
		keepPlace(state);
		if (!metric) {
			pane.empty(NOTHING);
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
		now.modules = modulesOf(now.tree, isInverse);
		now.zoom = 0;
		detail.replaceChildren();
		if (now.steps) {
			const node = findSteps(now.tree, now.steps);
			now.steps = null;
			app.set({ "flame.at": node || null }, { replace: true });
		}
	}

	function redraw(state) {
		const { tree, answer } = now;
		const at = Number(state["flame.at"] ?? 0);
		const zoom = Number.isInteger(at) && at > 0 && at < tree.n ? at : 0;
		now.zoom = zoom;
		const wanted = state["flame.search"] ?? "";
		const hits = search(tree, wanted, zoom);
		const isSearching = Boolean(wanted.trim());
		if (!(answer.total > 0)) {
			const time = app.counted().isAll ? "In this run" : "In the selected time";
			pane.empty(`${time} there is none of that (${answer.unit}).`);
		}
		canvas.show({ tree, zoom, matches: isSearching ? hits.matches : null });
		if (document.activeElement !== field)
			field.value = wanted;
		found.textContent = isSearching ? foundText(hits, zoom) : "";
		found.dataset.share = isSearching ? hits.share : "";
		crumbs.replaceChildren(...crumbsOf(tree, zoom));
		legend.replaceChildren(...legendOf(app));
		functions.show();
		pane.foot.textContent = footOf();
	}

	function foundText(hits, zoom) {
		const n = hits.matches.size;
		return `${n ? "" : "no match, "}${count(n)} frames, `
			+ `${atLeast(hits.value, hits.ends)}, ${foundShare(hits, zoom)}`;
	}

	function foundShare(hits, zoom) {
		const { tree, answer } = now;
		if (answer.n_samples === null)
			return `${shareText(hits.share)}${zoom ? " of what is shown" : ""}`;
		if (!zoom || tree.ends)
			return `${shareOf(hits.value, hits.samples, hits.ends)} of all samples`;
		const n = tree.samples[zoom];
		return `${shareText(hits.samples / (n || 1), n)} of what is shown`;
	}

	function crumbsOf(tree, zoom) {
		if (zoom === 0)
			return [];
		const path = pathOf(tree, zoom);
		const crumb = (node) => h("button", {
			type: "button", "aria-current": node === zoom ? "true" : null,
			onclick: () => zoomTo(node) },
		node === 0 ? "all" : frameName(tree.frame[node]));
		const crumbs = path.map(crumb);
		const gap = h("span", {}, "… ");
		return path.length > 7 ? [...crumbs.slice(0, 2), gap, ...crumbs.slice(-4)] : crumbs;
	}

	function legendOf() {
		const key = (text, colour) => {
			const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
			swatch.style.background = colour;
			return h("span", { class: "flame-key" }, swatch, text);
		};
		const { dark } = app.theme();
		const keyOf = (name) => key(name ? fileName(name) : "not known",
			moduleColour(name, dark));
		const nMore = now.modules.length - MOST_KEYS;
		return [...now.modules.slice(0, MOST_KEYS).map(keyOf),
			nMore > 0 ? `and ${plural(nMore, "more file")}` : ""];
	}

	function footOf() {
		const { total, unit: counted, n_samples: n, n_left_out: nLeftOut } = now.answer;
		const { ends, samples } = now.tree;
		const part = shareOf(total, samples[0], ends?.[0].all);
		return [
			`${counted}: ${atLeast(total, ends?.[0].all)} in all`,
			n === null ? app.exactness()
				: `${part} of n = ${count(n)} samples; ± is the 95 % interval`,
			ends ? "two numbers: anywhere between them" : "",
			app.partText(),
			nLeftOut ? `${count(nLeftOut)} of the smallest frames are not drawn` : "",
		].filter(Boolean).join(" · ");
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
function functionsGrid(app, now, { shareOf, atLeast, zoomTo }) {
	const name = ({ frame, node }) => h("button", {
		type: "button", class: "link", onclick: () => zoomTo(node) }, frameName(frame));
	const rows = () => functionsOf(now.tree, now.isInverse ? 0 : now.zoom, now.isInverse);
	const value = (sum, samples, ends) =>
		`${atLeast(sum, ends)} (${shareOf(sum, samples, ends)})`;
	const grid = createGrid({
		caption: "Functions; a function counts once on each path, "
			+ "however often it stands there",
		sort: { key: "self", isDescending: true }, part: 30,
		detail: ({ frame }) => sourceBox(app, frame),
		save: saver(app, "functions", () => [["function", "file", "line", "module",
			"self", "total"], rows().map(({ frame, self, total }) => [frameName(frame),
			frame.file, frame.line, frame.module, self, total])]),
		columns: [
			{ key: "name", title: "Function", cell: name,
				order: ({ frame }) => frameName(frame) },
			{ key: "place", title: "Place", order: ({ frame }) => frame.file,
				cell: ({ frame }) => (frame.file
					? `${fileName(frame.file)}:${frame.line ?? "?"}`
					: fileName(frame.module) || "-") },
			numberColumn("self", "Self",
				(row) => value(row.self, row.selfSamples, row.selfEnds)),
			numberColumn("total", "Total",
				(row) => value(row.total, row.samples, row.ends)),
		],
	});
	return {
		element: grid.element,
		show() {
			grid.show(rows());
		},
	};
}
