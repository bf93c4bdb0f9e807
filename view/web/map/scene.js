/**
 * The panel time x address: what lay where and when, and who touched it.
 */
import { frameOf, scaleOf } from "memsight/canvas-frame";
import { Outdated } from "memsight/data";
import { debounced, framed, h } from "memsight/dom";
import { listen } from "memsight/gestures";
import { countedAs, drawLegend } from "memsight/legend";
import { paintScene } from "memsight/paint";
import { createPane } from "memsight/pane";
import { createLayers } from "memsight/scene-layers";
import { createPointer } from "memsight/scene-pointer";
import { drawTools } from "memsight/scene-tools";
import { createSceneView } from "memsight/scene-view";
import { COLOURS, describeView, emptyText, HELP, storedText } from "memsight/scene-words";
import { within, zoomed } from "memsight/view";

const CELL_PIXELS = 2; // of the page that a cell of a picture is asked for
const LEAST_BOX_PIXELS = 3;
const TIME_ONLY_PIXELS = 12; // a box less high is a stretch of time

const LABEL = "Picture of memory over time. Arrow keys move it, plus and minus zoom, 0 shows all, "
	+ "shift and arrows move the cross-hair, Enter opens the object under it.";
const NO_ADDRESS = "Nothing with an address was recorded of this process: no block, and no touch "
	+ "that has one.";

/** Elements of the panel. */
function build(root, retry) {
	const pane = createPane(root, "Time × address", HELP, retry);
	const canvas = h("canvas", { role: "img", id: "scene-canvas" });
	const region = h("div", {
		class: "scene", id: "scene", tabindex: "0", role: "group", "aria-label": LABEL,
	}, canvas);
	const legend = h("div", {
		class: "legend", role: "group", "aria-label": "Categories of touches" });
	const counted = h("p", { class: "counted", id: "scene-counted" });
	pane.body.append(region, legend);
	pane.foot.append(counted);
	return { pane, canvas, region, legend, counted };
}

