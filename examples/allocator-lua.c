/*
 * Memory of Lua as blocks of memsight: LuaJIT has an allocator of its own, which asks the kernel
 * for chunks. A module that is required before all else:
 *
 *	cc -shared -fPIC -O2 -o memsight_lua.so allocator-lua.c
 *	memsight record -o app.mst -- luajit -l memsight_lua app.lua
 *
 * It stands between a state and its allocator. What lived before it was loaded is not known: ends
 * of that are in `report --losses`. Lua's own headers are not needed.
 */
#include <memsight.h>
#include <stddef.h>

struct lua_State;
typedef void *(*lua_Alloc)(void *data, void *block, size_t old_size, size_t size);

extern lua_Alloc lua_getallocf(struct lua_State *state, void **ret_data);
extern void lua_setallocf(struct lua_State *state, lua_Alloc allocate, void *data);

static lua_Alloc real;

/* The data stays that of the real one: LuaJIT has the state's pool there. */
static void *allocate(void *data, void *block, size_t old_size, size_t size)
{
	void *made;

	if (block && size == 0)
		memsight_block_end(block);
	made = real(data, block, old_size, size);
	if (!made)
		return NULL;
	if (block)
		memsight_block_end(block);
	memsight_block(made, size, data);
	return made;
}

int luaopen_memsight_lua(struct lua_State *state);
int luaopen_memsight_lua(struct lua_State *state)
{
	void *data;

	if (!real) {
		real = lua_getallocf(state, &data);
		lua_setallocf(state, allocate, data);
	}
	return 0;
}
