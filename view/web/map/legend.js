/**
 * The legend of a picture: what each colour and mark is, how many touches it has, and switches for
 * them; and what is counted.
 */
import { h } from "memsight/dom";
import { bytes, count, duration, plural } from "memsight/format";
import { drawMark } from "memsight/marks";
import { PAGE_COLOURS } from "memsight/palette";
import { createRamp, mostOf } from "memsight/ramp";

function swatch(i, colour) {
	const canvas = h("canvas", {
		width: 28, height: 28, class: "swatch", "aria-hidden": "true" });
	const context = canvas.getContext("2d");
	context.fillStyle = colour;
	drawMark(context, i, 14, 14, 7);
	return canvas;
}

/** Of pages: what is in the picture. */
function pageKeys({ pages }) {
	const key = ({ colour, text }) => {
		const swatch = h("span", { class: "swatch heat-none", "aria-hidden": "true" });
		swatch.style.background = colour;
		return [swatch, h("span", { class: "key-name" }, text)];
	};
	return PAGE_COLOURS.filter(({ name }) => pages?.[name].some((share) => share > 0))
		.flatMap(key);
}

/** What one number of the picture stands for, in sentences. */
export function countedAs(picture, run) {
	const unit = picture.n_samples > 0 && picture.unit ? ` (${picture.unit})` : "";
	const where = picture.isOther ? "In the stored picture" : "In view";
	const touches = plural(picture.n_samples, "touch", "touches");
	const parts = [`${where}: ${touches}${unit}, ${plural(picture.n_blocks, "block")}`];
	if (run.n_blocks === 0)
		parts.push("no allocation was recorded in this run");
	if (picture.stride > 1)
		parts.push(`only one touch in ${count(picture.stride)} was looked at; `
			+ "counts are not scaled up");
	if (picture.cell_ns > 0)
		parts.push(`counted in cells of ${duration(picture.cell_ns)} `
			+ `x ${bytes(picture.cell_bytes)}`);
	if (run.n_samples === 0 && picture.pages)
		parts.push("no source took samples in this run; what is known of pages is exact");
	else if (run.n_samples === 0)
		parts.push("no source took samples in this run, so it is not known what was "
			+ "touched (the page Run says why)");
	else if (picture.n_samples === 0)
		parts.push("no sample was taken of anything here");
	else
		parts.push(picture.nPoints > 0 ? "each touch is drawn as a mark"
			: "a cell has the colour of the category with most of its touches, "
				+ "stronger the more there are");
	return parts.join("; ") + ".";
}

/**
 * @param {Element} root
 * @param {Object} picture  as of readPicture
 * @param {{ colours: string[], hidden: Set<number>, byDensity: boolean, dark: boolean,
 *   onToggle: (id: number) => void }} how
 */
export function drawLegend(root, picture, { colours, hidden, byDensity, dark, onToggle }) {
	const active = document.activeElement;
	const focused = root.contains(active) ? active.dataset.category : null;
	const entries = picture.categories.map((category, i) => ({ ...category, i }))
		.filter(({ n, i }) => n > 0 || hidden.has(i));
	const key = ({ i, id, name, n }) => {
		const isHidden = hidden.has(i);
		return h("button", {
			type: "button", class: "key", "data-category": i,
			"aria-pressed": isHidden ? "false" : "true",
			title: `${isHidden ? "Show" : "Hide"} ${name}`,
			onclick: () => onToggle(id),
		}, swatch(i, colours[i]), h("span", { class: "key-name" }, name || "unknown"),
		h("span", { class: "key-count" }, count(n)));
	};
	root.replaceChildren(...(byDensity ? createRamp(mostOf(picture.counts), dark)
		: entries.map(key)), ...pageKeys(picture));
	if (focused !== null)
		root.querySelector(`[data-category="${focused}"]`)?.focus();
}
