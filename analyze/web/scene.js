/**
 * The panel time x address: what lay where and when, and who touched it.
 */
import { bandName, bandText, createAxis } from "memsight/axis";
import { Outdated, rowsOf } from "memsight/data";
import { debounced, framed, h, select } from "memsight/dom";
import { bytes, count, duration, interval, objectName, plural } from "memsight/format";
import { listen } from "memsight/gestures";
import { countedAs, drawLegend } from "memsight/legend";
import { blockAt, cellAt, nearestPoint } from "memsight/lookup";
import { frameOf, paintScene, scaleOf } from "memsight/paint";
import { categoryColours } from "memsight/palette";
import { createPane } from "memsight/pane";
import { occupancyImage, readPicture, touchImage } from "memsight/picture";
import { COLOURS, emptyText, HELP } from "memsight/scene-words";
import { numberOf } from "memsight/state";
import { createTip, tipRows } from "memsight/tip";
import { clipped, moved, sameView, zoomed } from "memsight/view";

const CELL_PIXELS = 2; // of the page that a cell of a picture is asked for

/** Elements of the panel. */
function build(root, retry) {
	const pane = createPane(root, "Time × address", HELP, retry);
	const canvas = h("canvas", { role: "img", id: "scene-canvas" });
	const region = h("div", { class: "scene", id: "scene", tabindex: "0", role: "group", "aria-label":
		"Picture of memory over time. Arrow keys move it, plus and minus zoom, 0 shows all, shift and arrows move the cross-hair, "
		+ "Enter opens the object under it." }, canvas);
	const legend = h("div", { class: "legend", role: "group", "aria-label": "Categories of touches" });
	const counted = h("p", { class: "counted", id: "scene-counted" });
	pane.body.append(region, legend);
	pane.foot.append(counted);
	return { pane, canvas, region, legend, counted, tip: createTip(region) };
}

