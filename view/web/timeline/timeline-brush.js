/**
 * Selecting time on charts, by pointer (mouse, pen or finger) and by keyboard.
 */
import { timeUnit } from "memsight/timeline-chart";
import { within } from "memsight/view";

const LEAST_DRAG = 4; // pixels: less is a click

/**
 * @param {Element} area  what has the keyboard's focus
 * @param {Object} app
 * @param {Object} now    { charts, view: [from, to] in ns }
 * @param {() => void} onEnd  a drag is over, whatever came of it
 * @returns {{ attach: (chart) => void, show: () => void, isDragging: () => boolean }}
 *   while isDragging() charts must stay
 */
export function createBrush(area, app, now, onEnd) {
	let begun = null;

	function paint(from, to) {
		const [, size] = timeUnit(now.view[1] - now.view[0]);
		for (const chart of now.charts) {
			const { clientWidth, clientHeight: height } = chart.over;
			const x = (ns) => within(chart.valToPos(ns / size, "x"), 0, clientWidth);
			const left = x(from);
			const width = Math.max(x(to) - left, from === null ? 0 : 1);
			chart.setSelect({ left, top: 0, width, height }, false);
		}
	}

	function show() {
		const { from, to, isAll } = app.span();
		if (isAll || from <= now.view[0] && to >= now.view[1]) {
			const none = { left: 0, top: 0, width: 0, height: 0 };
			now.charts.forEach((chart) => chart.setSelect(none, false));
		} else
			paint(from, to);
	}

	function select(from, to) {
		const least = Math.max(1, Math.round(app.duration / 1e6));
		const first = Math.round(Math.min(Math.max(from, 0), app.duration - least));
		const last = Math.round(Math.min(Math.max(to, first + least), app.duration));
		app.set({ from: first || null, to: last < app.duration ? last : null });
	}

	function attach(chart) {
		const timeAt = (event) => {
			const box = chart.over.getBoundingClientRect();
			const part = within((event.clientX - box.left) / box.width, 0, 1);
			return now.view[0] + part * (now.view[1] - now.view[0]);
		};
		const ends = (event) => [begun.time, timeAt(event)].sort((a, b) => a - b);
		const isDrag = (event) => begun && Math.abs(event.clientX - begun.x) >= LEAST_DRAG;
		chart.over.addEventListener("pointerdown", (event) => {
			if (event.button !== 0)
				return;
			begun = { x: event.clientX, time: timeAt(event) };
			chart.over.setPointerCapture(event.pointerId);
		});
		chart.over.addEventListener("pointermove", (event) => {
			if (isDrag(event))
				paint(...ends(event));
		});
		chart.over.addEventListener("pointerup", (event) => {
			const span = isDrag(event) ? ends(event) : null;
			begun = null;
			if (span)
				select(...span);
			onEnd();
		});
		chart.over.addEventListener("pointercancel", () => {
			begun = null;
			show();
			onEnd();
		});
		chart.over.addEventListener("dblclick", () => app.set({ from: null, to: null }));
	}

	area.addEventListener("keydown", (event) => {
		const { from, to, isAll } = app.span();
		const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		const step = (now.view[1] - now.view[0]) / 50 * direction;
		if (event.key === "Escape")
			app.set({ from: null, to: null });
		else if (Number.isNaN(step) || event.ctrlKey || event.metaKey || event.altKey)
			return;
		else if (isAll)
			select(now.view[0], now.view[0] + (now.view[1] - now.view[0]) / 10);
		else if (event.shiftKey)
			select(from, to + step);
		else if (from + step >= 0 && to + step <= app.duration)
			select(from + step, to + step);
		event.preventDefault();
	});
	return { attach, show, isDragging: () => begun !== null };
}
