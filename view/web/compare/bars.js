/**
 * Bars: a list with one bar per row for amounts by name, columns of two stacked parts for amounts
 * along an axis.
 */
import { h } from "memsight/dom";

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
	const element = document.createElementNS(SVG, name);
	for (const [key, value] of Object.entries(attributes))
		element.setAttribute(key, value);
	element.append(...children);
	return element;
}

/**
 * @param {string} caption
 * @param {{ label: string|Node, value: number, text: string }[]} rows  text: the value as people read it
 */
export function barList(caption, rows) {
	const most = rows.reduce((best, { value }) => Math.max(best, value), 0) || 1;
	return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, h("table", { class: "bars" },
		h("caption", {}, caption),
		h("tbody", {}, rows.map(({ label, value, text }) => {
			const bar = h("div", { class: "bar-fill" });
			bar.style.width = `${100 * value / most}%`;
			return h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "bar-cell" }, bar), h("td", { class: "number" }, text));
		}))));
}

/**
 * Columns along an axis; two parts of each stand on each other.
 *
 * @param {string} caption  said to who does not see the picture, too
 * @param {{ first: number, second: number, title: string }[]} columns
 * @param {{ low: string, high: string }} ends  of the axis
 * @param {string[]} colours  of the two parts
 */
export function barColumns(caption, columns, ends, colours) {
	const most = columns.reduce((best, { first, second }) => Math.max(best, first + second), 0) || 1;
	const picture = svg("svg", { viewBox: `0 0 ${columns.length} 100`, preserveAspectRatio: "none", role: "img", "aria-label": caption,
		class: "columns" });
	columns.forEach(({ first, second, title }, i) => {
		const [low, high] = [100 * first / most, 100 * second / most];
		const text = svg("title", {});
		text.textContent = title;
		picture.append(svg("g", {}, text,
			svg("rect", { x: i, y: 0, width: 1, height: 100, fill: "transparent" }),
			svg("rect", { x: i + 0.06, y: 100 - low, width: 0.88, height: low, fill: colours[0] }),
			svg("rect", { x: i + 0.06, y: 100 - low - high, width: 0.88, height: high, fill: colours[1] })));
	});
	return h("figure", { class: "histogram" }, h("figcaption", {}, caption), picture,
		h("div", { class: "ends" }, h("span", {}, ends.low), h("span", {}, ends.high)));
}
