/**
 * The axes beside time x address: moments below it, and names and addresses of ranges to its left.
 */
import { bandName, bandPieces, MARGIN, timeTicks } from "memsight/axis";
import { address } from "memsight/format";

export function drawTime(context, { view, theme, font }, scale, frame) {
	context.font = font;
	context.textBaseline = "top";
	context.textAlign = "center";
	context.lineWidth = 1;
	for (const tick of timeTicks(view.from, view.to, frame.width)) {
		const x = Math.round(scale.x(tick.at)) + 0.5;
		if (x < frame.left || x > frame.right)
			continue;
		context.strokeStyle = theme.line;
		context.beginPath();
		context.moveTo(x, frame.bottom);
		context.lineTo(x, frame.bottom + 5);
		context.stroke();
		context.fillStyle = theme.muted;
		const half = context.measureText(tick.text).width / 2;
		const at = Math.min(x, frame.right + MARGIN - half);
		context.fillText(tick.text, at, frame.bottom + 8);
	}
}

/** A hole in the addresses: two short slanted strokes across the axis. */
function drawBreak(context, x, y, theme) {
	context.strokeStyle = theme.ink;
	context.beginPath();
	for (const shift of [-2, 2]) {
		context.moveTo(x - 5, y + 2.5 + shift);
		context.lineTo(x + 5, y - 2.5 + shift);
	}
	context.stroke();
}

/** As much of a text as fits into so many pixels. */
export function shortened(context, text, width) {
	if (context.measureText(text).width <= width)
		return text;
	let n = text.length;
	while (n > 1 && context.measureText(text.slice(0, n) + "…").width > width)
		n--;
	return text.slice(0, n) + "…";
}

/** What a piece of the axis is called, in as many letters as fit. */
function pieceText(context, piece, width) {
	const names = [...new Set(piece.bands.map(bandName))];
	const n = piece.bands.length;
	const shorter = names.length > 1 ? [`${n} small ranges`, `${n} ranges`]
		: names[0].split(" ").slice(0, 1);
	const texts = [names.join(", "), ...shorter];
	return texts.find((text) => context.measureText(text).width <= width)
		?? shortened(context, texts.at(-1), width);
}

export function drawAddresses(context, { axis, view, theme, font, mono }, scale, frame) {
	const width = frame.left - 18;
	context.textAlign = "right";
	context.lineWidth = 1;
	let free = frame.bottom + 1; // labels below this pixel are taken
	for (const piece of bandPieces(axis, scale.y, view, 15)) {
		const middle = (piece.top + piece.bottom) / 2;
		const isFirst = piece.bands[0].y <= view.low;
		if (!isFirst) {
			context.strokeStyle = theme.line;
			context.beginPath();
			context.moveTo(frame.left, Math.round(piece.bottom) + 0.5);
			context.lineTo(frame.right, Math.round(piece.bottom) + 0.5);
			context.stroke();
			drawBreak(context, frame.left, piece.bottom, theme);
		}
		context.font = font;
		context.textBaseline = "middle";
		const half = 7;
		const below = free;
		if (middle + half <= free && middle - half >= frame.top - 4) {
			context.fillStyle = theme.ink;
			context.fillText(pieceText(context, piece, width), frame.left - 12, middle);
			free = middle - half;
		}
		const [band] = piece.bands;
		if (piece.bands.length > 1 || piece.bottom - piece.top < 56 || frame.left < 120)
			continue;
		context.font = mono;
		context.fillStyle = theme.muted;
		context.textBaseline = "bottom";
		const first = axis.addressOf(Math.max(band.y, view.low));
		const bottom = Math.min(piece.bottom - 1, below);
		context.fillText(address(first), frame.left - 12, bottom);
		context.textBaseline = "top";
		const last = axis.addressOf(Math.min(band.y + band.size, view.high) - 1);
		context.fillText(address(last + 1), frame.left - 12, piece.top + 1);
		free = Math.min(free, piece.top);
	}
}
