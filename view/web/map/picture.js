/**
 * An answer `picture` as arrays, and its cells as two small images that are scaled onto the canvas.
 */
import { rowsOf, unpack16, unpack8 } from "memsight/data";
import { cividis, rgb, viridis } from "memsight/palette";

const PAGES_ALPHA = 0.45; // touches are above

/** @param {Object} answer  of `picture`, see schemas/view.def */
export function readPicture(answer) {
	return {
		...answer,
		counts: unpack16(answer.counts),
		category: unpack8(answer.category),
		occupancy: unpack8(answer.occupancy),
		pages: answer.pages && Object.fromEntries(Object.entries(answer.pages)
			.map(([name, shares]) => [name, unpack8(shares)])),
		categories: rowsOf(answer.categories),
		blocks: answer.blocks?.columns ?? {},
		nBlocks: answer.blocks?.n ?? 0,
		points: answer.points?.columns ?? {},
		nPoints: answer.points?.n ?? 0,
	};
}

function imageOf({ width, height }, paint) {
	const canvas = document.createElement("canvas");
	canvas.width = width;
	canvas.height = height;
	const context = canvas.getContext("2d");
	const image = context.createImageData(width, height);
	for (let row = 0; row < height; row++) {
		/* The first row holds the lowest addresses, which stand at the bottom. */
		const line = (height - 1 - row) * width;
		for (let column = 0; column < width; column++)
			paint(image.data, 4 * (line + column), row * width + column);
	}
	context.putImageData(image, 0, 0);
	return canvas;
}

/** What part of each cell lies in blocks. */
export function occupancyImage(picture, colour) {
	const [r, g, b] = rgb(colour);
	return imageOf(picture, (data, at, i) => {
		data[at] = r;
		data[at + 1] = g;
		data[at + 2] = b;
		data[at + 3] = picture.occupancy[i];
	});
}

/** What pages say of each cell, or null: the first of the layers that knows something of it. */
export function pagesImage(picture, colours) {
	if (!picture.pages)
		return null;
	const layers = colours.map(({ name, colour }) => [picture.pages[name], rgb(colour)]);
	return imageOf(picture, (data, at, i) => {
		const [shares, colour] = layers.find(([known]) => known[i] > 0) ?? [];
		if (!shares)
			return;
		data.set(colour, at);
		data[at + 3] = shares[i] * PAGES_ALPHA;
	});
}

/** 256 colours from few to many; the ground's side of the scale stands for few. */
function densityColours(dark) {
	const colour = (part) => (dark ? cividis(0.25 + 0.75 * part) : viridis(1 - part));
	return Array.from({ length: 256 }, (_, i) => rgb(colour(i / 255)));
}

/**
 * Touches of each cell: the colour of the category with most of them, stronger the more there are;
 * or how many there are alone (by: "density").
 *
 * @param {{ colours: string[], hidden: Set<number>, byDensity: boolean, dark: boolean }} how
 */
export function touchImage(picture, { colours, hidden, byDensity, dark }) {
	const most = Math.log1p(picture.counts.reduce((a, b) => Math.max(a, b), 1));
	const scale = byDensity ? densityColours(dark) : colours.map(rgb);
	return imageOf(picture, (data, at, i) => {
		const n = picture.counts[i];
		const category = picture.category[i];
		if (n === 0 || !byDensity && hidden.has(category))
			return;
		const part = Math.log1p(n) / most;
		const colour = byDensity ? scale[Math.round(255 * part)]
			: scale[category] ?? [128, 128, 128];
		data[at] = colour[0];
		data[at + 1] = colour[1];
		data[at + 2] = colour[2];
		data[at + 3] = byDensity ? 255 : 185 + Math.round(70 * part);
	});
}
