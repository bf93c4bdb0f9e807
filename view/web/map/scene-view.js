/**
 * The part of time and addresses that the panel time x address shows: what is in the state, and
 * what the wheel or a drag has made of it meanwhile.
 */
import { debounced } from "memsight/dom";
import { numberOf } from "memsight/state";
import { clipped, moved, sameView, zoomed } from "memsight/view";

const WHEEL_MS = 160; // without a turn, until the state follows

/**
 * @param {() => number} height  of the axis of addresses
 * @param {() => void} onMove    it shows something else
 * @returns {Object} now: the view, null until it was taken from a state; whole(); take(state);
 *   forget(); go(next, { soon }): whether that is another view, which the state has at once or
 *   soon; drag(next): for the time being; step(columns, rows): eighths of what it shows;
 *   zoom(factor, about: null is its middle); reset()
 */
export function createSceneView(app, height, onMove) {
	let view = null;

	const whole = () => ({ from: 0, to: app.duration, low: 0, high: height() });

	/** Puts the view into the state; where it is all of an axis the keys go. */
	function commit() {
		const all = whole();
		const inTime = view.from !== all.from || view.to !== all.to;
		const inAddress = view.low !== all.low || view.high !== all.high;
		app.set({ from: inTime ? view.from : null, to: inTime ? view.to : null,
			low: inAddress ? view.low : null, high: inAddress ? view.high : null });
	}
	const commitSoon = debounced(WHEEL_MS, commit);

	function go(next, { soon = false } = {}) {
		const kept = clipped(next, app.duration, height());
		const isNew = !sameView(kept, view);
		view = kept;
		onMove();
		if (soon) {
			commitSoon();
		} else {
			commitSoon.cancel();
			commit();
		}
		return isNew;
	}

	function forget() {
		commitSoon.cancel();
		view = null;
	}

	return {
		get now() { return view; },
		whole, go, forget,
		/**
		 * What the wheel has made of it, and the state does not have yet, is not thrown
		 * away.
		 */
		take(state) {
			const all = whole();
			if (view && commitSoon.isWaiting())
				return;
			const wanted = {
				from: numberOf(state.from, 0), to: numberOf(state.to, all.to),
				low: numberOf(state.low, 0), high: numberOf(state.high, all.high),
			};
			view = clipped(wanted, all.to, all.high);
		},
		drag(next) {
			view = next;
			onMove();
		},
		/** A view that is dragged by so many ns and bytes. */
		moved: (from, ns, bytes) => moved(from, ns, bytes, app.duration, height()),
		step(columns, rows) {
			if (!view)
				return;
			const ns = columns * (view.to - view.from) / 8;
			const bytes = rows * (view.high - view.low) / 8;
			go(moved(view, ns, bytes, app.duration, height()));
		},
		zoom(factor, about = null) {
			if (!view)
				return;
			const middle = {
				time: (view.from + view.to) / 2, at: (view.low + view.high) / 2 };
			go(zoomed(view, about ?? middle, factor));
		},
		reset() {
			if (view)
				go(whole());
		},
	};
}
