/**
 * What a picture has at a place.
 */

const NEAR_PIXELS = 7;

/** The point that lies nearest to a place, within a few pixels; -1 for none. */
export function nearestPoint(picture, scale, at, hidden) {
	const { time_ns, y, category } = picture.points;
	let best = -1;
	let least = NEAR_PIXELS ** 2;
	for (let i = 0; i < picture.nPoints; i++) {
		const far = (scale.x(time_ns[i]) - at.x) ** 2 + (scale.y(y[i]) - at.y) ** 2;
		if (far < least && !hidden.has(category[i])) {
			least = far;
			best = i;
		}
	}
	return best;
}

/** The smallest drawn block at a place; -1 for none. */
export function blockAt(picture, time, y) {
	const { from_ns, to_ns, y: low, size } = picture.blocks;
	let best = -1;
	for (let i = 0; i < picture.nBlocks; i++) {
		const isNow = from_ns[i] <= time && (to_ns[i] === null || time < to_ns[i]);
		const isIn = isNow && low[i] <= y && y < low[i] + size[i];
		if (isIn && (best < 0 || size[i] < size[best]))
			best = i;
	}
	return best;
}

/** The number of the cell at a place; -1 outside. */
export function cellAt(picture, time, y) {
	const { from, to, low, high } = picture;
	const column = Math.floor((time - from) / (to - from) * picture.width);
	const row = Math.floor((y - low) / (high - low) * picture.height);
	const isIn = column >= 0 && column < picture.width && row >= 0 && row < picture.height;
	return isIn ? row * picture.width + column : -1;
}
