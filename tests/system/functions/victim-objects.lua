-- Makes as many objects as it is told, of which a tenth stays. Prints what Lua's own statistics say
-- that was taken since the module was loaded.
collectgarbage("collect")
collectgarbage("stop")
require "memsight_lua"
local before = collectgarbage("count") * 1024
local keep = {}
for i = 1, tonumber(arg[1]) do
	local object = { i, tostring(i) }
	if i % 10 == 0 then keep[#keep + 1] = object end
end
collectgarbage("collect")
collectgarbage("stop")
print(string.format("%d", collectgarbage("count") * 1024 - before))
io.stdout:flush()
os.exit(0, false)
