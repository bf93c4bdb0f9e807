/**
 * A flame graph on a canvas, the root on top: draws a tree of memsight/flame-layout, and tells
 * which frame is pointed at, chosen, or wanted wider. The keyboard does all that the mouse does.
 */
import { framed, h } from "memsight/dom";
import { frameName, neighbour, nodeAt, pathOf, rectanglesOf } from "memsight/flame-layout";
import { mix, rgb } from "memsight/palette";

const ROW = 20; // pixels of a frame
const LEAST_TEXT = 28; // pixels that a name needs to be worth writing
const MOVES = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];

/** Black or white, whichever is read more easily on a colour (relative luminance of WCAG). */
export function inkOn(colour) {
	const [r, g, b] = rgb(colour).map((part) => part / 255)
		.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
	return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#000000" : "#ffffff";
}

/* As much of a text as fits, with "…" where it was cut. */
function cut(context, text, width) {
	if (context.measureText(text).width <= width)
		return text;
	let low = 0;
	let high = text.length;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (context.measureText(text.slice(0, middle) + "…").width <= width)
			low = middle;
		else
			high = middle - 1;
	}
	return low > 1 ? text.slice(0, low) + "…" : "";
}

function sharpen(canvas, width, height) {
	const ratio = devicePixelRatio || 1;
	canvas.width = Math.max(1, Math.round(width * ratio));
	canvas.height = Math.max(1, Math.round(height * ratio));
	canvas.style.height = `${height}px`;
	const context = canvas.getContext("2d");
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	return context;
}

/**
 * @param {Object} how
 * @param {() => Object} how.theme             colours of the page
 * @param {(node: number) => string} how.colour  "#rrggbb" of a frame
 * @param {(node: number) => string} how.tell    what the tooltip and the screen reader say
 * @param {(node: number) => void} how.onZoom
 * @param {(node: number) => void} how.onChoose  pointed at by click or by keyboard
 */
export function createFlameCanvas(how) {
	const canvas = h("canvas", {
		class: "flame-canvas", tabindex: "0", role: "application",
		"aria-roledescription": "flame graph",
		"aria-label": "Flame graph. Arrow keys go from frame to frame, "
			+ "Enter makes one as wide as the picture, Escape goes back out." });
	const tip = h("div", { class: "panel-tip", hidden: true });
	const spoken = h("p", { class: "unseen", "aria-live": "polite" });
	const element = h("div", { class: "flame-area" },
		h("div", { class: "flame-scroll" }, canvas), tip, spoken);
	const now = { tree: null, zoom: 0, chosen: 0, over: -1, matches: null };

	const draw = framed(() => {
		if (now.tree && element.isConnected)
			paint(canvas, now, how);
	});

	function nodeOf(event) {
		const box = canvas.getBoundingClientRect();
		const x = event.clientX - box.left;
		const row = Math.floor((event.clientY - box.top) / ROW);
		return now.tree ? nodeAt(now.tree, now.zoom, box.width, x, row) : -1;
	}

	function showTip(event, node) {
		tip.hidden = node < 0;
		if (node < 0)
			return;
		tip.textContent = how.tell(node);
		const box = element.getBoundingClientRect();
		const most = box.width - tip.offsetWidth - 4;
		tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, most))}px`;
		tip.style.top = `${event.clientY - box.top + 18}px`;
	}

	function over(event) {
		const node = event.type === "pointerleave" ? -1 : nodeOf(event);
		canvas.style.cursor = node >= 0 ? "pointer" : "default";
		showTip(event, node);
		if (node !== now.over) {
			now.over = node;
			draw();
		}
	}

	function choose(node) {
		now.chosen = node;
		spoken.textContent = how.tell(node);
		how.onChoose(node);
		draw();
	}

	function onKey(event) {
		if (!now.tree || event.ctrlKey || event.metaKey || event.altKey)
			return;
		if (MOVES.includes(event.key))
			choose(neighbour(now.tree, now.chosen, event.key));
		else if (event.key === "Enter")
			how.onZoom(now.chosen);
		else if (event.key === "Escape" && now.zoom > 0)
			how.onZoom(now.tree.parent[now.zoom]);
		else if (event.key === "Home")
			how.onZoom(0);
		else
			return;
		event.preventDefault();
		event.stopPropagation();
	}

	canvas.addEventListener("pointermove", over);
	canvas.addEventListener("pointerleave", over);
	canvas.addEventListener("click", (event) => {
		const node = nodeOf(event);
		if (node < 0)
			return;
		choose(node);
		how.onZoom(node);
	});
	canvas.addEventListener("keydown", onKey);
	canvas.addEventListener("focus", draw);
	canvas.addEventListener("blur", draw);
	new ResizeObserver(draw).observe(element);

	return {
		element,
		/** What to show: { tree, zoom, matches: Set or null }; what is not given stays. */
		show(changes) {
			const isOther = changes.tree && changes.tree !== now.tree;
			Object.assign(now, changes);
			if (isOther || !pathOf(now.tree, now.chosen).includes(now.zoom))
				now.chosen = now.zoom;
			tip.hidden = true;
			draw();
		},
	};
}

function paint(canvas, now, how) {
	const width = canvas.parentElement.clientWidth;
	const found = rectanglesOf(now.tree, now.zoom, width);
	const levels = found.reduce((most, { level }) => Math.max(most, level + 1), 1);
	const context = sharpen(canvas, width, levels * ROW + 1);
	const theme = how.theme();
	context.font = "12px system-ui, sans-serif";
	context.textBaseline = "middle";
	canvas.dataset.frames = found.length;
	for (const rectangle of found)
		paintFrame(context, rectangle, now, { ...how, theme });
	const isFocused = document.activeElement === canvas;
	const chosen = found.find(({ node }) => node === now.chosen);
	if (isFocused && chosen)
		outline(context, chosen, theme);
}

function paintFrame(context, { node, x, width, level }, now, how) {
	const isCaller = level < now.tree.depth[now.zoom];
	const isFaded = isCaller || now.matches && !now.matches.has(node);
	const { dark, line } = how.theme;
	let colour = node === 0 ? line : how.colour(node);
	colour = /^#[0-9a-f]{6}$/i.test(colour) ? colour : "#888888";
	colour = isFaded ? mix(colour, dark ? "#1b1f24" : "#ffffff", 0.72) : colour;
	colour = node === now.over ? mix(colour, dark ? "#ffffff" : "#000000", 0.25) : colour;
	context.fillStyle = colour;
	context.fillRect(x, level * ROW, Math.max(width - (width > 2 ? 1 : 0), 0.5), ROW - 1);
	if (width < LEAST_TEXT)
		return;
	context.fillStyle = inkOn(colour);
	const text = (now.matches?.has(node) ? "● " : "") + frameName(now.tree.frame[node]);
	context.fillText(cut(context, text, width - 7), x + 3, level * ROW + ROW / 2);
}

function outline(context, { x, width, level }, theme) {
	context.lineWidth = 2;
	context.strokeStyle = theme.ink || "#000000";
	context.strokeRect(x + 1, level * ROW + 1, Math.max(width - 3, 2), ROW - 3);
}