export function create(root, app) {
	const { pane, canvas, region, legend, counted } = build(root, () => update(app.state));
	const layers = createLayers(app, () => draw());
	const view = createSceneView(app, () => layers.axis.height, () => draw());
	let asked = "";
	let loading = null; // the picture that was asked for, until it is there
	let box = null;
	let wantsBox = false;
	let grabbed = null; // the view when a drag began
	let size = { width: 0, height: 0 };

	const frame = () => frameOf(size.width, size.height);
	const scale = () => scaleOf(frame(), view.now);
	/** What the picture can be coloured by in this run, and in an exported file. */
	const isHeld = (by) => by === "density"
		|| app.holds("picture", { run: app.runId, process: app.processId, by });
	const coloursHere = () =>
		COLOURS.filter(({ id, has }) => (!has || app.run[has]) && isHeld(id));
	const colourOf = () =>
		coloursHere().find(({ id }) => id === app.state.by)?.id ?? "direction";

	const draw = framed(() => {
		if (!layers.current || !view.now || size.width === 0 || !app.run)
			return;
		const look = getComputedStyle(document.documentElement);
		paintScene(canvas, {
			view: view.now, axis: layers.axis, layers: layers.all(), ...size, box,
			siteNames: layers.siteNames, cursor: pointer.place, theme: app.theme(),
			state: app.state, byDensity: colourOf() === "density",
			font: `12px ${look.getPropertyValue("--font")}`,
			mono: `11px ${look.getPropertyValue("--mono")}`,
		});
		region.dataset.frame = JSON.stringify(frame());
		region.dataset.request = JSON.stringify(layers.current.request);
		region.dataset.drawn = String(Number(region.dataset.drawn ?? 0) + 1);
	});
	const pointer = createPointer(region, app, layers, { scale, frame, draw });

	/** The time and the place on the axis of some pixels. */
	function inView({ x, y }) {
		const { time, at } = scale();
		return { time: time(x), at: at(y) };
	}

	function zoom(factor) {
		const isPointed = pointer.place && view.now;
		view.zoom(factor, isPointed ? inView(pointer.place) : null);
	}

	// ---- The picture ----

	function repaint() {
		const byDensity = colourOf() === "density";
		const theme = app.theme();
		layers.paint(theme, byDensity);
		const { picture, colours, hidden } = layers.current;
		const onToggle = (id) => {
			layers.toggle(id);
			repaint();
		};
		drawLegend(legend, picture, {
			colours, hidden, byDensity, dark: theme.dark, onToggle });
		draw();
	}

	function request() {
		const by = colourOf();
		const { from, to, low, high } = view.now;
		const { width, height } = frame();
		const cells = (pixels) => within(Math.round(pixels / CELL_PIXELS), 1, 1024);
		return { run: app.runId, process: app.processId, source: app.state.source,
			by: by === "density" ? "direction" : by,
			from, to, low, high, width: cells(width), height: cells(height) };
	}

	/* Before there is any, one of a sixteenth of the cells is drawn: there in no time. */
	function coarse(wanted) {
		const { width, height } = wanted;
		return { ...wanted, width: Math.ceil(width / 4), height: Math.ceil(height / 4) };
	}

	async function takePicture(wanted) {
		await layers.load(wanted, view.now, view.whole(), canvas);
		repaint();
		const { picture } = layers.current;
		canvas.setAttribute("aria-label", describeView(picture, view.now, layers.axis));
		const run = app.runs.find((row) => row.id === app.runId);
		const stored = storedText(picture, layers.finest());
		counted.textContent = countedAs(picture, run) + stored;
	}

	async function loadPicture() {
		const wanted = request();
		const text = JSON.stringify(wanted);
		if (text === asked && layers.current) {
			repaint();
			return loading; // that one, if it is under way still
		}
		asked = text;
		const mine = loading = layers.current || app.isStored ? takePicture(wanted)
			: takePicture(coarse(wanted)).then(() => takePicture(wanted));
		try {
			await mine;
		} catch (error) {
			if (!(error instanceof Outdated))
				asked = "";
			throw error;
		} finally {
			if (loading === mine)
				loading = null;
		}
	}

	function updateTools() {
		const onBox = () => {
			wantsBox = !wantsBox;
			updateTools();
		};
		drawTools(pane.tools, app, {
			axis: layers.axis, view: view.now, wantsBox, onBox, zoom, reset: view.reset,
			colours: coloursHere().map(({ id, text }) => [id, text]),
			colour: colourOf() });
	}

	// ---- What a person does ----

	function boxOver(start, at) {
		const { left, right, top, bottom } = frame();
		box = {
			x0: within(start.x, left, right), x1: within(at.x, left, right),
			y0: within(start.y, top, bottom), y1: within(at.y, top, bottom),
			isTimeOnly: Math.abs(at.y - start.y) < TIME_ONLY_PIXELS,
		};
	}

	function closeBox() {
		const scales = scale();
		const { x0, x1, y0, y1, isTimeOnly } = box;
		box = null;
		if (Math.abs(x1 - x0) < LEAST_BOX_PIXELS)
			return draw();
		const from = scales.time(Math.min(x0, x1));
		const to = scales.time(Math.max(x0, x1));
		const { low, high } = isTimeOnly ? view.now
			: { low: scales.at(Math.max(y0, y1)), high: scales.at(Math.min(y0, y1)) };
		view.go({ from, to, low, high });
	}

	function middle() {
		const { left, right, top, bottom } = frame();
		return { x: (left + right) / 2, y: (top + bottom) / 2 };
	}

	listen(region, {
		wantsBox: () => wantsBox,
		zoom, reset: view.reset, step: view.step,
		hover: (at) => pointer.hover(at),
		leave: () => pointer.leave(),
		wheel(at, factor, only) {
			if (!layers.current || !view.now)
				return false;
			const axes = { inTime: only !== "address", inAddress: only !== "time" };
			const next = zoomed(view.now, inView(at), factor, axes);
			return view.go(next, { soon: true }) || factor < 1;
		},
		pan(start, at, isOver) {
			if (!view.now)
				return;
			grabbed ??= view.now;
			const { xUnit, yUnit } = scaleOf(frame(), grabbed);
			const [ns, bytes] = [(start.x - at.x) / xUnit, (at.y - start.y) / yUnit];
			const next = view.moved(grabbed, ns, bytes);
			pointer.hide();
			if (!isOver)
				return view.drag(next);
			grabbed = null;
			view.go(next);
		},
		box(start, at, isOver) {
			if (!view.now)
				return;
			pointer.hide();
			boxOver(start, at);
			if (isOver)
				closeBox();
			else
				draw();
		},
		click: (at) => pointer.open(at),
		aim(columns, rows) {
			const { left, right, top, bottom } = frame();
			const from = pointer.place ?? middle();
			pointer.hover({
				x: within(from.x + 10 * columns, left, right),
				y: within(from.y - 10 * rows, top, bottom) });
		},
		open: () => pointer.open(pointer.place ?? middle()),
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

	async function show(state) {
		if (await layers.loadAxis(region))
			view.forget();
		if (layers.axis.bands.length === 0)
			return pane.empty(NO_ADDRESS);
		view.take(state);
		pane.ready();
		size = { width: region.clientWidth, height: region.clientHeight };
		if (size.width === 0)
			return;
		updateTools();
		draw();
		await loadPicture();
	}

	async function update(state) {
		const empty = emptyText(app);
		if (empty)
			return pane.empty(empty);
		if (!layers.current)
			pane.busy();
		region.setAttribute("aria-busy", "true");
		try {
			await show(state);
		} catch (error) {
			if (error instanceof Outdated)
				return; // who came later shows what is wanted now
			if (!("status" in error))
				console.error(error);
			pane.fault(error);
		}
		region.setAttribute("aria-busy", "false");
	}
	return { update };
}
