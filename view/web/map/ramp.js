/**
 * The scale of colours that tell how many touches a cell has, from 1 to the most that one has: the
 * legend of time x address by density, and of offset x time.
 */
import { h } from "memsight/dom";
import { count } from "memsight/format";
import { touchImage } from "memsight/picture";

const STEPS = 120;

/**
 * The touches of a cell at 0 to 1 of the scale, which is that of touchImage: the logarithm of 1 +
 * n.
 */
export function rampCount(part, most) {
	const [low, high] = [Math.log1p(1), Math.log1p(Math.max(most, 1))];
	return Math.expm1(low + part * (high - low));
}

function strip(most, dark) {
	const part = (_, i) => rampCount(i / (STEPS - 1), most);
	const counts = Float64Array.from({ length: STEPS }, part);
	return touchImage({ width: STEPS, height: 1, counts, category: counts },
		{ colours: [], hidden: new Set(), byDensity: true, dark });
}

/**
 * @param {number} most  touches of the fullest cell
 * @returns {Element[]}  to stand in a legend
 */
export function createRamp(most, dark) {
	const canvas = h("canvas", {
		class: "ramp", width: STEPS, height: 12, "aria-hidden": "true" });
	canvas.getContext("2d").drawImage(strip(most, dark), 0, 0, STEPS, canvas.height);
	const middle = Math.round(rampCount(0.5, most));
	const end = (n) => h("span", {}, count(n));
	const ends = h("span", { class: "ramp-ends" }, end(1),
		middle > 1 && middle < most ? end(middle) : "", most > 1 ? end(most) : "");
	const label = `Colours: 1 to ${count(most)} touches in a cell, logarithmic`;
	return [h("figure", { class: "ramp-of", role: "img", "aria-label": label }, canvas, ends),
		h("span", {}, most > 1 ? "touches in a cell (logarithmic)" : "touch in a cell")];
}

/** The fullest cell of a picture. */
export function mostOf(counts) {
	return counts.reduce((a, b) => Math.max(a, b), 0);
}
