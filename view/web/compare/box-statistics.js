/**
 * What a box plot shows of repetitions: quartiles come from the database (the same as in `memsight
 * report --stat`); here are only whiskers, and how points and scales lie. Nothing here draws.
 */

/**
 * The quantile p of sorted values, between two of them in proportion (as statistics_quantile() of
 * common/statistics.c).
 */
export function quantile(sorted, p) {
	const at = p * (sorted.length - 1);
	const i = Math.floor(at);
	const step = i + 1 < sorted.length ? sorted[i + 1] - sorted[i] : 0;
	return sorted[i] + (at - i) * step;
}

/**
 * Tukey's whiskers: the outermost values within 1.5 times the distance of the quartiles beyond
 * them; others are outliers.
 *
 * @returns {{ low: number, high: number, outliers: number[] }} outliers: indexes of values
 */
export function whiskersOf(values, q1, q3) {
	const [least, most] = [q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)];
	const within = values.filter((value) => value >= least && value <= most);
	const isBeyond = (value) => value < least || value > most;
	return { low: Math.min(q1, ...within), high: Math.max(q3, ...within),
		outliers: values.flatMap((value, i) => (isBeyond(value) ? [i] : [])) };
}

/** Ends of an axis for values: from 0 where that does not hide how they differ, with some air. */
export function axisOf(values) {
	const low = Math.min(...values);
	const high = Math.max(...values);
	if (!values.length || !Number.isFinite(low))
		return [0, 1];
	if (low >= 0 && low < 0.5 * high || high === low && high === 0)
		return [0, high * 1.04 || 1];
	const air = (high - low || Math.abs(high) || 1) * 0.06;
	return [low - air, high + air];
}

/**
 * Where points of one box stand, -1 to 1 across it, so that equal values lie side by side: the same
 * each time.
 */
export function spread(n) {
	return Array.from({ length: n }, (_, i) => (n === 1 ? 0 : ((i * 0.618034) % 1) * 2 - 1));
}
