/**
 * The controls of time x address: colour, source, range of addresses, box and zoom.
 */
import { bandText } from "memsight/axis";
import { rowsOf } from "memsight/data";
import { h, select } from "memsight/dom";
import { count } from "memsight/format";

function button(text, title, onclick, pressed = null) {
	const attributes = { type: "button", title, "aria-label": title, onclick };
	if (pressed !== null)
		attributes["aria-pressed"] = String(pressed);
	return h("button", attributes, text);
}

function sourceChoice(app) {
	const { runId: run, processId: process } = app;
	const sources = rowsOf(app.run.sources).filter((row) => row.n_samples > 0
		&& app.holds("picture", { run, process, source: row.id }));
	if (sources.length <= (app.isStored ? 0 : 1))
		return "";
	const option = (row) => [row.id, `${row.name} (${count(row.n_samples)})`];
	return select("Source", [["", "all"], ...sources.map(option)], app.state.source ?? "",
		(source) => app.set({ source }));
}

function rangeChoice(app, axis, view) {
	if (axis.bands.length <= 1)
		return "";
	const ranges = [["", "all addresses"], ...axis.bands.map((band, i) => [i, bandText(band)])];
	const isAll = !app.state.low && !app.state.high;
	const isShown = ({ y, size }) => y === view.low && y + size === view.high;
	const inView = isAll ? "" : axis.bands.findIndex(isShown);
	const isPart = inView === -1;
	const options = isPart ? [["-", "part"], ...ranges] : ranges;
	return select("Range", options, isPart ? "-" : inView, (i) => {
		const band = axis.bands[i];
		app.set({ low: band ? band.y : null, high: band ? band.y + band.size : null });
	});
}

/**
 * @param {Element} root  that they are put into
 * @param {{ axis: Object, view: Object, colours: [string, string][], colour: string,
 *   wantsBox: boolean, onBox: () => void, zoom: (factor: number) => void,
 *   reset: () => void }} how
 */
export function drawTools(root, app, how) {
	root.replaceChildren(
		select("Colour", how.colours, how.colour, (by) => app.set({ by })),
		sourceChoice(app), rangeChoice(app, how.axis, how.view),
		button("Select", "Select a box to zoom to (or by shift)", how.onBox, how.wantsBox),
		h("span", { class: "zoom" },
			button("+", "Zoom in", () => how.zoom(0.5)),
			button("−", "Zoom out", () => how.zoom(2)),
			button("All", "Show all of the run and of the addresses (0)", how.reset)));
}
