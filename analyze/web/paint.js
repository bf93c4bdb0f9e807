/**
 * Draws time x address: a picture that fits the view or not (then it is scaled), axes, blocks, touches, cross-hair.
 */
import { bandName, bandPieces, gutter, MARGIN, timeTicks } from "memsight/axis";
import { address, bytes } from "memsight/format";

/** @typedef {{ from: number, to: number, low: number, high: number }} View  ns and bytes of the squeezed axis */

/** Pixels of the plot within a canvas of this size. */
export function frameOf(width, height) {
	const left = gutter();
	return { left, top: 8, right: width - MARGIN, bottom: height - 30, width: width - MARGIN - left, height: height - 38 };
}

/** From a view's units to pixels and back. */
export function scaleOf(frame, view) {
	const xUnit = frame.width / (view.to - view.from);
	const yUnit = frame.height / (view.high - view.low);
	return {
		x: (ns) => frame.left + (ns - view.from) * xUnit,
		y: (at) => frame.bottom - (at - view.low) * yUnit,
		time: (x) => view.from + (x - frame.left) / xUnit,
		at: (y) => view.low + (frame.bottom - y) / yUnit,
		xUnit, yUnit,
	};
}

function drawImage(context, scale, picture, image) {
	const left = scale.x(picture.from);
	const top = scale.y(picture.high);
	context.imageSmoothingEnabled = false;
	context.drawImage(image, left, top, scale.x(picture.to) - left, scale.y(picture.low) - top);
}

/** A block as pixels, or null outside of the frame. */
export function blockBox(picture, i, scale, frame) {
	const { from_ns, to_ns, y, size } = picture.blocks;
	const left = Math.max(scale.x(from_ns[i]), frame.left);
	const right = Math.min(to_ns[i] === null ? frame.right : scale.x(to_ns[i]), frame.right);
	const top = Math.max(scale.y(y[i] + size[i]), frame.top);
	const bottom = Math.min(scale.y(y[i]), frame.bottom);
	return left < right && top < bottom ? { left, top, width: right - left, height: bottom - top } : null;
}

function drawBlocks(context, scene, scale, frame) {
	const { picture, theme, state } = scene;
	context.lineWidth = 1;
	context.strokeStyle = theme.blockEdge;
	for (let i = 0; i < picture.nBlocks; i++) {
		const box = blockBox(picture, i, scale, frame);
		if (!box)
			continue;
		context.fillStyle = theme.block;
		context.fillRect(box.left, box.top, box.width, box.height);
		if (box.height >= 3 && box.width >= 3)
			context.strokeRect(box.left + 0.5, box.top + 0.5, box.width - 1, box.height - 1);
	}
	if (!state.site && !state.block)
		return;
	context.lineWidth = 2;
	context.strokeStyle = theme.ink;
	for (let i = 0; i < picture.nBlocks; i++) {
		const isChosen = state.block ? String(picture.blocks.id[i]) === state.block : String(picture.blocks.site[i]) === state.site;
		const box = isChosen ? blockBox(picture, i, scale, frame) : null;
		if (box)
			context.strokeRect(box.left, box.top, box.width, Math.max(box.height, 2));
	}
}

/** Where a block is large, who allocated it. */
function drawNames(context, scene, scale, frame) {
	const { picture, theme, siteNames } = scene;
	context.font = scene.font;
	context.textBaseline = "top";
	context.textAlign = "left";
	context.lineJoin = "round";
	for (let i = 0; i < Math.min(picture.nBlocks, 300); i++) {
		const box = blockBox(picture, i, scale, frame);
		const name = siteNames.get(picture.blocks.site[i]);
		if (!box || !name || box.height < 18 || box.width < 60)
			continue;
		const text = `${name.split(" < ")[0]}  ${bytes(picture.blocks.size[i])}`;
		context.save();
		context.beginPath();
		context.rect(box.left, box.top, box.width - 4, box.height);
		context.clip();
		context.lineWidth = 3;
		context.strokeStyle = theme.block;
		context.fillStyle = theme.ink;
		context.strokeText(text, box.left + 5, box.top + 3);
		context.fillText(text, box.left + 5, box.top + 3);
		context.restore();
	}
}

/** Marks differ in shape too: square, diamond, cross, ring. */
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

function drawPoints(context, scene, scale, frame) {
	const { picture, colours, hidden } = scene;
	const { time_ns, y, category } = picture.points;
	const r = picture.nPoints > 1500 ? 1.3 : 2;
	context.globalAlpha = picture.nPoints > 1500 ? 0.75 : 0.85;
	for (let i = 0; i < picture.nPoints; i++) {
		const px = scale.x(time_ns[i]);
		const py = scale.y(y[i]);
		if (hidden.has(category[i]) || px < frame.left || px > frame.right || py < frame.top || py > frame.bottom)
			continue;
		context.fillStyle = colours[category[i]] ?? "#888888";
		drawMark(context, category[i], px, py, r);
	}
	context.globalAlpha = 1;
}

