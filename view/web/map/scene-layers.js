/**
 * What the panel time x address has to draw: the axis of its process, the picture of the view,
 * below it that of all of the run and its addresses, which is seen until the other has come, and
 * above it, of an exported file, finer parts.
 */
import { createAxis } from "memsight/axis";
import { rowsOf } from "memsight/data";
import { objectName } from "memsight/format";
import { categoryColours, PAGE_COLOURS } from "memsight/palette";
import { occupancyImage, pagesImage, readPicture, touchImage } from "memsight/picture";
import { sameView } from "memsight/view";

/** Whether a picture reaches over all that there is. */
function isOfAll(picture, whole) {
	return picture.from <= whole.from && picture.to >= whole.to
		&& picture.low === 0 && picture.high >= whole.high;
}

/**
 * @param {() => void} onNames  names of blocks have come
 * @returns {{ axis, current, hidden, siteNames, all, at, loadAxis, load, paint, toggle }}
 *   axis, current: null until they were loaded; hidden: ids of categories; all(): as paintScene
 *   wants them; at(time, y): the finest one there; loadAxis(slot): the axis of the process, true
 *   where it is another one than before; load(wanted, view, whole, slot): the picture of a request;
 *   paint(theme, byDensity): the images anew; toggle(id): a category is hidden or shown again.
 */
export function createLayers(app, onNames) {
	const hidden = new Set();
	const given = new Map(); // colours of categories
	const siteNames = new Map();
	let axis = null;
	let axisOf = ""; // run and process of the axis
	let current = null; // picture, its request and its images
	let backdrop = null;
	let finer = [];

	/** Who allocated: names for large blocks. The picture is there without them. */
	async function loadNames() {
		const largest = { run: app.runId, limit: 200, sort: "bytes", descending: 1 };
		try {
			const answer = await app.ask("objects", largest, siteNames);
			for (const row of rowsOf(answer.rows)) {
				if (row.site !== null)
					siteNames.set(row.site, objectName(row));
			}
			onNames();
		} catch {
			// nothing to tell: blocks then have no names on them
		}
	}

	async function loadAxis(slot) {
		const wanted = `${app.runId} ${app.processId}`;
		if (axisOf === wanted)
			return false;
		const asked = { run: app.runId, process: app.processId };
		axis = createAxis(rowsOf(await app.ask("bands", asked, slot)));
		axisOf = wanted;
		current = backdrop = null;
		finer = [];
		given.clear();
		siteNames.clear();
		loadNames();
		return true;
	}

	function read(answer, wanted, view) {
		const picture = readPicture(answer);
		const isOther = Boolean(answer.stored) && !sameView(picture, view);
		return { ...picture, by: answer.by ?? wanted.by, isOther };
	}

	async function load(wanted, view, whole, slot) {
		const answer = await app.ask("picture", wanted, slot);
		const isOther = current && (current.picture.by !== wanted.by
			|| current.request.source !== wanted.source);
		if (isOther)
			hidden.clear();
		current = { picture: read(answer, wanted, view), request: wanted };
		const parts = answer.stored ? app.parts("picture", wanted) : [];
		finer = parts.filter((part) => part.to - part.from < answer.to - answer.from)
			.map((part) => ({ picture: read(part, wanted, view) }));
		if (isOfAll(current.picture, whole))
			backdrop = current;
		else if (isOther)
			backdrop = null;
	}

	function paint(theme, byDensity) {
		for (const layer of new Set([current, backdrop, ...finer].filter(Boolean))) {
			const { picture } = layer;
			const ids = picture.categories.map(({ id }) => id);
			const names = picture.categories.map(({ name }) => name);
			const colours = categoryColours(picture.by, names, ids, given);
			const hiddenHere = new Set(ids.map((id, i) => (hidden.has(id) ? i : -1)));
			layer.colours = colours;
			layer.hidden = hiddenHere;
			layer.occupancy = occupancyImage(picture, theme.block);
			layer.pages = pagesImage(picture, PAGE_COLOURS);
			layer.touches = touchImage(picture, {
				colours, hidden: hiddenHere, byDensity, dark: theme.dark });
		}
	}

	function isIn({ picture }, time, y) {
		return picture.from <= time && time < picture.to
			&& picture.low <= y && y < picture.high;
	}

	return {
		get axis() { return axis; },
		get current() { return current; },
		siteNames, loadAxis, load, paint,
		all: () => [...(backdrop === current ? [] : [backdrop]), current, ...finer]
			.filter(Boolean),
		at: (time, y) => finer.find((layer) => isIn(layer, time, y)) ?? current,
		/** The finest picture that counts. */
		finest: () => finer[0]?.picture ?? current.picture,
		toggle(id) {
			if (!hidden.delete(id))
				hidden.add(id);
		},
	};
}
