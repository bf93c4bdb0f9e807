/**
 * What comes of a run that is being recorded: events of the server (schemas/view.def, live), and
 * the curves of a part of its time, of which the end grows with the events.
 */
import { rowsOf } from "memsight/data";

const WIDTH = 1000; // points that are asked for
const LATE_MS = 3000; // an event comes twice a second

/**
 * @param {(event: Object) => void} onEvent
 * @param {(isThere: boolean) => void} onLink  whether the server is heard
 */
export function listen(onEvent, onLink) {
	const source = new EventSource("api/live");
	let timer = 0;

	function heard(isThere) {
		clearTimeout(timer);
		timer = setTimeout(() => onLink(false), LATE_MS);
		onLink(isThere);
	}
	source.onmessage = (message) => {
		heard(true);
		onEvent(JSON.parse(message.data));
	};
	source.onerror = () => onLink(false); // the browser tries again by itself
	heard(true);
	return { close() { clearTimeout(timer); source.close(); } };
}

/**
 * Points of a part of the time: { begin, end, live, most, rss, rate, freeRate } of each. show()
 * asks for a part; add() takes the point of an event, and asks anew where one is missing.
 */
export function createCurve(app, onChange) {
	let points = [];
	let shown = { from: 0, to: 0 };
	let isAsking = false;

	const pointOf = (row) => ({
		begin: row.time_ns - row.interval_ns, end: row.time_ns, live: row.live_bytes,
		most: row.max_live_bytes, rss: row.rss_bytes, rate: row.rate,
		freeRate: row.free_rate });

	async function show(from, to) {
		shown = { from, to };
		if (isAsking)
			return;
		isAsking = true;
		const asked = shown;
		try {
			const answer = await app.ask("curve", { from: Math.round(asked.from),
				to: Math.round(Math.max(asked.to, asked.from + 1)), width: WIDTH });
			points = rowsOf(answer.points).map(pointOf);
			onChange();
		} catch {
			// The next event asks again: the server is gone, or the run has ended.
		} finally {
			isAsking = false;
		}
		if (asked.from !== shown.from)
			await show(shown.from, shown.to);
	}

	return {
		show,
		points: () => points,
		add(row, from, to) {
			const point = pointOf(row);
			const last = points.at(-1);
			shown.to = to;
			if (!last || point.begin > last.end || points.length > 2 * WIDTH)
				return show(from, to);
			/* Of a long run several looks are one point, which grows. */
			while (points.length && points.at(-1).begin >= point.begin)
				points.pop();
			points.push(point);
			while (points.length > 1 && points[0].end < from)
				points.shift();
			return onChange();
		},
	};
}