function drawTime(context, { view, theme, font }, scale, frame) {
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
		context.fillText(tick.text, Math.min(x, frame.right + MARGIN - half), frame.bottom + 8);
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

function shortened(context, text, width) {
	if (context.measureText(text).width <= width)
		return text;
	let n = text.length;
	while (n > 1 && context.measureText(text.slice(0, n) + "…").width > width)
		n--;
	return text.slice(0, n) + "…";
}

function pieceText(piece) {
	return piece.bands.length === 1 ? bandName(piece.bands[0]) : `${piece.bands.length} small ranges`;
}

function drawAddresses(context, { axis, view, theme, font, mono }, scale, frame) {
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
			context.fillText(shortened(context, pieceText(piece), width), frame.left - 12, middle);
			free = middle - half;
		}
		if (piece.bands.length > 1 || piece.bottom - piece.top < 56 || frame.left < 120)
			continue;
		context.font = mono;
		context.fillStyle = theme.muted;
		context.textBaseline = "bottom";
		context.fillText(address(axis.addressOf(Math.max(piece.bands[0].y, view.low))), frame.left - 12, Math.min(piece.bottom - 1, below));
		context.textBaseline = "top";
		const last = Math.min(piece.bands[0].y + piece.bands[0].size, view.high) - 1;
		context.fillText(address(axis.addressOf(last) + 1), frame.left - 12, piece.top + 1);
		free = Math.min(free, piece.top);
	}
}

function drawCursor(context, { cursor, theme }, frame) {
	if (!cursor)
		return;
	context.strokeStyle = theme.ink;
	context.globalAlpha = 0.55;
	context.lineWidth = 1;
	context.setLineDash([3, 3]);
	context.beginPath();
	context.moveTo(Math.round(cursor.x) + 0.5, frame.top);
	context.lineTo(Math.round(cursor.x) + 0.5, frame.bottom);
	context.moveTo(frame.left, Math.round(cursor.y) + 0.5);
	context.lineTo(frame.right, Math.round(cursor.y) + 0.5);
	context.stroke();
	context.setLineDash([]);
	context.globalAlpha = 1;
}

function drawBox(context, { box, theme }, frame) {
	if (!box)
		return;
	context.fillStyle = theme.accent;
	context.globalAlpha = 0.18;
	const top = box.isTimeOnly ? frame.top : Math.min(box.y0, box.y1);
	const height = box.isTimeOnly ? frame.height : Math.abs(box.y1 - box.y0);
	context.fillRect(Math.min(box.x0, box.x1), top, Math.abs(box.x1 - box.x0), height);
	context.globalAlpha = 1;
	context.strokeStyle = theme.accent;
	context.lineWidth = 1.5;
	context.strokeRect(Math.min(box.x0, box.x1), top, Math.abs(box.x1 - box.x0), height);
}

/** The canvas in device pixels, its context in those of the page. */
export function contextOf(canvas, width, height) {
	const ratio = window.devicePixelRatio || 1;
	if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
	}
	const context = canvas.getContext("2d");
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.clearRect(0, 0, width, height);
	return context;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Object} scene  view, axis, layers (each a picture with its images, colours and hidden categories; later ones cover
 *   earlier ones), byDensity, theme, state, siteNames, cursor, box, width, height, font, mono
 */
export function paintScene(canvas, scene) {
	const context = contextOf(canvas, scene.width, scene.height);
	const frame = frameOf(scene.width, scene.height);
	const scale = scaleOf(frame, scene.view);
	context.save();
	context.beginPath();
	context.rect(frame.left, frame.top, frame.width, frame.height);
	context.clip();
	for (const layer of scene.layers) {
		context.save();
		context.beginPath();
		context.rect(scale.x(layer.picture.from), scale.y(layer.picture.high), (layer.picture.to - layer.picture.from) * scale.xUnit,
			(layer.picture.high - layer.picture.low) * scale.yUnit);
		context.clip();
		context.fillStyle = scene.theme.surface;
		context.fillRect(frame.left, frame.top, frame.width, frame.height);
		const of = { ...scene, ...layer };
		drawImage(context, scale, layer.picture, layer.occupancy);
		drawBlocks(context, of, scale, frame);
		if (layer.picture.nPoints > 0 && !scene.byDensity)
			drawPoints(context, of, scale, frame);
		else
			drawImage(context, scale, layer.picture, layer.touches);
		drawNames(context, of, scale, frame);
		context.restore();
	}
	drawBox(context, scene, frame);
	drawCursor(context, scene, frame);
	context.restore();
	context.strokeStyle = scene.theme.line;
	context.lineWidth = 1;
	context.strokeRect(frame.left - 0.5, frame.top - 0.5, frame.width + 1, frame.height + 1);
	drawTime(context, scene, scale, frame);
	drawAddresses(context, scene, scale, frame);
}
