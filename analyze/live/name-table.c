#include "analyze/live/name-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void texts_finish(struct texts *texts)
{
	array_free(texts->items, texts->n, it, free(*it));
	key_map_finish(&texts->by_id);
	*texts = (struct texts){ 0 };
}

int texts_add(struct texts *texts, uint64_t id, const char *text, size_t n_bytes)
{
	if (key_map_get(&texts->by_id, id, 0))
		return 0;
	if (texts->n >= INT32_MAX || grow_one(&texts->items, texts->n, &texts->n_allocated) < 0)
		return -ENOMEM;
	char *copy = strndup(text, n_bytes);
	if (!copy || key_map_put(&texts->by_id, id, 0, texts->n + 1) < 0)
		return free(copy), -ENOMEM;
	texts->items[texts->n++] = copy;
	return 0;
}

int64_t texts_number(struct texts *texts, uint64_t id)
{
	static const char lost[] = "(name lost)";
	int64_t number = (int64_t)key_map_get(&texts->by_id, id, 0);

	if (number)
		return number;
	int r = texts_add(texts, id, lost, sizeof(lost) - 1);
	return r < 0 ? r : (int64_t)texts->n;
}

const char *texts_get(const struct texts *texts, uint32_t number)
{
	return texts->items[number - 1];
}
