/**
 * What lies under the pointer or the cross-hair of time x address: told in the box beside it, and
 * opened.
 */
import { bandName } from "memsight/axis";
import { rowsOf } from "memsight/data";
import { debounced } from "memsight/dom";
import { blockAt, cellAt, nearestPoint } from "memsight/lookup";
import { createTip, tipRows } from "memsight/tip";

/** What lies at a place of the canvas, as far as the picture tells. */
function lookAt(layers, scale, at) {
	const { picture, hidden } = layers.at(scale.time(at.x), scale.at(at.y));
	const point = nearestPoint(picture, scale, at, hidden);
	const time = Math.round(point >= 0 ? picture.points.time_ns[point] : scale.time(at.x));
	const y = Math.round(point >= 0 ? picture.points.y[point] : scale.at(at.y));
	const cell = picture.nPoints > 0 ? -1 : cellAt(picture, time, y);
	const block = blockAt(picture, time, y);
	const site = block >= 0 ? picture.blocks.site[block] : null;
	const kind = cell >= 0 ? picture.categories[picture.category[cell]] : null;
	return {
		time, y, step: 1 / scale.xUnit,
		address: layers.axis.addressOf(y), band: bandName(layers.axis.bandAt(y)),
		n: cell >= 0 ? picture.counts[cell] : null, category: kind?.name ?? null,
		sample: point >= 0 ? picture.points.sample[point] : null,
		block: block >= 0 ? picture.blocks.id[block] : null,
		site: block < 0 && point >= 0 ? picture.points.site[point] : site,
		name: block >= 0 ? layers.siteNames.get(site) : null,
	};
}

/**
 * @param {Element} region  that the box stands in
 * @param {{ scale: () => Object, frame: () => Object, draw: () => void }} plot
 * @returns {{ place: { x: number, y: number }|null, hover(at), leave(), hide(), open(at) }}
 *   places are pixels of the region
 */
export function createPointer(region, app, layers, plot) {
	const tip = createTip(region);
	let cursor = null;

	/** "main 4711" of a thread.id. */
	function threadName(id) {
		const row = rowsOf(app.run.threads).find((thread) => thread.id === id);
		return row ? [row.name, row.tid].filter(Boolean).join(" ") : id;
	}

	function askAt(here) {
		const half = Math.ceil(here.step * 2);
		const from = Math.max(0, here.time - half);
		const to = here.time + half + 1;
		const { runId: run, processId: process } = app;
		return app.ask("at", { run, process, address: here.address, from, to }, tip);
	}

	const askSoon = debounced(110, async (at, here) => {
		try {
			const answer = await askAt(here);
			if (cursor && tip.isShown())
				tip.show(at, tipRows(here, answer, threadName));
		} catch {
			// the box then says what the picture tells
		}
	});

	function leave() {
		askSoon.cancel();
		tip.hide();
		cursor = null;
		plot.draw();
	}

	function hover(at) {
		const { left, right, top, bottom } = plot.frame();
		if (!layers.current || at.x < left || at.x > right || at.y < top || at.y > bottom)
			return leave();
		cursor = at;
		const here = lookAt(layers, plot.scale(), at);
		tip.show(at, tipRows(here, null, threadName));
		if (!app.isStored)
			askSoon(at, here);
		plot.draw();
	}

	/** Opens the page of what is there. */
	async function open(at) {
		if (!layers.current)
			return;
		const here = lookAt(layers, plot.scale(), at);
		if (here.block === null && !app.isStored) {
			try {
				const answer = await askAt(here);
				here.block = answer.owner === "heap" ? answer.id : null;
				here.site = answer.site ?? here.site;
			} catch (error) {
				return app.say(error.message);
			}
		}
		if (here.block === null && !here.site)
			return app.say("No object that has a page lies there.");
		tip.hide();
		const isHeld = app.holds("object", { run: app.runId, block: here.block });
		const block = isHeld || !here.site ? here.block : null;
		app.set({ page: "object", block, site: here.site });
	}

	return { get place() { return cursor; }, hover, leave, open, hide: tip.hide };
}
