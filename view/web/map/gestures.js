/**
 * Wheel, drag, box, clicks and keys on a canvas, told as what they mean.
 */

const CLICK_PIXELS = 4;
const DOUBLE_CLICK_MS = 260;

/** Arrow keys: [columns, rows] to go. */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

function placeIn(element, event) {
	const box = element.getBoundingClientRect();
	return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function onWheel(element, on) {
	element.addEventListener("wheel", (event) => {
		const turn = event.deltaY || event.deltaX; // with shift, browsers scroll sideways
		const lines = event.deltaMode === 1 ? 16 : 1;
		const isAddress = event.altKey || event.ctrlKey;
		const only = event.shiftKey ? "time" : isAddress ? "address" : "both";
		if (on.wheel(placeIn(element, event), Math.exp(turn * lines * 0.0016), only))
			event.preventDefault();
	}, { passive: false });
}

/**
 * A press that moves is a drag, one that does not is a click; two of these soon after each other
 * are a double click.
 */
function onPointer(element, on) {
	let press = null;
	let waiting = 0;

	element.addEventListener("pointerdown", (event) => {
		if (event.button !== 0)
			return;
		const isBox = on.wantsBox() !== event.shiftKey;
		press = { ...placeIn(element, event), isBox, isDrag: false };
		element.setPointerCapture(event.pointerId);
	});
	element.addEventListener("pointermove", (event) => {
		const at = placeIn(element, event);
		if (!press)
			return on.hover(at);
		press.isDrag ||= Math.hypot(at.x - press.x, at.y - press.y) > CLICK_PIXELS;
		if (press.isDrag)
			(press.isBox ? on.box : on.pan)(press, at, false);
	});
	element.addEventListener("pointerup", (event) => {
		const at = placeIn(element, event);
		const ended = press;
		press = null;
		if (!ended)
			return;
		if (ended.isDrag)
			return (ended.isBox ? on.box : on.pan)(ended, at, true);
		clearTimeout(waiting);
		if (event.detail < 2)
			waiting = setTimeout(() => on.click(at), DOUBLE_CLICK_MS);
	});
	element.addEventListener("pointercancel", () => {
		press = null;
		on.leave();
	});
	element.addEventListener("pointerleave", () => on.leave());
	element.addEventListener("dblclick", () => {
		clearTimeout(waiting);
		on.reset();
	});
}

function onKeys(element, on) {
	const [zoomIn, zoomOut] = [() => on.zoom(0.5), () => on.zoom(2)];
	const keys = {
		"+": zoomIn, "=": zoomIn, "-": zoomOut, "_": zoomOut,
		"0": on.reset, Escape: on.reset, Enter: on.open,
	};
	element.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey)
			return;
		const arrow = ARROWS[event.key];
		if (arrow)
			(event.shiftKey ? on.aim : on.step)(...arrow);
		else if (keys[event.key])
			keys[event.key]();
		else
			return;
		event.preventDefault();
	});
}

/**
 * @param {HTMLElement} element  that takes the focus
 * @param {Object} on  wheel(at, factor, only) -> taken?; hover(at); leave();
 *   pan(start, at, isOver); box(start, at, isOver); click(at); reset(); zoom(factor);
 *   step(columns, rows); aim(columns, rows); open(); wantsBox() -> boolean.
 *   Places are pixels of the element.
 */
export function listen(element, on) {
	onWheel(element, on);
	onPointer(element, on);
	onKeys(element, on);
}
