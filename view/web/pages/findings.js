/**
 * The first page: what stands out, as `memsight report --findings` has it, each finding with its
 * size, its threshold and the page to look at next; and the run in a few numbers.
 */
import { rowsOf } from "memsight/data";
import { h } from "memsight/dom";
import {
	bytes, capital, count, duration, isKnown, percent, plural, share,
} from "memsight/format";
import { createPane } from "memsight/pane";
import { plainText, siteText } from "memsight/site-text";
import { valueText } from "memsight/units";

const HELP = "What stands out by fixed rules (docs/findings.md), the largest part of its whole "
	+ "first. What is counted is exact, but for blocks of a run that picked some of them "
	+ "(--sample-bytes); what is sampled is said only where the low end of its "
	+ "95 % interval is above the threshold.";

const SHARES = ["CPU time", "accesses"]; // units of sizes that are 0 to 1

/* "20.0 MiB, 61.0 % of the peak" */
function sizeText({ size, low, high, unit, weight, whole_is: whole }) {
	if (SHARES.includes(unit))
		return `${share(size, low, high)} of ${unit}`;
	const ends = low !== high ? ` (${valueText(low, unit)} to ${valueText(high, unit)})` : "";
	return `${valueText(size, unit)}${ends}, ${percent(weight)} of ${whole}`;
}

function card(app, row) {
	const report = /--([a-z-]+)/.exec(row.next ?? "")?.[1];
	const page = app.pageOf(report);
	return h("li", { class: "finding", "data-rule": row.rule },
		h("div", { class: "finding-head" },
			h("strong", {}, capital(row.rule)),
			h("span", { class: "finding-size" }, sizeText(row))),
		h("p", {}, siteText(app, row.text), /…\x1e?$/.test(row.text) ? "" : "."),
		h("p", { class: "muted" }, `Said from: ${row.threshold}. `,
			page ? h("a", { href: app.link({ page }) }, `Look at ${report}`) : ""));
}

function cards(rows) {
	const one = ([name, value, small]) => h("div", { class: "card" },
		h("dt", {}, name), h("dd", {}, value), h("dd", { class: "small" }, small));
	return h("dl", { class: "cards" }, rows.map(one));
}

/** The run in numbers, as [name, value, small print]. */
function facts(app) {
	const { run, totals = {}, sources, losses } = app.run;
	const sampled = rowsOf(sources).filter(({ n_samples: n }) => n > 0);
	const times = sampled.filter(({ measures }) => measures === "time");
	const nTimes = times.reduce((sum, { n_samples: n }) => sum + n, 0);
	const nLost = rowsOf(losses).reduce((sum, row) => sum + row.count, 0);
	const hasBlocks = totals.allocations > 0;
	const threads = app.run.threads?.n ?? 0;
	return [
		["run", duration(app.duration), `${plural(app.processes.length, "process",
			"processes")}, ${plural(threads, "thread")}`],
		["allocations", hasBlocks ? count(totals.allocations) : "-",
			hasBlocks ? `${bytes(totals.bytes)} in all, ${app.exactness()}`
				: "none were recorded"],
		hasBlocks && ["peak", bytes(totals.peak_bytes),
			`live at ${valueText(totals.peak_ns, "ns")}, ${app.exactness()}`],
		hasBlocks && ["not freed", bytes(totals.live_bytes),
			`in ${plural(totals.live_blocks, "block")} at the end`],
		run.max_rss && ["most resident", bytes(run.max_rss), "as the kernel counts it"],
		["samples of CPU time", count(nTimes), nTimes
			? times.map(({ name, unit, period }) => `source ${name}, one in ${
				valueText(period, /^ns\b/.test(unit) ? "ns" : unit)}`).join(", ")
			: "no source of CPU time ran"],
		isKnown(totals.faults) && ["page faults", count(totals.faults), "source faults"],
		["losses", nLost ? count(nLost) : "none",
			nLost ? "see the page Run for what they mean" : "nothing was lost"],
	].filter(Boolean);
}

export function create(root, app) {
	const pane = createPane(root, "Findings", HELP, () => load());
	const list = h("ol", { class: "findings" });
	const numbers = h("div");
	pane.body.append(list, numbers);
	let asked = "";

	function draw(answer) {
		const rowOf = (values) => Object.fromEntries(answer.names.map((name, i) =>
			[name, values[i]]));
		const rows = answer.rows.map(rowOf);
		list.replaceChildren(...(rows.length ? rows.map((row) => card(app, row))
			: [h("li", { class: "finding none" }, plainText(answer.foot))]));
		numbers.replaceChildren(cards(facts(app)));
	}

	function request() {
		return { run: app.runId, kind: "findings", ...app.names() };
	}

	function load() {
		const wanted = request();
		asked = JSON.stringify(wanted);
		return pane.show(app.ask("report", wanted, pane), draw);
	}

	return {
		update() {
			pane.ofWholeRuns(app);
			if (asked !== JSON.stringify(request()))
				load();
		},
	};
}
