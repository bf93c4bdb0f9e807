/**
 * A table that is sorted by clicking on its heads, and long ones shown a part at a time. On a
 * narrow screen each row becomes a card whose lines name their column (panels.css).
 *
 * @typedef {Object} Column
 * @property {string} key
 * @property {string} title
 * @property {string} [help]       what the column holds, with its unit
 * @property {boolean} [isNumber]  stands to the right
 * @property {boolean} [isFixed]   is not sorted by
 * @property {(row: Object) => any} [cell]  text or node; without it row[key]
 * @property {(row: Object) => any} [order] what it is sorted by; without it row[key]
 */
import { h, scrolled } from "memsight/dom";
import { count, isKnown } from "memsight/format";

/** A column of numbers; `cell` writes one. */
export function numberColumn(key, title, cell, more = {}) {
	return { key, title, isNumber: true, cell, ...more };
}

function compare(a, b) {
	if (!isKnown(a) || !isKnown(b))
		return isKnown(b) - isKnown(a);
	return typeof a === "string" ? a.localeCompare(b) : a - b;
}

/**
 * Rows in the order of a column; equal ones stay as they were, and what is not known comes last.
 */
export function sorted(rows, column, isDescending) {
	const value = column.order ?? ((row) => row[column.key]);
	return [...rows].sort((a, b) => {
		const [x, y] = [value(a), value(b)];
		const isBackwards = isDescending && isKnown(x) && isKnown(y);
		return isBackwards ? compare(y, x) : compare(x, y);
	});
}

function head(column, sort, onSort) {
	const isSorted = sort?.key === column.key;
	const state = isSorted ? (sort.isDescending ? "descending" : "ascending") : "none";
	const attributes = {
		scope: "col", title: column.help, class: column.isNumber ? "number" : null };
	if (column.isFixed || !onSort)
		return h("th", attributes, column.title);
	const arrow = isSorted ? (sort.isDescending ? " ▼" : " ▲") : "";
	const turned = isSorted ? !sort.isDescending : Boolean(column.isNumber);
	const button = h("button", { type: "button", class: "sort", "data-key": column.key,
		onclick: () => onSort({ key: column.key, isDescending: turned }) },
	column.title, h("span", { "aria-hidden": "true" }, arrow));
	return h("th", { ...attributes, "aria-sort": state }, button);
}

function line(row, columns, onRow) {
	const element = h("tr", {}, columns.map((column) => {
		const attributes = {
			class: column.isNumber ? "number" : null, "data-title": column.title };
		const content = column.cell ? column.cell(row) : row[column.key] ?? "-";
		const cell = h("td", attributes, content);
		/* A card needs no line for it. */
		cell.classList.toggle("none", cell.textContent === "-");
		return cell;
	}));
	onRow?.(element, row);
	return element;
}

/**
 * @param {Object} how
 * @param {string} how.caption
 * @param {boolean} [how.isCaptionHidden]  the heading above says the same
 * @param {Column[]} how.columns
 * @param {{ key: string, isDescending: boolean }} [how.sort]  at first
 * @param {(sort: Object) => void} [how.onSort]  who sorts; without it the table does
 * @param {number} [how.part]   rows that are shown at first, and with each "more"
 * @param {(element: Element, row: Object) => void} [how.onRow]
 * @returns {{ element: Element, show: (rows: Object[], sort?: Object) => void }}
 */
export function createGrid(how) {
	const isNarrow = matchMedia("(max-width: 700px)").matches; // rows are cards there
	const part = Math.min(how.part ?? 50, isNarrow ? 12 : Infinity);
	const headRow = h("tr");
	const body = h("tbody");
	const more = h("div", { class: "grid-more" });
	const caption = h("caption", { class: how.isCaptionHidden ? "unseen" : null }, how.caption);
	const element = h("div", { class: "grid" },
		scrolled(how.caption, h("table", {}, caption, h("thead", {}, headRow), body)),
		more);
	let rows = [];
	let sort = how.sort ?? null;
	let limit = part;

	function sortBy(wanted) {
		sort = wanted;
		limit = part;
		if (how.onSort)
			how.onSort(wanted);
		else
			draw();
	}

	function showMore() {
		limit += part;
		draw();
	}

	function draw() {
		const active = document.activeElement;
		const focused = headRow.contains(active) ? active.dataset.key : null;
		headRow.replaceChildren(...how.columns.map((column) => head(column, sort, sortBy)));
		if (focused)
			headRow.querySelector(`[data-key="${focused}"]`)?.focus();
		const key = how.onSort ? null : sort?.key;
		const column = key && how.columns.find((one) => one.key === key);
		const ordered = column ? sorted(rows, column, sort.isDescending) : rows;
		body.replaceChildren(...ordered.slice(0, limit)
			.map((row) => line(row, how.columns, how.onRow)));
		const left = rows.length - limit;
		const button = h("button", { type: "button", onclick: showMore },
			`Show ${count(Math.min(part, left))} more of ${count(left)}`);
		more.replaceChildren(...(left > 0 ? [button] : []));
	}
	return {
		element,
		show(next, order = sort) {
			rows = next;
			sort = order;
			limit = part;
			draw();
		},
	};
}
