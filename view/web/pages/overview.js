/**
 * The timeline in short, above pages that follow the selected time.
 */
import { create as createTimeline } from "memsight/timeline";

export function create(root, app) {
	return createTimeline(root, app, { isOverview: true });
}
