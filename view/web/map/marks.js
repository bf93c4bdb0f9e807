/**
 * Marks of single touches. Categories differ in shape, too, for those who do not see the colours.
 */

/** Square, diamond, cross, disc. */
const MARKS = [
	(context, x, y, r) => context.fillRect(x - r, y - r, 2 * r, 2 * r),
	(context, x, y, r) => {
		context.beginPath();
		context.moveTo(x, y - 1.4 * r);
		context.lineTo(x + 1.4 * r, y);
		context.lineTo(x, y + 1.4 * r);
		context.lineTo(x - 1.4 * r, y);
		context.fill();
	},
	(context, x, y, r) => {
		context.fillRect(x - 1.5 * r, y - 0.5 * r, 3 * r, r);
		context.fillRect(x - 0.5 * r, y - 1.5 * r, r, 3 * r);
	},
	(context, x, y, r) => {
		context.beginPath();
		context.arc(x, y, 1.1 * r, 0, 2 * Math.PI);
		context.fill();
	},
];

/** The mark of the i-th category. */
export function drawMark(context, i, x, y, r) {
	MARKS[i % MARKS.length](context, x, y, r);
}
