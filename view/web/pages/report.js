/**
 * Lists of `memsight report` as tables: the same rows, columns and notes. What a list is called is
 * chosen where pages are put together (memsight/app).
 */
import { h } from "memsight/dom";
import {
	bytes, capital, count, duration, estimate, isKnown, percent, share, withInterval,
} from "memsight/format";
import { MOST_ROWS, saver } from "memsight/csv";
import { createGrid } from "memsight/grid";
import { createPane } from "memsight/pane";
import { lineDetail } from "memsight/shared-line";
import { oneLine, plainText, siteOf, siteText } from "memsight/site-text";
import { siteStack } from "memsight/source-text";
import { seconds } from "memsight/units";

const PART = 30;

/** How a column is shown: [text of a cell, how many of the columns behind it belong to it]. */
const KINDS = {
	count: [count, 0],
	bytes: [bytes, 0],
	duration: [duration, 0],
	time: [seconds, 0],
	percent: [percent, 0],
	share: [share, 2],
	share_half: [(value, half) => share(value, value - half, value + half), 1],
	with_interval: [withInterval, 2],
	bytes_estimate: [(value, low, high) => estimate(value, low, high, bytes), 2],
	count_estimate: [(value, low, high) => estimate(value, low, high, count), 2],
	percent_change: [(value) => `${value > 0 ? "+" : ""}${(100 * value).toFixed(1)} %`, 0],
};

/** What a row can be opened for. */
const DETAILS = { sharing: lineDetail };

/* Ends of an interval may be known where the number is not. */
function cellText(write, values) {
	return values.some(isKnown) ? write(...values) : "-";
}

function headOf(name) {
	return name === "rss" ? "RSS" : capital(name);
}

function numberColumnAt(name, at, [write, more]) {
	const valuesOf = (row) => row.values.slice(at, at + 1 + more);
	return { key: String(at), title: headOf(name), isNumber: true,
		cell: (row) => cellText(write, valuesOf(row)),
		order: (row) => valuesOf(row).find(isKnown) ?? null };
}

function textColumnAt(app, name, at, isName) {
	const text = (row) => plainText(row.values[at] ?? "-");
	return { key: String(at), title: headOf(name), isWide: isName, order: text,
		isNumber: false, cell: (row) => (typeof row.values[at] === "string"
			? oneLine(text(row), siteText(app, row.values[at])) : text(row)) };
}

/* What names the rows stands in front, as in the table of objects: reports have it last. */
function columnsOf(app, { kinds, names }) {
	const columns = [];
	for (let at = 0; at < names.length; at++) {
		const kind = KINDS[kinds[at]];
		columns.push(kind ? numberColumnAt(names[at], at, kind)
			: textColumnAt(app, names[at], at, at === names.length - 1));
		at += kind?.[1] ?? 0;
	}
	return [columns.at(-1), ...columns.slice(0, -1)];
}

/* A column without any number says nothing. */
function toldColumns(columns, rows) {
	return columns.filter((column, i) => i === 0
		|| rows.some((row) => column.order(row) !== null && column.order(row) !== "-"));
}

function notes(text) {
	const lines = String(text ?? "").split("\n").filter(Boolean);
	return lines.map((line) => h("p", {}, capital(line)));
}

function spanText(app, isPart) {
	if (app.span().isAll && app.counted().isAll)
		return "";
	return isPart ? `${capital(app.partText())}.`
		: "Of the whole run: this list does not follow the selected time.";
}

/**
 * @param {Object} list  { kind, title, help, isRare: is it hidden where it has no rows }
 */
export function create(root, app, list) {
	const pane = createPane(root, list.title, list.help, () => load());
	let asked = "";

	root.hidden = list.isRare === true;

	function request() {
		return { run: app.runId, kind: list.kind, ...app.names(), ...app.part() };
	}

	/* Also those that the page does not list; an exported file has no others. */
	async function allRows() {
		const { names, rows } = await app.ask("report", {
			...request(), limit: MOST_ROWS });
		const plain = (value) => (typeof value === "string" ? plainText(value) : value);
		return [names, rows.map((values) => values.map(plain))];
	}

	function draw(answer) {
		const { n_all: nAll, foot } = answer;
		const rows = answer.rows.map((values) => ({ values }));
		root.hidden = list.isRare === true && rows.length === 0;
		pane.foot.replaceChildren(...[spanText(app, answer.is_part === 1)].filter(Boolean)
			.map((text) => h("p", {}, text)));
		if (rows.length === 0) {
			pane.empty(plainText(foot));
			return;
		}
		const detail = DETAILS[list.kind];
		const grid = createGrid({
			caption: answer.title, part: PART,
			columns: toldColumns(columnsOf(app, answer), rows),
			save: saver(app, list.kind, allRows),
			detail: (row) => detail?.(app, answer.names, row.values)
				?? wholeRow(app, row),
		});
		grid.show(rows);
		pane.body.replaceChildren(grid.element);
		if (nAll > rows.length)
			pane.foot.append(h("p", {}, `The first ${count(rows.length)} of `
				+ `${count(nAll)} rows; memsight report --${list.kind} has all.`));
		pane.foot.append(...notes(foot));
	}

	function load() {
		const wanted = request();
		asked = JSON.stringify([wanted, app.span()]);
		return pane.show(app.ask("report", wanted, pane), draw);
	}

	return {
		update() {
			if (asked !== JSON.stringify([request(), app.span()]))
				load();
		},
	};
}

/** Every part of a path on a line of its own. */
function wholeRow(app, { values }) {
	const text = String(values.at(-1) ?? "");
	return siteStack(app, siteOf(text), plainText(text));
}
