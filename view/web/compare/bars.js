/**
 * Bars: a list with one bar per row for amounts by name, columns of two stacked parts for amounts
 * along an axis.
 */
import { h, scrolled } from "memsight/dom";
import { svg } from "memsight/spark";

/**
 * @param {string} caption
 * @param {{ label: string|Node, value: number, text: string }[]} rows
 *   text: the value as people read it
 */
export function barList(caption, rows) {
	const most = rows.reduce((best, { value }) => Math.max(best, value), 0) || 1;
	const line = ({ label, value, text }) => {
		const bar = h("div", { class: "bar-fill" });
		bar.style.width = `${100 * value / most}%`;
		return h("tr", {},
			h("th", { scope: "row" }, label),
			h("td", { class: "bar-cell" }, bar),
			h("td", { class: "number" }, text));
	};
	return scrolled(caption, h("table", { class: "bars" },
		h("caption", {}, caption), h("tbody", {}, rows.map(line))));
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
	const sums = columns.map(({ first, second }) => first + second);
	const most = Math.max(...sums, 0) || 1;
	const picture = svg("svg", {
		viewBox: `0 0 ${columns.length} 100`, preserveAspectRatio: "none", role: "img",
		"aria-label": caption, class: "columns" });
	columns.forEach(({ first, second, title }, i) => {
		const [low, high] = [100 * first / most, 100 * second / most];
		const part = (y, height, fill) =>
			svg("rect", { x: i + 0.06, y, width: 0.88, height, fill });
		picture.append(svg("g", {}, svg("title", {}, title),
			svg("rect", { x: i, y: 0, width: 1, height: 100, fill: "transparent" }),
			part(100 - low, low, colours[0]),
			part(100 - low - high, high, colours[1])));
	});
	return h("figure", { class: "histogram" }, h("figcaption", {}, caption), picture,
		h("div", { class: "ends" }, h("span", {}, ends.low), h("span", {}, ends.high)));
}