export function create(root, app) {
	const parts = build(root, () => update(app.state));
	const { pane, canvas, region, legend, tip } = parts;
	const hidden = new Set(); // ids of categories
	const given = new Map(); // colours of categories
	const siteNames = new Map();
	let axis = null;
	let axisOf = ""; // run and process of the axis
	let view = null;
	let current = null; // layer: picture and its images
	let backdrop = null; // that of all of the run and its addresses
	let finer = []; // of an exported file: parts that cover it
	let asked = "";
	let cursor = null;
	let box = null;
	let size = { width: 0, height: 0 };

	const draw = framed(() => {
		if (!current || !view || size.width === 0 || !app.run)
			return;
		const look = getComputedStyle(document.documentElement);
		paintScene(canvas, {
			view, axis, cursor, box, siteNames, ...size, theme: app.theme(), state: app.state, byDensity: colourOf() === "density",
			layers: backdrop && backdrop !== current ? [backdrop, current, ...finer] : [current, ...finer],
			font: `12px ${look.getPropertyValue("--font")}`, mono: `11px ${look.getPropertyValue("--mono")}`,
		});
		region.dataset.frame = JSON.stringify(frame());
		region.dataset.request = current.text;
		region.dataset.drawn = String(Number(region.dataset.drawn ?? 0) + 1);
	});

	/** What the picture can be coloured by in this run, and in an exported file. */
	const coloursHere = () => COLOURS.filter(({ id, has }) => (!has || app.run[has]) && (id === "density"
		|| app.holds("picture", { run: app.runId, process: app.processId, by: id })));
	const colourOf = () => coloursHere().find(({ id }) => id === app.state.by)?.id ?? "direction";
	const frame = () => frameOf(size.width, size.height);
	const scale = () => scaleOf(frame(), view);

	function wholeView() {
		return { from: 0, to: app.duration, low: 0, high: axis.height };
	}

	function viewOfState(state) {
		return clipped({ from: numberOf(state.from, 0), to: numberOf(state.to, app.duration), low: numberOf(state.low, 0),
			high: numberOf(state.high, axis.height) }, app.duration, axis.height);
	}

	/** Puts the view into the state; where it is all of an axis the keys go. */
	function commit(how) {
		const whole = wholeView();
		const inTime = view.from !== whole.from || view.to !== whole.to;
		const inAddress = view.low !== whole.low || view.high !== whole.high;
		app.set({ from: inTime ? view.from : null, to: inTime ? view.to : null, low: inAddress ? view.low : null,
			high: inAddress ? view.high : null }, how);
	}
	const commitSoon = debounced(160, () => commit());

	function go(next, { soon = false } = {}) {
		const kept = clipped(next, app.duration, axis.height);
		const isNew = !sameView(kept, view);
		view = kept;
		draw();
		if (soon)
			commitSoon();
		else
			commit();
		return isNew;
	}

	function repaint() {
		const byDensity = colourOf() === "density";
		const theme = app.theme();
		for (const layer of new Set([current, backdrop, ...finer].filter(Boolean))) {
			const { picture } = layer;
			const ids = picture.categories.map(({ id }) => id);
			layer.colours = categoryColours(picture.by, picture.categories.map(({ name }) => name), ids, given);
			layer.hidden = new Set(ids.map((id, i) => (hidden.has(id) ? i : -1)));
			layer.occupancy = occupancyImage(picture, theme.block);
			layer.touches = touchImage(picture, { colours: layer.colours, hidden: layer.hidden, byDensity, dark: theme.dark });
		}
		drawLegend(legend, current.picture, { colours: current.colours, hidden: current.hidden, byDensity, onToggle: toggle });
		drawRamp(legend.querySelector(".ramp"));
		draw();
	}

	function toggle(id) {
		if (!hidden.delete(id))
			hidden.add(id);
		repaint();
	}

	function drawRamp(canvasOfRamp) {
		if (!canvasOfRamp)
			return;
		const n = canvasOfRamp.width;
		const counts = Uint16Array.from({ length: n }, (_, i) => Math.round(Math.expm1(i / n * Math.log1p(1000))) + 1);
		const strip = touchImage({ width: n, height: 1, counts, category: counts }, { colours: [], hidden: new Set(), byDensity: true,
			dark: app.theme().dark });
		canvasOfRamp.getContext("2d").drawImage(strip, 0, 0, n, canvasOfRamp.height);
	}

	function describe() {
		const { picture } = current;
		const names = picture.categories.filter(({ n }) => n > 0).slice(0, 6).map(({ name, n }) => `${name || "unknown"} ${count(n)}`);
		canvas.setAttribute("aria-label", `Time ${interval(view.from, view.to)}, ${bytes(view.high - view.low)} of addresses in `
			+ `${plural(axis.bands.filter((band) => band.y < view.high && band.y + band.size > view.low).length, "range")}: `
			+ `${plural(picture.n_blocks, "block")}, ${plural(picture.n_samples, "touch", "touches")}`
			+ `${names.length ? ` (${names.join(", ")})` : ""}.`);
		const finest = finer[0]?.picture ?? picture;
		const cells = `cells of ${duration((finest.to - finest.from) / finest.width)} x ${bytes((finest.high - finest.low) / finest.height)}`;
		const stored = !picture.stored ? "" : picture.isOther
			? ` This file does not hold exactly this view; what is nearest is drawn, in ${cells}. The counts are of ${interval(picture.from, picture.to)}, ${
				bytes(picture.high - picture.low)} of addresses.` : ` Drawn from what this file holds: ${cells}.`;
		parts.counted.textContent = countedAs(picture, app.runs.find((row) => row.id === app.runId)) + stored;
	}

	async function loadAxis() {
		const wanted = `${app.runId} ${app.processId}`;
		if (axisOf === wanted)
			return;
		const rows = rowsOf(await app.ask("bands", { run: app.runId, process: app.processId }, region));
		axis = createAxis(rows);
		axisOf = wanted;
		current = backdrop = view = null;
		finer = [];
		given.clear();
		siteNames.clear();
		loadNames();
	}

	/** Who allocated: names for large blocks. The picture is there without them. */
	async function loadNames() {
		try {
			const answer = await app.ask("objects", { run: app.runId, limit: 200, sort: "bytes", descending: 1 }, siteNames);
			for (const row of rowsOf(answer.rows)) {
				if (row.site !== null)
					siteNames.set(row.site, objectName(row));
			}
			draw();
		} catch {
			// nothing to tell: blocks then have no names on them
		}
	}

	function request() {
		const by = colourOf();
		const { width, height } = frame();
		const cells = (pixels) => Math.min(Math.max(Math.round(pixels / CELL_PIXELS), 1), 1024);
		return { run: app.runId, process: app.processId, source: app.state.source, by: by === "density" ? "direction" : by,
			from: view.from, to: view.to, low: view.low, high: view.high, width: cells(width), height: cells(height) };
	}

	function read(answer, wanted) {
		const picture = readPicture(answer);
		return { ...picture, by: answer.by ?? wanted.by, isOther: Boolean(answer.stored) && !sameView(picture, view) };
	}

	async function loadPicture() {
		const wanted = request();
		const text = JSON.stringify(wanted);
		if (text === asked && current)
			return repaint();
		asked = text;
		region.setAttribute("aria-busy", "true");
		try {
			const answer = await app.ask("picture", wanted, canvas);
			const isOther = current && (current.picture.by !== wanted.by || current.source !== wanted.source);
			if (isOther)
				hidden.clear();
			current = { picture: read(answer, wanted), source: wanted.source, text };
			finer = (answer.stored ? app.parts("picture", wanted) : []).filter((part) => part.to - part.from < answer.to - answer.from)
				.map((part) => ({ picture: read(part, wanted) }));
			const whole = wholeView();
			if (current.picture.from <= whole.from && current.picture.to >= whole.to && current.picture.low === 0
				&& current.picture.high >= whole.high)
				backdrop = current;
			else if (isOther)
				backdrop = null;
			repaint();
			describe();
			region.setAttribute("aria-busy", "false");
		} catch (error) {
			if (!(error instanceof Outdated))
				asked = "";
			throw error;
		}
	}

	function drawTools() {
		const sources = rowsOf(app.run.sources).filter((row) => row.n_samples > 0
			&& app.holds("picture", { run: app.runId, process: app.processId, source: row.id }));
		const whole = !app.state.low && !app.state.high;
		const ranges = [["", "all addresses"], ...axis.bands.map((band, i) => [i, bandText(band)])];
		const inView = whole ? "" : axis.bands.findIndex((band) => band.y === view.low && band.y + band.size === view.high);
		pane.tools.replaceChildren(
			select("Colour", coloursHere().map(({ id, text }) => [id, text]), colourOf(),
				(by) => app.set({ by })),
			sources.length > (app.isStored ? 0 : 1) ? select("Source", [["", "all"], ...sources.map((row) => [row.id, `${row.name} (${count(row.n_samples)})`])],
				app.state.source ?? "", (source) => app.set({ source })) : "",
			axis.bands.length > 1 ? select("Range", inView === -1 ? [["-", "part"], ...ranges] : ranges, inView === -1 ? "-" : inView, (i) => {
				const band = axis.bands[i];
				app.set({ low: band ? band.y : null, high: band ? band.y + band.size : null });
			}) : "",
			button("Select", "Drag to zoom to a box (or hold shift)", () => {
				wantsBox = !wantsBox;
				drawTools();
			}, wantsBox),
			h("span", { class: "zoom" }, button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
				button("All", "Show all of the run and of the addresses (0)", reset)));
	}

	let wantsBox = false;
	function button(text, title, onclick, pressed = null) {
		return h("button", { type: "button", title, "aria-label": title, onclick, "aria-pressed": pressed === null ? null : String(pressed) }, text);
	}

	function zoom(factor) {
		const about = cursor ? { time: scale().time(cursor.x), at: scale().at(cursor.y) }
			: { time: (view.from + view.to) / 2, at: (view.low + view.high) / 2 };
		go(zoomed(view, about, factor));
	}

	function reset() {
		if (!axis || !view)
			return;
		commitSoon.cancel();
		go(wholeView());
	}

	/** The finest layer that holds a place. */
	function layerAt(time, y) {
		return finer.find(({ picture }) => picture.from <= time && time < picture.to && picture.low <= y && y < picture.high) ?? current;
	}

	/** What lies at a place of the canvas, as far as the picture tells. */
	function lookAt(at) {
		const scales = scale();
		const { picture, hidden: unseen } = layerAt(scales.time(at.x), scales.at(at.y));
		const point = nearestPoint(picture, scales, at, unseen);
		const time = Math.round(point >= 0 ? picture.points.time_ns[point] : scales.time(at.x));
		const y = Math.round(point >= 0 ? picture.points.y[point] : scales.at(at.y));
		const cell = picture.nPoints > 0 ? -1 : cellAt(picture, time, y);
		const block = blockAt(picture, time, y);
		return {
			time, y, step: (view.to - view.from) / frame().width, address: axis.addressOf(y), band: bandName(axis.bandAt(y)),
			n: cell >= 0 ? picture.counts[cell] : null, category: cell >= 0 ? picture.categories[picture.category[cell]]?.name : null,
			sample: point >= 0 ? picture.points.sample[point] : null,
			block: block >= 0 ? picture.blocks.id[block] : null,
			site: block >= 0 ? picture.blocks.site[block] : point >= 0 ? picture.points.site[point] : null,
			name: block >= 0 ? siteNames.get(picture.blocks.site[block]) : null,
		};
	}

	/** "main 4711" of a thread.id. */
	function threadName(id) {
		const row = rowsOf(app.run.threads).find((thread) => thread.id === id);
		return row ? [row.name, row.tid].filter(Boolean).join(" ") : id;
	}

	function askAt(here) {
		const half = Math.ceil(here.step * 2);
		const from = Math.max(0, here.time - half);
		return app.ask("at", { run: app.runId, process: app.processId, address: here.address, from, to: here.time + half + 1 }, tip);
	}

	const askSoon = debounced(110, async (at, here) => {
		try {
			const answer = await askAt(here);
			if (cursor && tip.isShown())
				tip.show(at, tipRows(here, answer, threadName));
		} catch {
			// the box then says what the picture tells
		}
	});

	function hover(at) {
		const { left, right, top, bottom } = frame();
		if (!current || at.x < left || at.x > right || at.y < top || at.y > bottom)
			return leave();
		cursor = at;
		const here = lookAt(at);
		tip.show(at, tipRows(here, null, threadName));
		if (!app.isStored)
			askSoon(at, here);
		draw();
	}

	function leave() {
		askSoon.cancel();
		tip.hide();
		cursor = null;
		draw();
	}

	/** Opens the page of what is under a place. */
	async function open(at) {
		if (!current)
			return;
		const here = lookAt(at);
		if (here.block === null && !app.isStored) {
			try {
				const answer = await askAt(here);
				here.block = answer.owner === "heap" ? answer.id : null;
				here.site = answer.site ?? here.site;
			} catch (error) {
				return app.say(error.message);
			}
		}
		if (here.block === null && !here.site)
			return app.say("No object that has a page lies there.");
		tip.hide();
		const isHeld = app.holds("object", { run: app.runId, block: here.block });
		app.set({ page: "object", block: isHeld || !here.site ? here.block : null, site: here.site });
	}

	function boxOver(start, at) {
		const { left, right, top, bottom } = frame();
		const within = (value, low, high) => Math.min(Math.max(value, low), high);
		box = { x0: within(start.x, left, right), x1: within(at.x, left, right), y0: within(start.y, top, bottom),
			y1: within(at.y, top, bottom), isTimeOnly: Math.abs(at.y - start.y) < 12 };
	}

	function closeBox() {
		const scales = scale();
		const { x0, x1, y0, y1, isTimeOnly } = box;
		box = null;
		const next = { from: scales.time(Math.min(x0, x1)), to: scales.time(Math.max(x0, x1)) };
		if (Math.abs(x1 - x0) < 3)
			return draw();
		go(isTimeOnly ? { ...view, ...next } : { ...next, low: scales.at(Math.max(y0, y1)), high: scales.at(Math.min(y0, y1)) });
	}

	let grabbed = null; // the view when a drag began
	listen(region, {
		wantsBox: () => wantsBox,
		hover, leave, reset, zoom,
		wheel(at, factor, only) {
			if (!current || !view)
				return false;
			const scales = scale();
			const next = zoomed(view, { time: scales.time(at.x), at: scales.at(at.y) }, factor, { inTime: only !== "address",
				inAddress: only !== "time" });
			return go(next, { soon: true }) || factor < 1;
		},
		pan(start, at, isOver) {
			if (!view)
				return;
			grabbed ??= view;
			const { xUnit, yUnit } = scaleOf(frame(), grabbed);
			view = moved(grabbed, (start.x - at.x) / xUnit, (at.y - start.y) / yUnit, app.duration, axis.height);
			tip.hide();
			draw();
			if (isOver) {
				grabbed = null;
				go(view);
			}
		},
		box(start, at, isOver) {
			tip.hide();
			boxOver(start, at);
			if (isOver)
				closeBox();
			else
				draw();
		},
		click: (at) => open(at),
		step(columns, rows) {
			go(moved(view, columns * (view.to - view.from) / 8, rows * (view.high - view.low) / 8, app.duration, axis.height));
		},
		aim(columns, rows) {
			const { left, right, top, bottom } = frame();
			const from = cursor ?? { x: (left + right) / 2, y: (top + bottom) / 2 };
			hover({ x: Math.min(Math.max(from.x + 10 * columns, left), right), y: Math.min(Math.max(from.y - 10 * rows, top), bottom) });
		},
		open() {
			const { left, right, top, bottom } = frame();
			open(cursor ?? { x: (left + right) / 2, y: (top + bottom) / 2 });
		},
	});

	const resized = debounced(120, () => update(app.state));
	new ResizeObserver(() => {
		const { clientWidth: width, clientHeight: height } = region;
		if (width === 0 || width === size.width && height === size.height)
			return;
		size = { width, height };
		draw();
		resized();
	}).observe(region);

	async function update(state) {
		const empty = emptyText(app);
		if (empty)
			return pane.empty(empty);
		if (!current)
			pane.busy();
		try {
			await loadAxis();
			if (axis.bands.length === 0)
				return pane.empty("Nothing with an address was recorded of this process: no block, and no touch that has one.");
			// What the wheel has made of it, and the state does not have yet, is not thrown away.
			if (!view || !commitSoon.isWaiting())
				view = viewOfState(state);
			pane.ready();
			size = { width: region.clientWidth, height: region.clientHeight };
			if (size.width === 0)
				return;
			drawTools();
			draw();
			await loadPicture();
		} catch (error) {
			if (error instanceof Outdated)
				return;
			if (!("status" in error))
				console.error(error);
			pane.fault(error);
		}
	}
	return { update };
}
