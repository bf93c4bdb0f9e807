/**
 * Words of the panel time x address: how it is read, what it can be coloured by, what it shows, why
 * it is empty.
 */
import { bytes, count, duration, interval, plural } from "memsight/format";

export const HELP = "Time runs to the right, addresses upwards. Parts of the address space that "
	+ "nothing lay in are left out: a slanted double stroke at the axis marks each hole. Grey "
	+ "is memory in blocks, from allocation to free; coloured marks are touches, which the "
	+ "recorder's sources saw (a sample, not all of them). Wheel: zoom (shift: time only, alt "
	+ "or ctrl: addresses only). Drag: move. Shift and drag, or Select: zoom to a box. "
	+ "Double click, Escape or 0: all. Click or Enter: the object. Arrow keys move, with shift "
	+ "they move the cross-hair, + and - zoom. The time in view is what all other panels "
	+ "count, of all processes and addresses.";

const TOTALS_ONLY = "This run has totals only: of the repetitions of a mode one was imported "
	+ "with all its rows, and of the others the sums, which the pages Objects and Run show. "
	+ "memsight analyze --all imports every one to be seen over time.";
const NOTHING = "Nothing was recorded in this run: no allocation and no sample. The page Run "
	+ "says which sources ran and what hindered the others.";
const NO_PICTURE = "Nothing in this run has an address: no allocation, and no sample of memory.";

/** Colours to choose; `has` names what the run must have for it. */
export const COLOURS = [
	{ id: "direction", text: "read or write" },
	{ id: "thread", text: "thread" },
	{ id: "level", text: "memory level", has: "has_levels" },
	{ id: "latency", text: "latency", has: "has_latency" },
	{ id: "source", text: "source" },
	{ id: "density", text: "number of touches" },
];

/** Why there is nothing to draw, or null. */
export function emptyText(app) {
	const run = app.runs.find((row) => row.id === app.runId);
	if (run.detail === "totals")
		return TOTALS_ONLY;
	if (run.n_blocks === 0 && run.n_samples === 0)
		return NOTHING;
	return app.run.has_picture ? null : NO_PICTURE;
}

function partText({ from, to, low, high }) {
	return `${interval(from, to)}, ${bytes(high - low)} of addresses`;
}

/** For who does not see it. */
export function describeView(picture, view, axis) {
	const names = picture.categories.filter(({ n }) => n > 0).slice(0, 6)
		.map(({ name, n }) => `${name || "unknown"} ${count(n)}`);
	const isShown = (band) => band.y < view.high && band.y + band.size > view.low;
	const ranges = plural(axis.bands.filter(isShown).length, "range");
	const blocks = plural(picture.n_blocks, "block");
	const touches = plural(picture.n_samples, "touch", "touches");
	const kinds = names.length ? ` (${names.join(", ")})` : "";
	return `Time ${partText(view)} in ${ranges}: ${blocks}, ${touches}${kinds}.`;
}

/** Of an exported file: how far what is drawn is what was asked for. */
export function storedText(picture, finest) {
	if (!picture.stored)
		return "";
	const time = duration((finest.to - finest.from) / finest.width);
	const cells = `cells of ${time} x ${bytes((finest.high - finest.low) / finest.height)}`;
	if (!picture.isOther)
		return ` Drawn from what this file holds: ${cells}.`;
	return " This file does not hold exactly this view; what is nearest is drawn, "
		+ `in ${cells}. The counts are of ${partText(picture)}.`;
}
