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
 * @property {boolean} [isWide]    takes the room that the others leave, on one line
 * @property {boolean} [isRest]    shown where a screen is wide enough (panels.css)
 * @property {(row: Object) => any} [cell]  text or node; without it row[key]
 * @property {(row: Object) => any} [order] what it is sorted by; without it row[key]
 */
import { h, scrolled } from "memsight/dom";
import { count, isKnown } from "memsight/format";

const ROW = 40; // pixels of a row and what goes with it: a high screen shows more of them

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

function classOf({ isNumber, isWide, isRest }) {
	const names = [isNumber && "number", isWide && "wide", isRest && "rest"].filter(Boolean);
	return names.length ? names.join(" ") : null;
}

function head(column, sort, onSort) {
	const isSorted = sort?.key === column.key;
	const state = isSorted ? (sort.isDescending ? "descending" : "ascending") : "none";
	const attributes = { scope: "col", title: column.help, class: classOf(column) };
	if (column.isFixed || !onSort)
		return h("th", attributes, column.title);
	const arrow = isSorted ? (sort.isDescending ? " ▼" : " ▲") : "";
	const turned = isSorted ? !sort.isDescending : Boolean(column.isNumber);
	const button = h("button", { type: "button", class: "sort", "data-key": column.key,
		onclick: () => onSort({ key: column.key, isDescending: turned }) },
	column.title, h("span", { "aria-hidden": "true" }, arrow));
	return h("th", { ...attributes, "aria-sort": state }, button);
}

function cellOf(row, column) {
	const content = column.cell ? column.cell(row) : row[column.key] ?? "-";
	const cell = h("td", { class: classOf(column), "data-title": column.title }, content);
	/* A card needs no line for it. */
	cell.classList.toggle("none", cell.textContent === "-");
	return cell;
}

/* The rest of a row, below it, once it is asked for. */
function opener(element, row, columns, detail) {
	const below = h("tr", { class: "detail", hidden: true },
		h("td", { colspan: columns.length + 1 }));
	const onclick = () => {
		below.hidden = !below.hidden;
		button.setAttribute("aria-expanded", String(!below.hidden));
		if (!below.hidden && !below.firstChild.hasChildNodes())
			below.firstChild.append(detail(row));
	};
	const button = h("button", { type: "button", class: "open", "aria-expanded": "false",
		"aria-label": "More of this row", onclick });
	element.prepend(h("td", { class: "open-cell" }, button));
	return below;
}

function lines(row, columns, { detail, onRow }) {
	const element = h("tr", {}, columns.map((column) => cellOf(row, column)));
	onRow?.(element, row);
	return detail ? [element, opener(element, row, columns, detail)] : [element];
}

/**
 * @param {Object} how
 * @param {string} how.caption
 * @param {boolean} [how.isCaptionHidden]  the heading above says the same
 * @param {Column[]} how.columns
 * @param {{ key: string, isDescending: boolean }} [how.sort]  at first
 * @param {(sort: Object) => void} [how.onSort]  who sorts; without it the table does
 * @param {number} [how.part]   rows that are shown at first, and with each "more", more on a high
 *   screen
 * @param {(element: Element, row: Object) => void} [how.onRow]
 * @param {(row: Object) => Element} [how.detail]  what a row can be opened for
 * @param {() => void} [how.save]  what the button "Save as CSV" does (memsight/csv)
 * @returns {{ element: Element, show: (rows: Object[], sort?: Object) => void,
 *   refresh: (rows: Object[]) => void }}
 */
export function createGrid(how) {
	const isNarrow = matchMedia("(max-width: 700px)").matches; // rows are cards there
	const least = Math.max(how.part ?? 50, Math.floor(innerHeight / ROW));
	const part = isNarrow ? Math.min(how.part ?? 50, 12) : least;
	const headRow = h("tr");
	const body = h("tbody");
	const more = h("div", { class: "grid-more" });
	const caption = h("caption", { class: how.isCaptionHidden ? "unseen" : null }, how.caption);
	const element = h("div", { class: "grid" },
		scrolled(`Table: ${how.caption}`,
			h("table", {}, caption, h("thead", {}, headRow), body)),
		more);
	let rows = [];
	let sort = how.sort ?? null;
	let limit = part;
	let isPressed = false; // a click on what is drawn anew meanwhile would be lost
	let isLate = false;

	element.addEventListener("pointerdown", () => { isPressed = true; });
	for (const kind of ["pointerup", "pointercancel"])
		addEventListener(kind, () => setTimeout(() => {
			isPressed = false;
			if (isLate)
				draw();
		}));

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

	const saveButton = how.save && h("button", {
		type: "button", class: "save", onclick: how.save }, "Save as CSV");

	function draw() {
		isLate = false;
		const active = document.activeElement;
		const focused = element.contains(active) ? active.dataset.key : null;
		const openers = how.detail
			? [h("td", { class: "open-cell" })] : []; // a head would need a name
		headRow.replaceChildren(...openers,
			...how.columns.map((column) => head(column, sort, sortBy)));
		const key = how.onSort ? null : sort?.key;
		const column = key && how.columns.find((one) => one.key === key);
		const ordered = column ? sorted(rows, column, sort.isDescending) : rows;
		body.replaceChildren(...ordered.slice(0, limit)
			.flatMap((row) => lines(row, how.columns, how)));
		const left = rows.length - limit;
		const button = h("button", { type: "button", onclick: showMore },
			`Show ${count(Math.min(part, left))} more of ${count(left)}`);
		more.replaceChildren(...[left > 0 && button, rows.length > 0 && saveButton]
			.filter(Boolean));
		if (focused)
			element.querySelector(`[data-key="${focused}"]`)?.focus({
				preventScroll: true });
	}
	return {
		element,
		/** Newer rows of the same table: as many are shown as before. */
		refresh(next) {
			rows = next;
			isLate = isPressed;
			if (!isLate)
				draw();
		},
		show(next, order = sort) {
			rows = next;
			sort = order;
			limit = part;
			draw();
		},
	};
}
