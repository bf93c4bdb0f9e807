/**
 * The own picture of an object: offset (upwards) x time (to the right), as touches per cell.
 */
import { MARGIN, timeTicks } from "memsight/axis";
import { contextOf, frameOf, scaleOf } from "memsight/canvas-frame";
import { unpack16 } from "memsight/data";
import { framed, h } from "memsight/dom";
import { bytes, count, interval, moment, plural } from "memsight/format";
import { categoryColours } from "memsight/palette";
import { touchImage } from "memsight/picture";
import { createRamp, mostOf } from "memsight/ramp";

const BELOW = 26; // pixels for the time

/** Round offsets: powers of two and their multiples. */
function offsetTicks(size, height) {
	const step = 2 ** Math.max(0, Math.ceil(Math.log2(size / Math.max(height / 36, 1))));
	return Array.from({ length: Math.floor(size / step) + 1 }, (_, i) => i * step);
}

function drawAxes(context, frame, scale, { span, size, theme }) {
	context.strokeStyle = theme.line;
	context.fillStyle = theme.muted;
	context.lineWidth = 1;
	context.strokeRect(frame.left - 0.5, frame.top - 0.5, frame.width + 1, frame.height + 1);
	context.textBaseline = "top";
	context.textAlign = "center";
	for (const { at, text } of timeTicks(span.from, span.to, frame.width)) {
		const half = context.measureText(text).width / 2;
		const x = Math.min(scale.x(at), frame.right + MARGIN - half);
		context.fillText(text, x, frame.bottom + 6);
	}
	context.textBaseline = "middle";
	context.textAlign = "right";
	for (const offset of offsetTicks(size, frame.height)) {
		const text = offset === 0 ? "0" : `+${bytes(offset)}`;
		context.fillText(text, frame.left - 8, scale.y(offset));
	}
}

function faultColour() {
	return categoryColours("direction", ["page fault"], [0], new Map())[0];
}

/* Beside the touches, not among them: the kernel gave a page, once for each. */
function drawFaults(context, frame, { width, height }, faults, colour) {
	const [stepX, stepY] = [frame.width / width, frame.height / height];
	context.fillStyle = colour;
	faults.forEach((n, i) => {
		const [row, column] = [Math.floor(i / width), i % width];
		if (n > 0)
			context.fillRect(frame.left + column * stepX,
				frame.bottom - row * stepY - 1.5, stepX, 1.5);
	});
}

function faultKey(colour, n) {
	const swatch = h("span", { class: "swatch heat-fault", "aria-hidden": "true" });
	swatch.style.background = colour;
	return [swatch, `page faults: ${count(n)}`];
}

/**
 * @param {Object} heat  of the answer `object`
 * @param {{ from: number, to: number }} span  that its columns cover
 * @param {() => Object} theme
 * @returns {{ element: HTMLElement, draw: () => void }}
 */
export function createHeat(heat, span, theme) {
	const counts = unpack16(heat.packed);
	const faults = unpack16(heat.faults);
	const sumOf = (numbers) => numbers.reduce((a, b) => a + b, 0);
	const sum = sumOf(counts);
	const nFaults = sumOf(faults);
	const picture = { width: heat.width, height: heat.height, counts, category: counts };
	const canvas = h("canvas", { role: "img", "aria-label":
		`Touches by offset and time: ${count(sum)}, and ${count(nFaults)} page faults, `
		+ `in ${bytes(heat.size)}, ` + interval(span.from, span.to) });
	const key = h("div", { class: "legend heat-key" });
	const said = h("p", { class: "foot", "aria-live": "off" }, "");
	const box = h("div", { class: "heat" }, canvas);

	const draw = framed(() => {
		const style = getComputedStyle(document.documentElement);
		const { clientWidth: width, clientHeight: height } = box;
		if (width === 0)
			return;
		const look = theme();
		key.replaceChildren(...createRamp(mostOf(counts), look.dark),
			h("span", { class: "swatch heat-none" }), "no touch seen",
			...(nFaults ? faultKey(faultColour(), nFaults) : []));
		const context = contextOf(canvas, width, height);
		const frame = frameOf(width, height, BELOW);
		const scale = scaleOf(frame, { ...span, low: 0, high: heat.size });
		const image = touchImage(picture, {
			colours: [], hidden: new Set(), byDensity: true, dark: look.dark });
		context.font = `12px ${style.getPropertyValue("--font")}`;
		context.fillStyle = look.block;
		context.fillRect(frame.left, frame.top, frame.width, frame.height);
		context.imageSmoothingEnabled = false;
		context.drawImage(image, frame.left, frame.top, frame.width, frame.height);
		drawFaults(context, frame, heat, faults, faultColour());
		drawAxes(context, frame, scale, { span, size: heat.size, theme: look });
	});

	canvas.addEventListener("pointermove", (event) => {
		const frame = frameOf(box.clientWidth, box.clientHeight, BELOW);
		const scale = scaleOf(frame, { ...span, low: 0, high: heat.size });
		const column = Math.floor((event.offsetX - frame.left) / frame.width * heat.width);
		const row = Math.floor((frame.bottom - event.offsetY) / frame.height * heat.height);
		const isIn = column >= 0 && column < heat.width && row >= 0 && row < heat.height;
		const time = moment(scale.time(event.offsetX), (span.to - span.from) / heat.width);
		const [low, high] = [row, row + 1].map((i) => bytes(i / heat.height * heat.size));
		const at = row * heat.width + column;
		const texts = [plural(counts[at], "touch", "touches"),
			faults[at] ? plural(faults[at], "page fault") : ""].filter(Boolean);
		said.textContent = isIn
			? `${time}, offset ${low}-${high}: ${texts.join(", ")}` : "";
	});
	new ResizeObserver(draw).observe(box);
	return { element: h("div", {}, box, key, said), draw, sum: sum + nFaults };
}
