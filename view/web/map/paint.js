/**
 * Draws time x address: a picture that fits the view or not (then it is scaled), axes, blocks,
 * touches, cross-hair.
 */
import { contextOf, frameOf, scaleOf } from "memsight/canvas-frame";
import { bytes } from "memsight/format";
import { drawMark } from "memsight/marks";
import { drawAddresses, drawTime, shortened } from "memsight/paint-axes";

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
	if (left >= right || top >= bottom)
		return null;
	return { left, top, width: right - left, height: bottom - top };
}

function drawBlocks(context, scene, scale, frame) {
	const { picture, theme, state } = scene;
	context.lineWidth = 1;
	context.strokeStyle = theme.blockEdge;
	for (let i = 0; i < picture.nBlocks; i++) {
		const box = blockBox(picture, i, scale, frame);
		if (!box)
			continue;
		const { left, top, width, height } = box;
		context.fillStyle = theme.block;
		context.fillRect(left, top, width, height);
		if (height >= 3 && width >= 3)
			context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
	}
	if (!state.site && !state.block)
		return;
	context.lineWidth = 2;
	context.strokeStyle = theme.ink;
	const [ids, wanted] = state.block ? [picture.blocks.id, state.block]
		: [picture.blocks.site, state.site];
	for (let i = 0; i < picture.nBlocks; i++) {
		const isChosen = String(ids[i]) === wanted;
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
		const label = shortened(context, text, box.width - 10);
		context.strokeText(label, box.left + 5, box.top + 3);
		context.fillText(label, box.left + 5, box.top + 3);
		context.restore();
	}
}

function drawPoints(context, scene, scale, frame) {
	const { picture, colours, hidden } = scene;
	const { time_ns, y, category } = picture.points;
	const r = picture.nPoints > 1500 ? 1.3 : 2;
	context.globalAlpha = picture.nPoints > 1500 ? 0.75 : 0.85;
	for (let i = 0; i < picture.nPoints; i++) {
		const px = scale.x(time_ns[i]);
		const py = scale.y(y[i]);
		const isIn = px >= frame.left && px <= frame.right
			&& py >= frame.top && py <= frame.bottom;
		if (hidden.has(category[i]) || !isIn)
			continue;
		context.fillStyle = colours[category[i]] ?? "#888888";
		drawMark(context, category[i], px, py, r);
	}
	context.globalAlpha = 1;
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

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Object} scene  view, axis, layers (each a picture with its images, colours and hidden
 *   categories; later ones cover earlier ones), byDensity, theme, state, siteNames, cursor, box,
 *   width, height, font, mono
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
		const { from, to, low, high } = layer.picture;
		context.save();
		context.beginPath();
		context.rect(scale.x(from), scale.y(high),
			(to - from) * scale.xUnit, (high - low) * scale.yUnit);
		context.clip();
		context.fillStyle = scene.theme.surface;
		context.fillRect(frame.left, frame.top, frame.width, frame.height);
		const of = { ...scene, ...layer };
		drawImage(context, scale, layer.picture, layer.occupancy);
		if (layer.pages)
			drawImage(context, scale, layer.picture, layer.pages);
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
